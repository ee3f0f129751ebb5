"""`mintscope history`."""
