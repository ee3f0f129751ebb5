"""The folder of an embedded installation: one process a role."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class FolderInUse(Exception):
    """Another process plays this role in this folder; the message is for the operator."""


@contextmanager
def held(folder: Path, role: str) -> Iterator[None]:
    """Hold *folder* for *role* until the block ends; the kernel lets go of it if we die.

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
