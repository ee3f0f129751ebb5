"""The folder of an embedded installation: the files in it, and one process for each role."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mintscope.base.errors import FolderInUse

MARKET_FILE: Final = "market.sqlite"
MONEY_FILE: Final = "money.sqlite"
PEPPER_FILE: Final = "pepper"


@contextmanager
def held(folder: Path, role: str) -> Iterator[None]:
    """Hold *folder* for *role* until the block ends; the kernel releases it if the process dies.

    Raises FolderInUse while another process holds it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / f"{role}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderInUse(
                f"expected to be the only {role} of {folder}; another one is running"
            ) from None
        yield
