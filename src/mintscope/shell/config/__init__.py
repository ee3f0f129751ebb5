"""Configuration: environment over TOML over defaults, to frozen sections, once."""
