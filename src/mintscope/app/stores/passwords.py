"""Opens the hasher of the passwords of accounts."""

from contextlib import AbstractContextManager, closing

from mintscope.accounts.passwords import Argon2Hasher
from mintscope.accounts.user import Hasher


def open_hasher() -> AbstractContextManager[Hasher]:
    """Return a context manager of the password hasher; its threads end with the block."""
    return closing(Argon2Hasher())
