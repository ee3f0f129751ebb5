"""Free data: the list of all tokens, the facts of each, and answers to build with."""
