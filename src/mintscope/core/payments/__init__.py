"""What a payment is: its rules from the quote to the settled receipt."""
