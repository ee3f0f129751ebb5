"""The credits feature: credit tokens, the ledger, rotation, sign-in with a wallet."""
