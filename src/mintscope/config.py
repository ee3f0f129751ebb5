"""Configuration: environment and TOML to frozen sections, once."""
