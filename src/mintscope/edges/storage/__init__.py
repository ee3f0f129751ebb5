"""The ports of the core, kept."""
