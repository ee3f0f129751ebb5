"""The folder of an installation: its files, its pepper, and locks that allow one process per role.

The pepper is the key of every stored hash; it is in a file of its own, outside the database.
"""

import fcntl
import os
import shutil
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from secrets import token_bytes, token_hex
from typing import IO, Final

from mintscope.kit.credentials import PEPPER_BYTES_MIN, Root, flaw_of_key, parse_root
from mintscope.kit.errors import FolderInUse, FolderOpen, UnusablePepper
from mintscope.kit.files import access_trouble, give_to_owner, make_folder

MARKET_FILE: Final = "market.sqlite"
MONEY_FILE: Final = "money.sqlite"
WEBHOOKS_FILE: Final = "webhooks.sqlite"
PEPPER_FILE: Final = "pepper"
ROOTS_FILE: Final = "roots"  # the roots from which signing keys derive after a rotation
ROLES: Final = ("serve", "ingest", "api")
LOOK_AGAIN_S: Final = 0.05
OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


@contextmanager
def held(
    folder: Path, role: str, *, may_be_open: bool = False, patience_s: float = 0.0
) -> Iterator[None]:
    """Lock *folder* for *role* during the block; the kernel releases a dead process's lock.

    may_be_open   whether other users of the machine may have access to the folder
    patience_s    seconds to wait for another process to release the lock
    Raises        FolderInUse if another process has the lock; FolderOpen if other users have access
                  and *may_be_open* is False
    """
    make_folder(folder)
    if not may_be_open:
        _expect_closed(folder)
    # This file is never removed: otherwise two processes could lock two files of the same name.
    path = folder / f"{role}.lock"
    is_new = not path.exists()
    with path.open("w") as file:
        if is_new:
            give_to_owner(path)
        end_s = time.monotonic() + patience_s
        # A blocking `flock` would wait without a limit.
        while not _is_locked(file):
            if time.monotonic() >= end_s:
                raise FolderInUse(
                    f"expected to be the only {role} of {folder}; another {role} is running"
                )
            time.sleep(LOOK_AGAIN_S)
        yield


@contextmanager
def unused(folder: Path) -> Iterator[None]:
    """Prevent the service from using *folder* during the block.  Raises FolderInUse if it runs."""
    with ExitStack() as stack:
        for role in ROLES:
            try:
                stack.enter_context(held(folder, role, may_be_open=True))
            except FolderInUse as cause:
                raise FolderInUse(
                    f"expected no mintscope {role} in {folder}; one is running: stop it first"
                ) from cause
        yield


def is_in_use(folder: Path) -> bool:
    """Return whether the service uses *folder*; True also if this user may not read its locks."""
    for role in ROLES:
        try:
            with (folder / f"{role}.lock").open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            continue
        except OSError:
            return True
    return False


def _expect_closed(folder: Path) -> None:
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & OTHERS:
        raise FolderOpen(
            f"expected {folder} to be closed to other users, for it holds secrets and balances;"
            f" its mode is {mode:o}: chmod 700 {folder}, or set data_dir_may_be_open"
        )


def _is_locked(file: IO[str]) -> bool:
    """Try to lock *file*; return whether this process now holds the lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def load_pepper(path: Path, *, signs: bool = True, may_make: bool = True) -> bytes:
    """Return the pepper stored at *path*; create it if the file is missing and *may_make*.

    The pepper must be backed up apart from the database: without it, all issued credentials are
    void.

    signs     whether the keys that sign quotes and receipts are derived from the pepper: until the
              first root
    may_make  whether to create a missing pepper; False if a stored credential needs an earlier one
    Raises    UnusablePepper if the file is missing and must not be created, cannot be read, has
              no pepper, or is open to other users; with *signs*, also if the pepper can be
              guessed
    """
    if not path.exists():
        if not may_make:
            raise UnusablePepper(
                f"expected the pepper of these credentials at {path}; there is none: copy it from"
                " a backup, or from the machine that the store was moved from"
            )
        _make_pepper(path)
    try:
        pepper = bytes.fromhex(path.read_text().strip())
    except OSError as cause:
        raise UnusablePepper(f"expected to read {path}: {access_trouble(path) or cause}") from cause
    except ValueError as cause:
        raise UnusablePepper(f"expected {PEPPER_BYTES_MIN} bytes in hex at {path}") from cause
    if len(pepper) < PEPPER_BYTES_MIN:
        raise UnusablePepper(
            f"expected at least {PEPPER_BYTES_MIN} bytes in hex at {path}; there were {len(pepper)}"
        )
    _expect_secret(path)
    flaw = flaw_of_key(pepper)
    if flaw is not None and signs:
        raise UnusablePepper(
            f"expected a pepper of your own at {path}; {flaw}: if credentials were issued with it,"
            " `mintscope secrets rotate` lets another secret sign"
        )
    return pepper


def load_roots(path: Path) -> Sequence[Root]:
    """Return the roots stored at *path*; empty if the file is missing.  Raises UnusablePepper."""
    if not path.exists():
        return ()
    _expect_secret(path)
    try:
        return [parse_root(line) for line in path.read_text().splitlines()]
    except (OSError, ValueError) as cause:
        raise UnusablePepper(f"{path}: {cause}") from cause


def keep_roots(path: Path, roots: Iterable[Root]) -> None:
    """Replace the contents of the file *path* by *roots*, completely or not at all."""
    make_folder(path.parent)
    draft = write_secret(path, "".join(f"{each}\n" for each in roots).encode())
    draft.replace(path)


def _expect_secret(path: Path) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & OTHERS:
        raise UnusablePepper(
            f"expected {path} to be closed to other users, for every secret derives from it; its"
            f" mode is {mode:o}: chmod 600 {path}"
        )


def write_secret(path: Path, content: bytes) -> Path:
    """Write *content* durably to a new file beside *path*; only its owner may read the file.

    Return the path of the new file, so that the caller can move it to *path*.
    """
    draft = path.with_name(f"{path.name}.{token_hex(4)}")
    # Private from the beginning: if it were made so later, other users could open it in between.
    draft.touch(mode=0o600, exist_ok=False)
    give_to_owner(draft)
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return draft


def _make_pepper(path: Path) -> None:
    """Write a new pepper completely or not at all; if several processes do, the first one wins."""
    make_folder(path.parent)
    draft = write_secret(path, f"{token_bytes(PEPPER_BYTES_MIN).hex()}\n".encode())
    try:
        # Unlike a rename, this fails if the file exists: a pepper in use is never replaced.
        path.hardlink_to(draft)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def free_bytes(folder: Path) -> int:
    """Return the number of free bytes on the disk of *folder*, which may not exist yet."""
    existing = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    return shutil.disk_usage(existing).free
