"""Ports of an engine: stores of an installation, their maintenance and the plan of an upgrade."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from mintscope.app.stores.copying import Progress
from mintscope.app.stores.market import Market
from mintscope.app.stores.money import Money
from mintscope.kit.clock import Clock
from mintscope.kit.credentials import Root
from mintscope.kit.sql.database import Database
from mintscope.kit.sql.identity import TakenBackup, Writer
from mintscope.kit.sql.limits import WindowStore
from mintscope.market.follow.tailer import Wait
from mintscope.market.ports import Retention


class WriteLock(Protocol):
    """The lock for writing the market, and the epoch of its holder."""

    @property
    def epoch(self) -> int | None:
        """The epoch, once the lock is held; None if the engine has no epochs."""

    def held(self) -> AbstractAsyncContextManager[None]:
        """Wait for the lock, and hold it during the block.  Raises StoreUnavailable."""

    async def keep(self) -> None:
        """Keep the lock until cancelled.  Raises StoreUnavailable if it is lost."""


class Secrets(NamedTuple):
    """The keys of hashes and signatures.

    pepper    None: the pepper in *file*, created if missing
    roots     the roots that sign in place of the pepper, each from its time
    """

    pepper: bytes | None
    file: Path
    roots: Sequence[Root]


class Engine(Protocol):
    """The stores of one installation, while processes run.

    place    the place in the form of `mintscope copy`: `sqlite:FOLDER` or `postgresql://...`
    where    the place in words, without secrets
    Each method raises UnusableStore, StoreUnavailable.
    """

    place: str
    where: str
    maintenance: "StoreMaintenance"

    def open_market(
        self, retention: Retention, *, follows_all: bool, epoch: int | None
    ) -> AbstractAsyncContextManager[Market]:
        """Open the market; with *epoch*, its writer ends with that epoch."""

    def open_money(self, secrets: Secrets, clock: Clock) -> AbstractAsyncContextManager[Money]:
        """Open credits, payments and accounts."""

    def opened(self, kind: str) -> AbstractContextManager[Database]:
        """Open the migrated tables of *kind*, money or market, for a short time."""

    def write_lock(self) -> WriteLock:
        """Return the lock for writing the market."""

    def backfill_lock(self) -> AbstractContextManager[None]:
        """Hold the lock for reading backfills.  Raises BackfillIsRead if it is taken."""

    def windows(self) -> WindowStore | None:
        """Return the counters of requests; None if the one process counts in memory."""

    def waiting(
        self, poll_interval_s: float, settings: Mapping[str, str]
    ) -> AbstractAsyncContextManager[Wait]:
        """Yield a function that waits until the log grows or, without notices, for the interval.

        settings   the settings that all api processes of the installation share
        """


class Step(NamedTuple):
    """One migration, as measured on a copy of this data."""

    store: str
    name: str
    took_s: float


class Plan(NamedTuple):
    """The plan of an upgrade.

    waiting        pending migrations in order; empty: the store has this version
    writers        builds that have written the store, oldest first; empty for a store
                   from before builds were recorded
    backup         the newest recorded backup
    steps          each migration with its duration; empty if not measured, because of *why_not*
    bytes_needed   most bytes needed on the disk of the store; 0 if not measured
    bytes_free     free bytes on that disk; None: the disk is not on this machine
    """

    waiting: Sequence[str]
    writers: Sequence[Writer]
    backup: TakenBackup | None
    steps: Sequence[Step]
    why_not: str
    bytes_needed: int
    bytes_free: int | None


class StoreMaintenance(Protocol):
    """Copies and migrations of an installation.  Each method raises UnusableStore.

    disk    the folder of the store; None: the store is not on this machine
    """

    disk: Path | None

    def back_up(self, target: Path, progress: Progress) -> None:
        """Copy the installation, which may be running, into the new folder *target*."""

    def restore(self, source: Path, progress: Progress) -> None:
        """Copy the folder *source* into the installation, which is empty and not running."""

    def compact(self) -> Sequence[tuple[str, int, int]]:
        """Compact the files; return their names, and their sizes before and after."""

    def migrations(self, *, is_done: bool) -> list[str]:
        """Return the names of the pending migrations; run them if *is_done*."""

    def waiting(self) -> list[str]:
        """Return the names of the store's pending migrations; none for a new store."""

    def as_it_is(self) -> AbstractContextManager[Database]:
        """Open the money tables for reading, without migrating them."""

    def rehearsed(self, plan: Plan, scratch: Path | None) -> Plan:
        """Return *plan* with each migration timed; the store itself is not changed.

        scratch   the folder for a copy; None: the folder of the store
        """
