"""The folder of a demo: gone at its end, or at the start of the next one if it was killed."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

PREFIX: Final = "mintscope-demo-"


@contextmanager
def demo_folder() -> Iterator[Path]:
    """Yield a new folder that lives as long as the block; remove those of demos that were killed.

    A demo holds a lock on its folder, which the kernel releases however the demo ends.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        _remove_if_left(left)
    folder, lock = _locked_folder()
    try:
        with folder:
            yield Path(folder.name)
    finally:
        os.close(lock)


def _locked_folder() -> tuple[tempfile.TemporaryDirectory[str], int]:
    """Return a new folder and the descriptor that holds its lock.

    Until it is locked, a demo that starts at the same moment removes it as left by a killed one:
    then the next is made.
    """
    while True:
        folder = tempfile.TemporaryDirectory(prefix=PREFIX)
        with suppress(FileNotFoundError):
            lock = os.open(folder.name, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if _is_at(folder.name, lock):
                return folder, lock
            os.close(lock)
        folder.cleanup()


def _is_at(path: str, descriptor: int) -> bool:
    """Return whether *path* still names what *descriptor* has open."""
    try:
        return os.path.samestat(Path(path).stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _remove_if_left(folder: Path) -> None:
    """Remove *folder* if it is ours and no demo holds it."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return  # it went meanwhile, or belongs to another user
    try:
        if os.fstat(descriptor).st_uid == os.getuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        pass  # a demo runs there
    finally:
        os.close(descriptor)
