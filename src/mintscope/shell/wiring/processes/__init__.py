"""What the processes of one installation share: how they wait, what they know of each other."""
