"""Every setting: its name with the unit, its default, its bounds, its meaning."""
