"""Copying an installation, whatever engine it is on: table by table, and checked row by row."""
