"""Checks of an installation, for `mintscope doctor` and for directories of APIs."""
