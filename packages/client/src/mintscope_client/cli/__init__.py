"""Commands that read from any service; the credential is never an argument."""
