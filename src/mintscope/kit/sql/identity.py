"""The name of an installation, and the builds that have written it.

Each store contains the random name of its installation.  If only one store has a name, or
the names differ, one store was emptied or exchanged, and sold credits may be missing.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NamedTuple

from mintscope import __version__
from mintscope.kit.errors import UnusableStore
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql.database import Database

# The newest commit with the single migrations from before 24 November 2026, which are joined now.
LAST_UPGRADER: Final = "cf4f09e8"
BACKUPS_KEPT: Final = 1_000  # records of backups; older ones are deleted
# The table with the name of the installation, by store.
TABLES: Final = {"money": "installation", "market": "market_installation"}

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
# The newest backup with no migration after number `?`.
USABLE_BACKUP: Final = """
SELECT at, place, version, migration FROM backup_taken WHERE migration <= ?
 ORDER BY id DESC LIMIT 1
"""
SAFE_SINCE: Final = """
SELECT coalesce((SELECT max(at) FROM backup_taken), (SELECT min(first_at) FROM written_by))
"""


class Writer(NamedTuple):
    """A build of mintscope that has written to the stores; *commit* is "" if unknown."""

    version: str
    commit: str
    first_at: UnixMs


class TakenBackup(NamedTuple):
    """The record of a backup; the backup itself may have been deleted."""

    at: UnixMs
    place: str
    version: str
    migration: int  # the number of the newest migration of the money store in the backup


def note_writer(money: Database, version: str, commit: str, now: UnixMs) -> None:
    """Record that this build writes the installation, unless that is recorded already."""
    if any(each[:2] == (version, commit) for each in writers(money)):
        return
    with money.transaction():
        money.execute(NOTE_WRITER, (version, commit, now))


def note_backup(money: Database, place: str, version: str, now: UnixMs) -> None:
    """Store the time and the place of a complete backup; of all such rows, keep BACKUPS_KEPT."""
    with money.transaction():
        money.execute(NOTE_BACKUP, (now, place, version))
        money.execute(FORGET_BACKUPS, (BACKUPS_KEPT,))


def writers(money: Database) -> Sequence[Writer]:
    """Return every build that has written the installation, oldest first."""
    return [Writer(str(row[0]), str(row[1]), UnixMs(row[2])) for row in money.execute(WRITERS)]


def newest_backup(money: Database) -> TakenBackup | None:
    """Return the record of the newest backup; None if no backup is recorded."""
    return _taken(money.execute(NEWEST_BACKUP).fetchone())


def safe_since(money: Database) -> UnixMs | None:
    """Return the time of the newest backup, or else of the service's first start, or None."""
    found = money.execute(SAFE_SINCE).get
    return None if found is None else UnixMs(found)


def expect_joined(first: int, ran: Collection[int], place: str) -> None:
    """Raise UnusableStore if a store is too old for this version of mintscope to migrate.

    first   the number of the oldest migration that this version still has
    ran     the numbers of the migrations that the store has run; empty if the store is new
    place   the store, as the error message names it
    """
    if ran and first not in ran:
        raise UnusableStore(
            f"expected {place} at migration {first} or newer; it is at {max(ran)}: upgrade it first"
            f" with commit {LAST_UPGRADER} of mintscope"
        )


def upgrade_advice(
    kind: str, ask: Callable[..., Any], has_table: Callable[[str], bool], newest_migration: int
) -> str:
    """Return advice for an operator whose store *kind* is newer than this build.

    The advice names the build to install, and the backup to restore.

    ask                runs a statement; returns the first row, or its value if it has only one
    has_table          returns whether the store has a table with this name
    newest_migration   the newest migration of money that this build has
    """
    version = None
    if kind in TABLES and has_table(TABLES[kind]):
        version = ask(VERSION[kind])
    newest = "a newer mintscope" if version is None else f"mintscope {version} or newer"
    if version == __version__:
        newest = f"a newer commit of mintscope {version}"
    needed = f"it needs {newest}, this is {__version__}"
    if not has_table("backup_taken"):
        return needed
    found = _taken(ask(USABLE_BACKUP, (newest_migration,)))
    backup = "restore a backup that was taken before the upgrade"
    if found is not None:
        backup = f"restore the backup that mintscope {found.version} took: {found.place}"
    return f"{needed}: install that one, or {backup}"


def _taken(row: Sequence[Any] | None) -> TakenBackup | None:
    if row is None:
        return None
    return TakenBackup(UnixMs(row[0]), str(row[1]), str(row[2]), int(row[3]))


SHOWN: Final = 8  # digits of a name that messages show
VERSION: Final = {kind: f"SELECT version FROM {table}" for kind, table in TABLES.items()}  # noqa: S608 - ours
RENAME_MARKET: Final = "UPDATE market_installation SET name = ?"
# A money store without a name may be in use, because older versions stored no name: in this case,
# it has a row in `pepper`.
IS_USED: Final = "SELECT EXISTS (SELECT 1 FROM pepper)"
MEAN_IT: Final = "restore a backup, or start with --new if this is meant to be a new one"


class Beside(NamedTuple):
    """The arguments of `settle`, which identifies an installation, besides its two stores."""

    where: str  # a description of the two stores for the operator
    has_pepper: bool  # whether the data folder has the pepper of an earlier installation
    is_new: bool  # whether the operator has confirmed that a store was emptied or exchanged
    version: str  # the version of this build
    commit: str | None  # of this build, "" if unknown; None: it only reads, so is not recorded
    now: UnixMs  # the current time, Unix milliseconds


def settle(money: Database, market: Database, beside: Beside, drawn: str) -> str:
    """Return the installation's name; write it to a store that lacks it, and record this build.

    If `beside.is_new` is True, a market with another name gets the installation's name.

    drawn     a random name for a new installation
    Raises    UnusableStore if a store was emptied or exchanged without confirmation
    """
    # The money store is named first and read last: another process may name both in between.
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
    name = database.execute(f"SELECT name FROM {TABLES[kind]}").get  # noqa: S608 - ours
    return None if name is None else str(name)


def _name(database: Database, kind: str, beside: Beside, name: str) -> str:
    """Store *name* as the name of the store *kind*, unless it has one; return the stored name."""
    columns = f"{TABLES[kind]} (id, name, version)"
    with database.transaction():
        database.execute(
            f"INSERT INTO {columns} VALUES (1, ?, ?) ON CONFLICT DO NOTHING",  # noqa: S608 - ours
            (name, beside.version),
        )
        return str(_named(database, kind))


def _note_version(database: Database, kind: str, version: str) -> None:
    ran = str(database.execute(VERSION[kind]).get)
    if _order(version) > _order(ran):
        # Only if no other process has changed the version since it was read.
        update = f"UPDATE {TABLES[kind]} SET version = ? WHERE version = ?"  # noqa: S608 - ours
        with database.transaction():
            database.execute(update, (version, ran))


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdecimal() else 0 for part in version.split("."))
