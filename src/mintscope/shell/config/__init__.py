"""Configuration: environment over TOML over defaults, to frozen sections, once.

A component receives its section, or the values it needs, by hand; nothing here
is a global.
"""
