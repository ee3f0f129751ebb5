"""Statements and rows that several account stores share."""
