"""What the list of all tokens reads, in the SQL that every engine understands."""
