"""Common parts of the processes of one installation: waiting, and knowledge of each other."""
