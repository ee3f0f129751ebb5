"""Pages of accounts: sign-up, sign-in, sessions, links in e-mails."""
