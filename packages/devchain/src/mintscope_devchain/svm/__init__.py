"""The virtual machine under the devchain: accounts, and what transactions do to them."""
