"""The market, in the SQL that every engine understands."""
