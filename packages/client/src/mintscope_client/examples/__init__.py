"""Example programs to copy; they need httpx or pandas, but no mintscope package."""
