"""Holdings of users: credits, and wallets that they have proven to be theirs."""
