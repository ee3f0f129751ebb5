"""Causes faults in a running service, and checks the signs by which an operator learns of them."""
