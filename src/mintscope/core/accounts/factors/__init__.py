"""The second factor of a person: codes of an app, passkeys, and codes for when both are lost."""
