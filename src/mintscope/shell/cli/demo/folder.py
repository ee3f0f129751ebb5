"""The folder of a demo: gone at its end, or at the start of the next one if it was killed."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
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
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield Path(folder)
        finally:
            os.close(descriptor)


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
