"""The x402 protocol: headers, memo, verification."""
