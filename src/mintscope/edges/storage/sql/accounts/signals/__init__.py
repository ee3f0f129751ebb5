"""Signals, in the SQL that every engine understands."""
