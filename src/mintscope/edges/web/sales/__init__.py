"""Pages on which people see what is for sale, and buy credits from a wallet."""
