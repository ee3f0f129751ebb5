"""Sending letters by SMTP."""
