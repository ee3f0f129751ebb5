"""The buyer: pays for requests and credits within a budget."""
