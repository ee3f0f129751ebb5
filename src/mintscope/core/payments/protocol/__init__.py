"""x402 on the wire: headers, requirements, transactions and the checks of them."""
