"""What users hold: credits, and wallets that they have proven to be theirs."""
