"""Example programs to copy; each needs httpx but no mintscope package."""
