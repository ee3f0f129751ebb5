"""Example programs to copy; they need httpx but no mintscope package."""
