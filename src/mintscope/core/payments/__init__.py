"""Payments: their rules from the quote to the settled receipt."""
