"""Users, sessions, second factors, the audit log."""
