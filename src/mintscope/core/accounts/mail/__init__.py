"""E-mails as accounts know them: what is written, and the outbox."""
