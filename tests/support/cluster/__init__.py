"""A whole cluster on one machine: real servers, real processes and a balancer."""
