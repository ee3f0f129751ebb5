"""What selling is made of: terms, prices, what recognises payments."""
