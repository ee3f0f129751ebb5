"""Stores of an installation as configured.

Where an installation is kept: `sqlite:FOLDER` or `postgresql://...`.

Engines that are extras of the package: each is imported where it is configured.

The stores of an installation, as it is configured.

Refusing a store that was emptied or exchanged, before anything is done with it.

The settings that all api processes of an installation have in common.

Which of several ingests writes, and which process reads a past.

Where requests are counted.

How a follower of the log learns that it has grown.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    ExitStack,
    aclosing,
    asynccontextmanager,
    contextmanager,
)
from functools import partial
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from pydantic import SecretStr

from mintscope import __version__
from mintscope.app.config.config import ApiConfig, Section
from mintscope.app.config.groups import Config
from mintscope.app.running.processes import commit
from mintscope.app.stores import folder
from mintscope.app.stores import sqlite as openers
from mintscope.app.stores.backup import copy_files, copy_secrets
from mintscope.app.stores.compacting import compact_files
from mintscope.app.stores.copying import CannotCopy, Progress, SqliteSide, Sum, Target, copy
from mintscope.app.stores.folder import (
    MARKET_FILE,
    MONEY_FILE,
    OTHERS,
    PEPPER_FILE,
    ROOTS_FILE,
    WEBHOOKS_FILE,
    keep_roots,
    load_pepper,
    load_roots,
)
from mintscope.app.stores.market import Market
from mintscope.app.stores.money import Money
from mintscope.history.backfill import BackfillIsRead
from mintscope.kit.clock import Clock, SystemClock
from mintscope.kit.errors import FolderInUse, StoreUnavailable, UnusablePepper, UnusableStore
from mintscope.kit.limits import Limits, MemoryLimits
from mintscope.kit.secrets import Root, parse_root, rotated
from mintscope.kit.sql.database import Database, DatabaseAway, DatabaseError
from mintscope.kit.sql.identity import IS_USED, Beside, settle
from mintscope.kit.sql.limits import LimitBatches, LimitStoreAway, SharedLimits, WindowStore
from mintscope.kit.sql.sqlite import SqliteDatabase, engine_version
from mintscope.kit.time import DAY_S, HOUR_S, MINUTE_S
from mintscope.market.follow.tailer import Wait
from mintscope.market.ports import Retention
from mintscope.market.timeframe import Timeframe

__all__ = ["OTHERS", "Market", "Money", "Progress", "engine_version"]


@contextmanager
def extra(name: str, package: str, setting: str) -> Iterator[None]:
    """Import an engine during the block.

    name      of the extra, and of the file in requirements, that installs the Python *package*
    setting   that asked for it
    Raises    UnusableStore where it is not installed
    """
    try:
        yield
    except ModuleNotFoundError as cause:
        raise UnusableStore(
            f"expected the Python package {package}, for the setting {setting}; it is not"
            f" installed: pip install --require-hashes -r requirements/{name}.txt, a file of"
            " mintscope's sources"
        ) from cause


SQLITE: Final = "sqlite:"
ROLES: Final = ("serve", "ingest", "api")


def place_of(config: Config) -> str:
    """Return the place of the installation of *config*, in words."""
    if config.store is not None:
        return config.store.get_secret_value()
    return f"{SQLITE}{config.data_dir}"


def named(place: str) -> str:
    """Return *place* without its password."""
    if place.startswith(SQLITE):
        return place
    parts = urlsplit(place)
    return f"{parts.scheme}://{parts.hostname}:{parts.port or 5432}{parts.path}"


def has_password(place: str) -> bool:
    """Return whether *place* holds a password."""
    return not place.startswith(SQLITE) and urlsplit(place).password is not None


def copy_installation(source: str, target: str, progress: Progress) -> dict[str, Sum]:
    """Copy everything of the place *source*, while nothing runs on it, to *target*.

    Raises CannotCopy, UnusableStore
    """
    with expecting_no_service(source), expecting_no_service(target), ExitStack() as stack:
        read = stack.enter_context(_opened(source, is_new=False))
        written = stack.enter_context(_opened(target, is_new=True))
        return copy(read, written, named(source), progress)


def back_up(config: Config, target: Path, progress: Progress, *, has_secrets: bool = True) -> None:
    """Copy the installation, which may run, into the new folder *target*.

    has_secrets   pepper and roots are copied, too
    """
    if config.store is None:
        copy_files(config.data_dir, target, progress, has_secrets=has_secrets)
        return
    with ExitStack() as stack:
        read = stack.enter_context(_opened(place_of(config), is_new=False))
        written = stack.enter_context(_opened(f"{SQLITE}{target}", is_new=True))
        copy(read, written, named(place_of(config)), progress)
    if has_secrets:
        copy_secrets(config.data_dir, target)


def restore(
    config: Config, source: Path, progress: Progress, *, secrets: Path | None = None
) -> None:
    """Copy the folder *source* into the installation, which must be empty, while nothing runs.

    secrets   the folder of pepper and roots, if they are kept apart
    """
    if config.store is None:
        with expecting_no_service(f"{SQLITE}{config.data_dir}"):
            copy_files(source, config.data_dir, progress)
    else:
        copy_installation(f"{SQLITE}{source}", place_of(config), progress)
    for each in (source, secrets):
        if each is not None and config.credits.pepper is None:
            copy_secrets(each, config.data_dir)


def compact(config: Config) -> Sequence[tuple[str, int, int]]:
    """Compact the files of the installation, while nothing runs; return names and bytes.

    Raises UnusableStore
    """
    if config.store is not None:
        raise UnusableStore("expected files of SQLite; the store is a PostgreSQL, which vacuums")
    with expecting_no_service(place_of(config)):
        return compact_files(config.data_dir)


@contextmanager
def expecting_no_service(place: str) -> Iterator[None]:
    """Let no process serve or ingest *place* during the block.  Raises CannotCopy, FolderInUse."""
    with ExitStack() as stack:
        if place.startswith(SQLITE):
            for role in ROLES:
                held = folder.held(_folder(place), role, may_be_open=True)
                stack.enter_context(held)
        else:
            with extra("postgres", "psycopg", "store"):
                from mintscope.app.stores.postgres_side import (  # noqa: PLC0415 - extra
                    expecting_no_process,
                )
            stack.enter_context(expecting_no_process(place))
        yield


@contextmanager
def _opened(place: str, *, is_new: bool) -> Iterator[Target]:
    side: Target
    if place.startswith(SQLITE):
        side = SqliteSide(_folder(place), is_new=is_new)
    elif place.startswith(("postgresql://", "postgres://")):
        with extra("postgres", "psycopg", "store"):
            from mintscope.app.stores.postgres_side import (  # noqa: PLC0415 - extra
                PostgresSide,
            )
        side = PostgresSide(place, is_new=is_new)
    else:
        raise CannotCopy(f"expected sqlite:FOLDER or postgresql://...; was {place!r}")
    try:
        yield side
    except DatabaseError as cause:
        raise UnusableStore(f"{named(place)}: {cause}") from cause
    finally:
        side.close()


def _folder(place: str) -> Path:
    return Path(place.removeprefix(SQLITE).removeprefix("//")).expanduser()


class Place(NamedTuple):
    """The place of a store, in words, and whether it is empty."""

    name: str
    is_new: bool


def market_place(config: Config) -> Place:
    """Return the place of the market."""
    return _place(config, MARKET_FILE)


def money_place(config: Config) -> Place:
    """Return the place of credits, payments and accounts."""
    return _place(config, MONEY_FILE)


def webhooks_place(config: Config) -> Place:
    """Return the queue of webhooks, with their outcomes."""
    return _place(config, WEBHOOKS_FILE)


def _place(config: Config, file_name: str) -> Place:
    if config.store is not None:
        return Place("the database of store", is_new=False)
    path = config.data_dir / file_name
    return Place(str(path), is_new=not path.exists())


def pepper_file(config: Config) -> Path:
    """Return the file of the pepper, unless the pepper is configured."""
    return config.data_dir / PEPPER_FILE


def expect_pepper(config: Config) -> None:
    """Read the pepper that is kept.  Raises UnusablePepper."""
    load_pepper(pepper_file(config), signs=not roots_of(config))


def roots_of(config: Config) -> Sequence[Root]:
    """Return the roots that sign in the pepper's place, configured or stored.

    Raises UnusablePepper.
    """
    configured = [parse_root(each.get_secret_value()) for each in config.credits.roots]
    return [*configured, *load_roots(config.data_dir / ROOTS_FILE)]


def keep_new_root(config: Config, new: Root) -> Path:
    """Keep *new* beside the pepper, and return where.  Raises UnusablePepper."""
    path = config.data_dir / ROOTS_FILE
    keep_roots(path, rotated(load_roots(path), new))
    return path


def retention_of(config: Config) -> Retention:
    """Return the retention of candles."""
    market = config.market
    keep_s = {
        Timeframe.M1: market.retention_m1_hours * HOUR_S,
        Timeframe.M5: market.retention_m5_hours * HOUR_S,
        Timeframe.M15: market.retention_m15_days * DAY_S,
        Timeframe.H1: market.retention_h1_days * DAY_S,
    }
    return Retention(keep_s, market.retention_swaps_minutes * MINUTE_S)


def open_market(config: Config, *, epoch: int | None = None) -> AbstractAsyncContextManager[Market]:
    """Open the market; with *epoch* its writer ends with that epoch.  Raises UnusableStore."""
    follows_all = config.market.track == "all"
    retention = retention_of(config)
    if config.store is not None:
        with extra("postgres", "psycopg", "store"):
            from mintscope.app.stores import postgres as tables  # noqa: PLC0415 - extra
        return tables.open_market(
            config.store.get_secret_value(),
            follows_all=follows_all,
            retention=retention,
            epoch=epoch,
        )
    return openers.open_market(config.data_dir, follows_all=follows_all, retention=retention)


def open_money(config: Config, clock: Clock) -> AbstractAsyncContextManager[Money]:
    """Open credits, payments and accounts.  Raises UnusableStore."""
    configured = config.credits.pepper
    pepper = None if configured is None else bytes.fromhex(configured.get_secret_value())
    if config.store is not None:
        with extra("postgres", "psycopg", "store"):
            from mintscope.app.stores import postgres as tables  # noqa: PLC0415 - extra
        return tables.open_money(
            config.store.get_secret_value(),
            pepper=pepper,
            pepper_file=pepper_file(config),
            clock=clock,
            roots=roots_of(config),
        )
    return openers.open_money(config.data_dir, pepper=pepper, clock=clock, roots=roots_of(config))


NAME_BYTES = 16


def expect_own_stores(
    config: Config, *, is_new: bool = False, writes: bool = False, uses_pepper: bool = False
) -> str:
    """Return the name of the installation; give it one at its first start.

    is_new        an emptied store, or that of another installation, is meant
    writes        note this build, as processes that serve or ingest do
    uses_pepper   credentials are looked up: the pepper that they were hashed with must exist
    Raises        UnusableStore, StoreUnavailable
    """
    beside = Beside(
        where=str(config.data_dir) if config.store is None else "the database of store",
        has_pepper=config.credits.pepper is None and (config.data_dir / PEPPER_FILE).exists(),
        is_new=is_new,
        version=__version__,
        commit=(commit() or "") if writes else None,
        now=SystemClock().now(),
    )
    try:
        with opened(config, "money") as money, opened(config, "market") as market:
            name = settle(money, market, beside, token_hex(NAME_BYTES))
            file = config.data_dir / PEPPER_FILE
            if uses_pepper and config.credits.pepper is None and not file.exists():
                _expect_no_hashes(money, file)
            return name
    except DatabaseAway as cause:
        raise StoreUnavailable(f"{beside.where} does not answer: {cause}") from cause
    except DatabaseError as cause:
        raise UnusableStore(f"{beside.where}: {cause}") from cause


def _expect_no_hashes(money: Database, file: Path) -> None:
    """Raise UnusablePepper if credentials were hashed: a new pepper would open none of them."""
    if money.execute(IS_USED).get:
        raise UnusablePepper(
            f"expected the pepper of the credentials that are stored, in {file} or in"
            " credits.pepper; there is none: restore it from your backup"
        )


@contextmanager
def opened(config: Config, kind: str) -> Iterator[Database]:
    """Open the tables of *kind*, money or market, for a moment.  Raises UnusableStore."""
    database: Database
    if config.store is None:
        try:
            config.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as cause:
            where = f"the {kind} file in {config.data_dir}"
            raise StoreUnavailable(f"{where} does not answer: {cause}") from cause
        name = MONEY_FILE if kind == "money" else MARKET_FILE
        database = SqliteDatabase(config.data_dir / name, kind)
    else:
        with extra("postgres", "psycopg", "store"):
            from mintscope.app.stores import postgres as openers  # noqa: PLC0415 - extra
        database = openers.open_tables(config.store.get_secret_value(), kind)
    try:
        yield database
    finally:
        database.close()


# The products, their price and recipient; where; and how often.
OF_PAYMENTS: Final = "payments"
OF_ACCOUNTS: Final = "accounts"
OF_API: Final = ("origin", *(name for name in ApiConfig.model_fields if "limit_" in name))


def common_settings(config: Config) -> Mapping[str, str]:
    """Return them as texts by name; secrets as hashes."""
    common = {"replicas_max": f"{config.replicas_max}"}
    common |= _section(OF_PAYMENTS, config.payments) | _section(OF_ACCOUNTS, config.accounts)
    return common | {f"api.{name}": _told(getattr(config.api, name)) for name in OF_API}


def _section(name: str, section: Section) -> dict[str, str]:
    return {f"{name}.{field}": _told(value) for field, value in section}


def _told(value: object) -> str:
    if isinstance(value, SecretStr):
        return _hashed(value.get_secret_value().encode())
    if isinstance(value, Path) and value.is_file():  # where it is does not matter
        return _hashed(value.read_bytes())
    return str(value)


def _hashed(secret: bytes) -> str:
    return f"sha256:{sha256(secret).hexdigest()}"


class Turn(Protocol):
    """The right to write the market, and the epoch that its holder writes in."""

    @property
    def epoch(self) -> int | None:
        """The epoch, once the right is had; None where there are none."""

    def held(self) -> AbstractAsyncContextManager[None]:
        """Wait for it, and have it during the block.  Raises StoreUnavailable."""

    async def keep(self) -> None:
        """Keep it until cancelled.  Raises StoreUnavailable once it is lost."""


class _OnlyOne:
    """Implements Turn for the one process that holds the folder of all files."""

    epoch = None

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        yield

    async def keep(self) -> None:
        await asyncio.Event().wait()


def turn(config: Config) -> Turn:
    """Return the lock that says when this process may write.  Raises UnusableStore."""
    if config.store is None:
        return _OnlyOne()
    with extra("postgres", "psycopg", "store"):
        from mintscope.kit.sql.processes import (  # noqa: PLC0415 - an extra
            IngestLock,
        )
    return IngestLock(config.store.get_secret_value())


@asynccontextmanager
async def reading_turn(config: Config) -> AsyncIterator[None]:
    """Be the one process of the installation that reads a past, during the block.

    Raises BackfillIsRead while another one is, StoreUnavailable.
    """
    with ExitStack() as stack:
        await asyncio.to_thread(stack.enter_context, _reading(config))
        yield


@contextmanager
def _reading(config: Config) -> Iterator[None]:
    if config.store is None:
        try:
            with folder.held(config.data_dir, "history", may_be_open=True):
                yield
        except FolderInUse:
            raise BackfillIsRead from None
        return
    with extra("postgres", "psycopg", "store"):
        from mintscope.kit.sql.processes import (  # noqa: PLC0415 - an extra
            reading,
        )
    with reading(config.store.get_secret_value()) as is_ours:
        if not is_ours:
            raise BackfillIsRead
        yield


LIMITS_ASKED_S_MAX: Final = 5.0


@asynccontextmanager
async def open_limits(config: Config, clock: Clock) -> AsyncIterator[Limits]:
    """Open the counters of requests: the PostgreSQL of `store`, else the memory of this process.

    Raises UnusableStore if its package is not installed, StoreUnavailable if it does not answer.
    """
    store = _window_store(config)
    if store is None:
        yield MemoryLimits(clock)
        return
    batches = LimitBatches(store, clock)
    async with aclosing(SharedLimits(batches, clock, replicas=config.replicas_max)) as limits:
        yield limits


async def expect_limits(config: Config) -> bool:
    """Ask the store of limits; return False if there is none.

    Raises StoreUnavailable if it does not answer, UnusableStore if it cannot be asked.
    """
    store = _window_store(config)
    if store is None:
        return False
    async with aclosing(store):
        try:
            async with asyncio.timeout(LIMITS_ASKED_S_MAX):
                await store.settle(())
        except (LimitStoreAway, TimeoutError) as cause:
            raise StoreUnavailable(f"{cause}" or "no answer in time") from cause
    return True


def _window_store(config: Config) -> WindowStore | None:
    if config.store is None:
        return None
    with extra("postgres", "psycopg", "store"):
        from mintscope.app.stores.postgres import open_windows  # noqa: PLC0415
    return open_windows(config.store.get_secret_value())


@asynccontextmanager
async def waiting(config: Config) -> AsyncIterator[Wait]:
    """Yield the waiter for the log; the database notifies it if it can.  Raises UnusableStore."""
    poll_interval_s = config.api.poll_interval_ms / 1000
    if config.store is None:
        yield partial(asyncio.sleep, poll_interval_s)
        return
    with extra("postgres", "psycopg", "store"):
        from mintscope.kit.sql.processes import MarketNotices  # noqa: PLC0415 - extra
    settings = common_settings(config)
    async with aclosing(MarketNotices(config.store.get_secret_value(), settings)) as notices:
        await notices.open()
        yield partial(notices.wait, poll_interval_s)
