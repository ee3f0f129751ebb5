"""Commands that read from any service, with a credential that is never in their arguments."""
