"""What an operator is told at night: real faults under a running service, and who names them."""
