"""Bearer strings: made once, shown once, stored only as a hash."""
