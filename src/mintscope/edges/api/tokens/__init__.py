"""What is free to know: the list of all tokens, what each of them is, and answers to build with."""
