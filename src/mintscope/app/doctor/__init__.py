"""Checks of an installation, for `mintscope doctor`, and files that list it in API catalogs."""
