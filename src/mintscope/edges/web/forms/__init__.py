"""How a form is read and checked."""
