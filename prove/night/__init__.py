"""Reports to an operator at night: real faults under a running service, and the signs of each."""
