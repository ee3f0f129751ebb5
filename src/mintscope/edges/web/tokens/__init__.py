"""The list of tokens for people: sorted, searched, narrowed, and watched."""
