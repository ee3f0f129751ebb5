"""Stores written in the SQL that every engine understands."""
