"""Reads of the list of all tokens, in the SQL that every engine understands."""
