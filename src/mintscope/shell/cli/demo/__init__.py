"""`mintscope demo`, the devchain and the faucet."""
