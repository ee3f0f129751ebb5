"""The name of an installation, and the builds that have written it.

Each store holds the name of its installation, drawn at its first start.  A store that has none, or
another, beside files that know better was emptied or exchanged: whatever was sold is not in it.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from mintscope import __version__
from mintscope.kit.errors import UnusableStore
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql.database import Database

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
    """A backup as it was recorded; it may have been deleted since.

    migration   the newest one of money in it: code that knows it can use the backup
    """

    at: UnixMs
    place: str
    version: str
    migration: int


def note_writer(money: Database, version: str, commit: str, now: UnixMs) -> None:
    """Record that this build writes the installation, unless it is noted already."""
    if any(each[:2] == (version, commit) for each in writers(money)):
        return
    with money.transaction():
        money.execute(NOTE_WRITER, (version, commit, now))


def note_backup(money: Database, place: str, version: str, now: UnixMs) -> None:
    """Record that a complete backup is at *place*."""
    with money.transaction():
        money.execute(NOTE_BACKUP, (now, place, version))
        money.execute(FORGET_BACKUPS, (BACKUPS_KEPT,))


def writers(money: Database) -> Sequence[Writer]:
    """Return every build that has written the installation, oldest first."""
    return [Writer(str(row[0]), str(row[1]), UnixMs(row[2])) for row in money.execute(WRITERS)]


def newest_backup(money: Database) -> TakenBackup | None:
    """Return the newest recorded backup."""
    return _taken(money.execute(NEWEST_BACKUP).fetchone())


def safe_since(money: Database) -> UnixMs | None:
    """Return the time of the newest backup, or else of the first start."""
    found = money.execute(SAFE_SINCE).get
    return None if found is None else UnixMs(found)


def build_needed(version: str) -> str:
    """Return, in words, what reads a store that *version* has written and this build cannot."""
    if version == __version__:
        return f"a newer commit of mintscope {version}"
    return f"mintscope {version} or newer"


def usable_backup(ask: Callable[[str, int], Any], newest_migration: int) -> str:
    """Return, in words, the newest backup that code up to *newest_migration* can use.

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


SHOWN: Final = 8  # digits of a name
NAMED: Final = {
    "money": "SELECT name FROM installation",
    "market": "SELECT name FROM market_installation",
}
NAME: Final = {
    "money": "INSERT INTO installation (id, name, version) VALUES (1, ?, ?) ON CONFLICT DO NOTHING",
    "market": (
        "INSERT INTO market_installation (id, name, version) VALUES (1, ?, ?)"
        " ON CONFLICT DO NOTHING"
    ),
}
RENAME_MARKET: Final = "UPDATE market_installation SET name = ?"
RAN: Final = {
    "money": "UPDATE installation SET version = ? WHERE version = ?",
    "market": "UPDATE market_installation SET version = ? WHERE version = ?",
}
VERSION: Final = {
    "money": "SELECT version FROM installation",
    "market": "SELECT version FROM market_installation",
}
# Something was kept before stores had names: the pepper of the hashes in it.
IS_USED: Final = "SELECT EXISTS (SELECT 1 FROM pepper)"
MEAN_IT: Final = "restore a backup, or start with --new if this is meant to be a new one"


class Beside(NamedTuple):
    """Facts stored outside the two stores, and the build that reads them.

    where        the stores, in words
    has_pepper   a pepper is kept in the data folder: an installation was here before
    is_new       an operator confirms that an emptied or exchanged store is meant
    version      of this mintscope
    commit       of this mintscope, "" if it is not known; None: it only reads, and notes nothing
    now          Unix milliseconds
    """

    where: str
    has_pepper: bool
    is_new: bool
    version: str
    commit: str | None
    now: UnixMs


def settle(money: Database, market: Database, beside: Beside, drawn: str) -> str:
    """Return the name of the installation, and store the name if it is missing.

    drawn     a new name
    Raises    UnusableStore for a store that was emptied or exchanged
    """
    # The money is named first, and so is read last: a process that starts at the same moment may
    # name both in between.
    of_market = _named(market, "market")
    of_money = _named(money, "money")
    if of_money is None:
        is_used = bool(money.execute(IS_USED).get)
        if not (is_used or beside.is_new):
            _expect_nothing_known(of_market, beside)
        is_emptied = beside.is_new and not is_used
        name = of_money = _name(money, "money", beside, drawn if is_emptied else of_market or drawn)
    else:
        name = of_money
    if of_market is None:
        of_market = _name(market, "market", beside, name)
    if of_market != of_money:
        if not beside.is_new:
            raise UnusableStore(
                f"expected money and market of one installation in {beside.where}; the money is of"
                f" {of_money[:SHOWN]}, the market of {of_market[:SHOWN]}: {MEAN_IT}"
            )
        with market.transaction():
            market.execute(RENAME_MARKET, (of_money,))
    if beside.commit is not None:
        for database, kind in ((money, "money"), (market, "market")):
            _note_version(database, kind, beside.version)
        note_writer(money, beside.version, beside.commit, beside.now)
    return name


def _expect_nothing_known(of_market: str | None, beside: Beside) -> None:
    if of_market is not None:
        raise UnusableStore(
            f"expected the money of installation {of_market[:SHOWN]} in {beside.where}, as its"
            f" market is there; there is none: {MEAN_IT}"
        )
    if beside.has_pepper:
        raise UnusableStore(
            f"expected money in {beside.where}, as the pepper of its credentials is kept in the"
            f" data folder; there is none: {MEAN_IT}"
        )


def _named(database: Database, kind: str) -> str | None:
    name = database.execute(NAMED[kind]).get
    return None if name is None else str(name)


def _name(database: Database, kind: str, beside: Beside, name: str) -> str:
    """Store *name* in a store; return the name that another process may have stored first."""
    with database.transaction():
        database.execute(NAME[kind], (name, beside.version))
        return str(database.execute(NAMED[kind]).get)


def _note_version(database: Database, kind: str, version: str) -> None:
    ran = str(database.execute(VERSION[kind]).get)
    if _order(version) > _order(ran):
        with database.transaction():
            database.execute(RAN[kind], (version, ran))


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdecimal() else 0 for part in version.split("."))
