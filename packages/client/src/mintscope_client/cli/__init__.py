"""Commands that read from any service; their arguments never hold the credential."""
