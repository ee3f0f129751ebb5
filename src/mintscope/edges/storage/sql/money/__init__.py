"""Credits and payments, in the SQL that every engine understands."""
