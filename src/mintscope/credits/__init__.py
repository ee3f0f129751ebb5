"""Credit tokens: ledger, rotation, sign-in with a wallet."""
