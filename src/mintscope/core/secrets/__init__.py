"""The secrets that an operator configures: which of them others can guess."""
