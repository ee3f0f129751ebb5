"""What is wrong with the stores of an installation; every message is for the operator.

* UnusableStore
  x UnusablePepper
  x FolderInUse
"""


class UnusableStore(Exception):
    """A store cannot be used as it is; the message says what was expected and what was there."""


class UnusablePepper(UnusableStore):
    """There is no usable pepper, the key of every stored hash."""


class FolderInUse(UnusableStore):
    """Another process already has this role in this folder."""
