"""What things cost: the price of the payment token and the price list."""
