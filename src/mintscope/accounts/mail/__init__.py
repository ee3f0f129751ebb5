"""E-mail: outbox, delivery, templates."""
