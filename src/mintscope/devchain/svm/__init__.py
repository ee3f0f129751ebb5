"""The virtual machine under the dev chain: accounts, and what transactions do to them."""
