"""Series of mints, read in the SQL that every engine understands."""
