"""Letters on their way: as messages, by SMTP, out of the outbox."""
