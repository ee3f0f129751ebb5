"""Prepaid credits: the rules and the port of the ledger.  Pure."""
