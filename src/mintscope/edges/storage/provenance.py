"""The builds that have written an installation, and its backups."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from mintscope.base.primitives import UnixMs
from mintscope.edges.storage.database import Database

BACKUPS_KEPT: Final = 1_000  # rows; older ones are deleted

NOTE_WRITER: Final = """
INSERT INTO written_by (version, commit_id, first_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING
"""
WRITERS: Final = "SELECT version, commit_id, first_at FROM written_by ORDER BY first_at, version"
NOTE_BACKUP: Final = """
INSERT INTO backup_taken (at, place, version, migration)
VALUES (?, ?, ?, (SELECT max(number) FROM migration WHERE kind = 'money'))
"""
FORGET_BACKUPS: Final = """
DELETE FROM backup_taken
 WHERE id <= (SELECT max(id) FROM backup_taken) - ?
"""
NEWEST_BACKUP: Final = """
SELECT at, place, version, migration FROM backup_taken ORDER BY id DESC LIMIT 1
"""
# The newest backup for code that knows no migration after the given one.
USABLE_BACKUP: Final = """
SELECT at, place, version, migration FROM backup_taken WHERE migration <= ?
 ORDER BY id DESC LIMIT 1
"""
SAFE_SINCE: Final = """
SELECT coalesce((SELECT max(at) FROM backup_taken), (SELECT min(first_at) FROM written_by))
"""


class Writer(NamedTuple):
    """A build that has written the installation; *commit* is "" if it is not known."""

    version: str
    commit: str
    first_at: UnixMs


class TakenBackup(NamedTuple):
    """A backup as it was noted; it may have been deleted since.

    migration   the newest one of money in it: code that knows it can use the backup
    """

    at: UnixMs
    place: str
    version: str
    migration: int


def note_writer(money: Database, version: str, commit: str, now: UnixMs) -> None:
    """Note that this build writes the installation, unless it is noted already."""
    if any(each[:2] == (version, commit) for each in writers(money)):
        return
    with money.transaction():
        money.execute(NOTE_WRITER, (version, commit, now))


def note_backup(money: Database, place: str, version: str, now: UnixMs) -> None:
    """Note that a complete backup is at *place*."""
    with money.transaction():
        money.execute(NOTE_BACKUP, (now, place, version))
        money.execute(FORGET_BACKUPS, (BACKUPS_KEPT,))


def writers(money: Database) -> Sequence[Writer]:
    """Return every build that has written the installation, oldest first."""
    return [Writer(str(row[0]), str(row[1]), UnixMs(row[2])) for row in money.execute(WRITERS)]


def newest_backup(money: Database) -> TakenBackup | None:
    """Return the newest backup that was noted."""
    return _taken(money.execute(NEWEST_BACKUP).fetchone())


def safe_since(money: Database) -> UnixMs | None:
    """Return the time of the newest backup; without any, that of the first start."""
    found = money.execute(SAFE_SINCE).get
    return None if found is None else UnixMs(found)


def usable_backup(ask: Callable[[str, int], Any], newest_migration: int) -> str:
    """Return, in words, the newest backup for code that knows no migration after that one.

    ask   returns the first row of a statement, None without rows
    """
    found = _taken(ask(USABLE_BACKUP, newest_migration))
    if found is None:
        return "restore a backup that was taken before the upgrade"
    return f"restore the backup that mintscope {found.version} took: {found.place}"


def _taken(row: Sequence[Any] | None) -> TakenBackup | None:
    if row is None:
        return None
    return TakenBackup(UnixMs(row[0]), str(row[1]), str(row[2]), int(row[3]))
