"""Copies the files of an installation on SQLite, even while it runs."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import apsw

from mintscope.app.stores.copying import CannotCopy
from mintscope.app.stores.folder import (
    MARKET_FILE,
    MONEY_FILE,
    PEPPER_FILE,
    ROOTS_FILE,
    WEBHOOKS_FILE,
)
from mintscope.kit.errors import StoreUnavailable, UnusableStore
from mintscope.kit.files import give_to_owner, make_folder

# The market is first, so that the copies of sales are the newest.  Webhooks come before money, so a
# webhook that is sent during the copy is sent again after a restore, and none is lost.
FILES: Final = (MARKET_FILE, WEBHOOKS_FILE, MONEY_FILE)
SECRETS: Final = (PEPPER_FILE, ROOTS_FILE)
PAGES: Final = 512
BUSY_MS: Final = 10_000


def copy_files(
    source: Path,
    target: Path,
    progress: Callable[[str, int], None],
    *,
    has_secrets: bool = True,
) -> None:
    """Copy the files of *source*, which may be in use, into *target*, which must have no files.

    progress      called with the file and the number of pages copied since the last call
    has_secrets   whether to copy pepper and roots too
    Raises        CannotCopy if *target* has files, or *source* has none; UnusableStore if a
                  file cannot be copied, or a copy is damaged
    """
    for name in (*FILES, *SECRETS):
        if (target / name).exists():
            raise CannotCopy(f"expected no {name} in {target}; there is one")
    if not (source / MONEY_FILE).exists():
        raise CannotCopy(f"expected {MONEY_FILE} in {source}; it is not there")
    make_folder(target)
    for name in FILES:
        if (source / name).exists():
            copy_file(source / name, target / name, progress)
    if has_secrets:
        copy_secrets(source, target)


def copy_secrets(source: Path, target: Path) -> None:
    """Copy pepper and roots of *source* into the folder *target*, and replace these files there."""
    make_folder(target)
    for name in SECRETS:
        if (source / name).exists():
            draft = target / f"{name}.copied"
            draft.touch(mode=0o600)
            give_to_owner(draft)
            shutil.copyfile(source / name, draft)
            draft.replace(target / name)


def expect_whole(path: Path) -> None:
    """Check that a database file is intact.  Raises UnusableStore."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        found = db.execute("PRAGMA integrity_check(1)").get
        broken = db.execute("PRAGMA foreign_key_check").fetchone()
    except apsw.Error as cause:
        raise UnusableStore(f"expected a whole database at {path}: {cause}") from cause
    finally:
        db.close()
    if found != "ok" or broken:
        raise UnusableStore(f"expected a whole database at {path}: {broken or found}")


def copy_file(source: Path, target: Path, progress: Callable[[str, int], None]) -> None:
    """Copy a database file, which may be in use, to *target*.  Raises UnusableStore."""
    target.touch(mode=0o600)
    give_to_owner(target)
    read = apsw.Connection(str(source))
    written = apsw.Connection(str(target))
    read.set_busy_timeout(BUSY_MS)
    try:
        # In one transaction, because otherwise each commit would restart the copy.
        read.execute("BEGIN")
        read.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        with written.backup("main", read, "main") as backup:
            while not backup.done:
                backup.step(PAGES)
                progress(target.name, PAGES)
    except apsw.FullError as cause:  # its own message is "not an error"
        raise StoreUnavailable(f"expected to copy {source}: no room in {target.parent}") from cause
    except apsw.Error as cause:
        raise UnusableStore(f"expected to copy {source}: {cause}") from cause
    finally:
        written.close()
        read.close()
    expect_whole(target)
