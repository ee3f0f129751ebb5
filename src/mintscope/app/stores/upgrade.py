"""Upgrades of a store: pending migrations, and the time and space that they need."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from mintscope.app.config.groups import Config
from mintscope.app.engine import engine_of
from mintscope.app.stores.folder import free_bytes
from mintscope.kit.errors import NeedsUpgrade
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql import identity as provenance
from mintscope.kit.sql.database import DatabaseError
from mintscope.kit.sql.identity import VERSION, TakenBackup, Writer

__all__ = ["Writer"]

RECORDS: Final = "_builds_and_backups.sql"  # the migration that adds the records of backups


class Step(NamedTuple):
    """A pending migration, and the seconds that it took in a measurement."""

    store: str
    name: str
    took_s: float


class Plan(NamedTuple):
    """The plan of an upgrade of the store.

    waiting        the pending migrations in order; empty: the store needs no upgrade
    writers        the builds that have written the store, oldest first; empty if the store has no
                   record of them
    backup         the newest recorded backup; None if there is none
    steps          the migrations with their durations; empty if they were not measured
    why_not        the reason why the durations could not be measured, else ""
    bytes_needed   the most bytes that the upgrade needs on the disk of the store; 0 if not measured
    bytes_free     the free bytes on this disk; None: the disk is not on this machine
    """

    waiting: Sequence[str]
    writers: Sequence[Writer]
    backup: TakenBackup | None
    steps: Sequence[Step]
    why_not: str
    bytes_needed: int
    bytes_free: int | None


def has_records(waiting: Sequence[str]) -> bool:
    """Return whether a store with the pending migrations *waiting* can record backups."""
    return not any(each.endswith(RECORDS) for each in waiting)


def expect_upgraded(config: Config) -> None:
    """Raise NeedsUpgrade if the store has pending migrations.

    `cli.stores` calls this function before a command opens a store: an older service may use the
    store, so the command must not migrate it.
    """
    found = engine_of(config).waiting_migrations()
    if found:
        raise NeedsUpgrade(
            f"expected a store of this version; {len(found)} migrations wait, the first is"
            f" {found[0]}. After a backup, start the service or run `mintscope upgrade`"
        )


def plan(config: Config, scratch: Path | None = None, *, measures: bool = True) -> Plan:
    """Return the plan of an upgrade, with durations; the store itself stays unchanged.

    scratch    the folder for copies to measure on; None: the folder of the store
    measures   whether to measure the durations
    Raises     UnusableStore, StoreUnavailable
    """
    waiting = engine_of(config).waiting_migrations()
    writers, backup = _known(config)
    engine = engine_of(config)
    free = None if engine.disk is None else free_bytes(engine.disk)
    found = Plan(waiting, writers, backup, (), "", 0, free)
    return engine.rehearsed(found, scratch) if waiting and measures else found


def _known(config: Config) -> tuple[Sequence[Writer], TakenBackup | None]:
    """Return the builds that have written the store, and the newest recorded backup, if any."""
    engine = engine_of(config)
    with suppress(DatabaseError), engine.as_it_is() as money:
        return provenance.writers(money), provenance.newest_backup(money)
    # The store is older than these records.
    with suppress(DatabaseError), engine.as_it_is() as money:
        version = money.execute(VERSION["money"]).get
        return [] if version is None else [Writer(str(version), "", UnixMs(0))], None
    return (), None
