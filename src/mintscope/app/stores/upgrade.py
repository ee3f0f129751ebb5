"""Upgrades of a store: pending migrations, and the time and space that they need."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mintscope.app.config.groups import Config
from mintscope.app.engine import engine_of
from mintscope.app.stores.engines import Plan
from mintscope.app.stores.places import free_bytes
from mintscope.kit.errors import NeedsUpgrade
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql import identity as provenance
from mintscope.kit.sql.database import DatabaseError
from mintscope.kit.sql.identity import VERSION, TakenBackup, Writer

__all__ = ["TakenBackup", "Writer"]


def migrations(config: Config, *, is_done: bool) -> list[str]:
    """Return the names of the store's pending migrations.

    is_done   whether to run the migrations
    Raises    UnusableStore, StoreUnavailable
    """
    return engine_of(config).maintenance.migrations(is_done=is_done)


def waiting_migrations(config: Config) -> list[str]:
    """Return the names of the store's pending migrations; none for a new store.

    Raises UnusableStore, StoreUnavailable.
    """
    return engine_of(config).maintenance.waiting()


def expect_upgraded(config: Config) -> None:
    """Raise NeedsUpgrade if the store has pending migrations.

    Commands call this function first and never migrate, because an older service may use the store.
    """
    found = waiting_migrations(config)
    if found:
        raise NeedsUpgrade(
            f"expected a store of this version; {len(found)} migrations wait, the first is"
            f" {found[0]}. After a backup, start the service or run `mintscope migrate`"
        )


def plan(config: Config, scratch: Path | None = None, *, measures: bool = True) -> Plan:
    """Return the plan of an upgrade, with durations; the store itself stays unchanged.

    measures  whether to measure the durations
    scratch   the folder of a copy to measure on; None: the folder of the store
    Raises    UnusableStore, StoreUnavailable
    """
    waiting = waiting_migrations(config)
    writers, backup = _known(config)
    maintenance = engine_of(config).maintenance
    free = None if maintenance.disk is None else free_bytes(maintenance.disk)
    found = Plan(waiting, writers, backup, (), "", 0, free)
    return maintenance.rehearsed(found, scratch) if waiting and measures else found


def _known(config: Config) -> tuple[Sequence[Writer], TakenBackup | None]:
    """Return the builds that have written the store, and the newest recorded backup, if any."""
    maintenance = engine_of(config).maintenance
    with suppress(DatabaseError), maintenance.as_it_is() as money:
        return provenance.writers(money), provenance.newest_backup(money)
    # The store is older than these records.
    with suppress(DatabaseError), maintenance.as_it_is() as money:
        version = money.execute(VERSION["money"]).get
        return [] if version is None else [Writer(str(version), "", UnixMs(0))], None
    return (), None
