"""The virtual machine of the devchain: accounts, and the effects of transactions."""
