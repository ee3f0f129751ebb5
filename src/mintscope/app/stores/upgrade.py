"""Upgrade of a store, and its plan.

The plan of an upgrade of the store: its migrations, its time on this data, its space.

Bringing a schema up to date, or saying what that would do.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from mintscope.app.config.groups import Config
from mintscope.app.stores.backup import copy_file
from mintscope.app.stores.copying import CannotCopy
from mintscope.app.stores.folder import MARKET_FILE, MONEY_FILE, WEBHOOKS_FILE
from mintscope.app.stores.stores import expecting_no_service, extra, place_of
from mintscope.kit.errors import NeedsUpgrade, StoreUnavailable
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql import identity as provenance
from mintscope.kit.sql.database import Database, DatabaseError
from mintscope.kit.sql.identity import VERSION, TakenBackup, Writer
from mintscope.kit.sql.sqlite import SqliteDatabase, migrate_file, run_each, waits_for

__all__ = ["TakenBackup", "Writer"]

FILES: Final = {"money": MONEY_FILE, "market": MARKET_FILE, "webhooks": WEBHOOKS_FILE}


def migrations(config: Config, *, is_done: bool) -> list[str]:
    """Return the names of the migrations that the store lacked.

    is_done   run them
    Raises    UnusableStore, StoreUnavailable
    """
    if config.store is None:
        return [
            f"{kind} {name}"
            for kind, file in FILES.items()
            for name in migrate_file(config.data_dir / file, kind, is_done=is_done)
        ]
    with extra("postgres", "psycopg", "store"):
        from mintscope.kit.sql import migrating  # noqa: PLC0415 - an extra
    try:
        return migrating.migrate_all(config.store.get_secret_value(), is_done=is_done)
    except DatabaseError as cause:
        raise StoreUnavailable(f"the database does not answer: {cause}") from cause


def waiting_migrations(config: Config) -> list[str]:
    """Return the names of the migrations that the store waits for; of a new store, none.

    Raises    UnusableStore, StoreUnavailable
    """
    if config.store is None:
        return [
            f"{kind} {name}"
            for kind, file in FILES.items()
            for name in waits_for(config.data_dir / file, kind)
        ]
    with extra("postgres", "psycopg", "store"):
        from mintscope.kit.sql import migrating  # noqa: PLC0415 - an extra
    try:
        return migrating.waits_for(config.store.get_secret_value())
    except DatabaseError as cause:
        raise StoreUnavailable(f"the database does not answer: {cause}") from cause


def expect_upgraded(config: Config) -> None:
    """Raise NeedsUpgrade if the store waits for migrations.

    Commands ask first, so that none of them migrates: an older service may run on the store.
    """
    found = waiting_migrations(config)
    if found:
        raise NeedsUpgrade(
            f"expected a store of this version; {len(found)} migrations wait, the first is"
            f" {found[0]}. After a backup, start the service or run `mintscope migrate`"
        )


WAL: Final = "-wal"


class Step(NamedTuple):
    """One migration, as it ran on a copy of this data."""

    store: str
    name: str
    took_s: float


class Plan(NamedTuple):
    """The plan of an upgrade.

    waiting        the migrations, in their order; empty: the store is of this version
    writers        builds that have written the store, oldest first; empty for a store that
                   is older than these notes
    backup         the newest one that was noted
    steps          each migration as measured; empty if it was not, for the reason *why_not*
    bytes_needed   on the disk of the store, at most; 0 if it was not measured
    bytes_free     on that disk; None: it is not on this machine
    """

    waiting: Sequence[str]
    writers: Sequence[Writer]
    backup: TakenBackup | None
    steps: Sequence[Step]
    why_not: str
    bytes_needed: int
    bytes_free: int | None


def plan(config: Config, scratch: Path | None = None, *, measures: bool = True) -> Plan:
    """Return the plan of an upgrade, measured on a copy; the store itself is not changed.

    measures  False: no copy is made, and nothing is measured
    scratch   the folder of the copy, None: that of the store
    Raises    UnusableStore, StoreUnavailable
    """
    waiting = waiting_migrations(config)
    writers, backup = _known(config)
    free = None if config.store is not None else _free(config.data_dir)
    found = Plan(waiting, writers, backup, (), "", 0, free)
    if not (waiting and measures):
        return found
    return _rehearsed_there(config, found) if config.store else _rehearsed(config, scratch, found)


def _rehearsed(config: Config, scratch: Path | None, found: Plan) -> Plan:
    """Migrate a copy of each file that has pending migrations, and time it."""
    names = [
        (kind, file) for kind, file in FILES.items() if waits_for(config.data_dir / file, kind)
    ]
    size = sum(_size(config.data_dir / file) for _, file in names)
    where = scratch or config.data_dir
    if _free(where) < 3 * size:
        need = f"{3 * size:,} bytes are needed in {where}, {_free(where):,} are free: --scratch DIR"
        return found._replace(why_not=f"there is no space for a copy: {need}")
    steps: list[Step] = []
    needed = 0
    with TemporaryDirectory(prefix=".mintscope-upgrade-", dir=where) as folder:
        for kind, file in names:
            copied = Path(folder) / file
            copy_file(config.data_dir / file, copied, lambda *_: None)
            before = most = _size(copied)
            for name, took_s in run_each(copied, kind):
                steps.append(Step(kind, name, took_s))
                most = max(most, _size(copied))
            needed += most - before
    return found._replace(steps=steps, bytes_needed=needed)


def _rehearsed_there(config: Config, found: Plan) -> Plan:
    """Run the migrations in a transaction and roll it back, if no process of the service runs."""
    with extra("postgres", "psycopg", "store"):
        from mintscope.kit.sql import migrating  # noqa: PLC0415 - an extra
    assert config.store is not None
    try:
        with expecting_no_service(place_of(config)):
            ran = migrating.rehearse(config.store.get_secret_value())
    except CannotCopy:
        why = "the service runs, and a rehearsal locks its tables: stop it, or ask a restored copy"
        return found._replace(why_not=why)
    except DatabaseError as cause:
        raise StoreUnavailable(f"the database refuses the rehearsal: {cause}") from cause
    return found._replace(steps=[Step(*each) for each in ran])


def _known(config: Config) -> tuple[Sequence[Writer], TakenBackup | None]:
    """Return the builds that have written the store, and its newest backup, if they are noted."""
    with suppress(DatabaseError), _unmigrated(config) as money:
        return provenance.writers(money), provenance.newest_backup(money)
    with suppress(DatabaseError), _unmigrated(config) as money:  # a store that notes no builds yet
        version = money.execute(VERSION["money"]).get
        return [] if version is None else [Writer(str(version), "", UnixMs(0))], None
    return (), None


@contextmanager
def _unmigrated(config: Config) -> Iterator[Database]:
    """Open the money unmigrated, for reading."""
    if config.store is None:
        with closing(SqliteDatabase.as_it_is(config.data_dir / FILES["money"])) as file:
            yield file
        return
    with extra("postgres", "psycopg", "store"):
        from mintscope.kit.sql.postgres import PostgresDatabase  # noqa: PLC0415
    with closing(PostgresDatabase(config.store.get_secret_value())) as database:
        yield database


def _free(folder: Path) -> int:
    existing = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    return shutil.disk_usage(existing).free


def _size(path: Path) -> int:
    """Return the bytes of a SQLite file with its write-ahead log."""
    both = (path, path.with_name(path.name + WAL))
    return sum(each.stat().st_size for each in both if each.exists())
