"""E-mail: its texts, its messages, and their delivery by SMTP."""
