"""Commands that read from any service; no credential is passed as an argument."""
