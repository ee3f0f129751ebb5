"""Programs to copy: each needs httpx and nothing of mintscope."""
