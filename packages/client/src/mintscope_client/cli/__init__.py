"""Commands that read from any mintscope service; no command takes a credential as an argument."""
