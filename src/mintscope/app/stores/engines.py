"""The ports of an engine: stores of an installation, their maintenance, and plans of upgrades."""

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
    """The lock for writing the market."""

    @property
    def epoch(self) -> int | None:
        """The epoch of the holder, once the lock is held; None if the engine has no epochs."""

    def held(self) -> AbstractAsyncContextManager[None]:
        """Wait for the lock, and hold it during the block.  Raises StoreUnavailable."""

    async def keep(self) -> None:
        """Keep the lock until cancelled.  Raises StoreUnavailable if the lock is lost."""


class Secrets(NamedTuple):
    """The keys from which hashes and signatures derive.

    pepper    the configured pepper; None: the pepper in *file*, created if missing
    roots     the roots from which signing keys derive instead of the pepper, each from its time on
    """

    pepper: bytes | None
    file: Path
    roots: Sequence[Root]


class Engine(Protocol):
    """Opens the stores of an installation.

    place    the place of the stores, for `mintscope copy`: `sqlite:FOLDER` or `postgresql://...`
    where    the place in words, for messages, without secrets
    Each method may raise UnusableStore and StoreUnavailable.
    """

    place: str
    where: str
    maintenance: "StoreMaintenance"

    def open_market(
        self, retention: Retention, *, follows_all: bool, epoch: int | None
    ) -> AbstractAsyncContextManager[Market]:
        """Open the market; with *epoch*, writing fails once a later epoch has begun."""

    def open_money(self, secrets: Secrets, clock: Clock) -> AbstractAsyncContextManager[Money]:
        """Open credits, payments and accounts."""

    def opened(self, kind: str) -> AbstractContextManager[Database]:
        """Open the tables of *kind*, money or market, for a short time; migrate them first."""

    def write_lock(self) -> WriteLock:
        """Return the lock for writing the market."""

    def backfill_lock(self) -> AbstractContextManager[None]:
        """Hold the backfill lock during the block.  Raises BackfillIsRead if the lock is taken."""

    def windows(self) -> WindowStore | None:
        """Return the shared counters of requests; None: the only process counts in memory."""

    def waiting(
        self, poll_interval_s: float, settings: Mapping[str, str]
    ) -> AbstractAsyncContextManager[Wait]:
        """Yield a function that waits until the log grows; without notices, it waits an interval.

        settings   the settings that all api processes of the installation share
        """


class Step(NamedTuple):
    """A migration, and its measured duration."""

    store: str
    name: str
    took_s: float


class Plan(NamedTuple):
    """The plan of an upgrade of the store.

    waiting        the pending migrations in order; empty: the store needs no upgrade
    writers        the builds that have written the store, oldest first; empty if the store is older
                   than this record
    backup         the newest recorded backup; None if there is none
    steps          the migrations with their durations; empty if they were not measured
    why_not        the reason why they were not measured, else ""
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


class StoreMaintenance(Protocol):
    """Copies and migrates an installation.  Each method may raise UnusableStore.

    disk    the folder of the store; None: the store is not on this machine
    """

    disk: Path | None

    def back_up(self, target: Path, progress: Progress) -> None:
        """Copy the installation, which may be running, into the new folder *target*."""

    def restore(self, source: Path, progress: Progress) -> None:
        """Copy the folder *source* into the installation, which must be empty and not running."""

    def compact(self) -> Sequence[tuple[str, int, int]]:
        """Compact the files; return the name of each, and its size in bytes before and after."""

    def migrations(self, *, is_done: bool) -> list[str]:
        """Return the names of the pending migrations; if *is_done*, run them."""

    def waiting(self) -> list[str]:
        """Return the names of the store's pending migrations; none for a new store."""

    def as_it_is(self) -> AbstractContextManager[Database]:
        """Open the tables of money for reading, without migrating them."""

    def rehearsed(self, plan: Plan, scratch: Path | None) -> Plan:
        """Return *plan* with the duration of each migration, or the reason why it is unknown.

        The store itself is not changed.

        scratch   the folder for a copy; None: the folder of the store
        """
