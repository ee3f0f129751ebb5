"""Opens the stores of an installation, its secrets and its limits, as configured."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    aclosing,
    asynccontextmanager,
)
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Final, NamedTuple

from pydantic import SecretStr

from mintscope import __version__
from mintscope.app.config.config import ApiConfig, Section
from mintscope.app.config.groups import Config
from mintscope.app.engine import engine_of, is_shared
from mintscope.app.running.commit import commit
from mintscope.app.stores import folder
from mintscope.app.stores.copying import (
    FILES,
    SECRETS,
    CannotCopy,
    Progress,
    copy_secrets,
    expect_no_other_pepper,
)
from mintscope.app.stores.folder import OTHERS
from mintscope.app.stores.market import Market
from mintscope.app.stores.money import Money
from mintscope.kit.clock import Clock, SystemClock
from mintscope.kit.credentials import Root, parse_root, rotated
from mintscope.kit.errors import StoreUnavailable, UnusablePepper, UnusableStore
from mintscope.kit.limits import Limits, MemoryLimits
from mintscope.kit.sql.database import Database, DatabaseAway, DatabaseError
from mintscope.kit.sql.identity import IS_USED, Beside, settle
from mintscope.kit.sql.limits import LimitBatches, LimitStoreAway, SharedLimits
from mintscope.kit.sql.sqlite import engine_version
from mintscope.kit.time import DAY_S, HOUR_S, MINUTE_S
from mintscope.market.follow.tailer import Waiting
from mintscope.market.ports import Retention
from mintscope.market.timeframe import Timeframe

__all__ = ["OTHERS", "Market", "Money", "Progress", "engine_version"]


def back_up(config: Config, target: Path, progress: Progress) -> None:
    """Copy the installation, which may be running, into the new folder *target*.

    Pepper and roots are copied into `backup.secrets_to` if it is set, else into *target*.

    Raises    UnusableStore; CannotCopy, also if `backup.secrets_to` has another pepper
    """
    secrets_to = config.backup.secrets_to
    if secrets_to is not None:
        expect_no_other_pepper(config.data_dir, secrets_to)
    engine_of(config).back_up(target, progress)
    copy_secrets(config.data_dir, secrets_to or target)


def restore(
    config: Config, source: Path, progress: Progress, *, secrets: Path | None = None
) -> None:
    """Restore the backup in *source* to the installation, which must be empty and stopped.

    Roots are restored even if a pepper is configured, because they sign in its place.  Roots that
    the installation already has are kept if the store is PostgreSQL; otherwise they prevent the
    restore.

    secrets   the folder of pepper and roots, if they are not in *source*; if it is None,
              `backup.secrets_to`
    Raises    the errors of the engine's method `restore`; CannotCopy, before anything is copied, if
              *secrets* has no pepper, and none is configured or, for `backup.secrets_to`, in the
              folder of the installation
    """
    if secrets is None:
        is_apart = not (source / folder.PEPPER_FILE).exists()
        secrets = config.backup.secrets_to if is_apart else None
        needs_pepper = not has_pepper(config)
    else:
        needs_pepper = config.credits.pepper is None
    if secrets is not None and needs_pepper:
        kept = secrets / folder.PEPPER_FILE
        if not kept.exists():
            raise CannotCopy(f"expected the file {kept}, without which all credentials are void")
    file = config.data_dir / folder.ROOTS_FILE
    # Read first, because the copies below replace the file.
    roots = {*folder.load_roots(file)}
    engine_of(config).restore(source, progress)
    copied = SECRETS if config.credits.pepper is None else [folder.ROOTS_FILE]
    for each in (source, secrets):
        if each is not None:
            copy_secrets(each, config.data_dir, copied)
            roots |= {*folder.load_roots(file)}
    if roots:
        folder.keep_roots(file, sorted(roots))


def has_pepper(config: Config) -> bool:
    """Return whether the installation has a pepper: in its folder, or in the configuration."""
    return config.credits.pepper is not None or (config.data_dir / folder.PEPPER_FILE).exists()


class Place(NamedTuple):
    """The location of a store, in words for messages, and whether the store does not exist yet."""

    name: str
    is_new: bool


def place_of(config: Config, kind: str) -> Place:
    """Return the location of the store of *kind* (market, money or webhooks): file or database."""
    if is_shared(config):
        return Place("the database of store", is_new=False)
    path = config.data_dir / FILES[kind]
    return Place(str(path), is_new=not path.exists())


def pepper_file(config: Config) -> Path:
    """Return the path of the pepper's file, for installations without a configured pepper."""
    return config.data_dir / folder.PEPPER_FILE


def expect_pepper(config: Config) -> None:
    """Check the stored pepper, creating it if missing.  Raises UnusablePepper."""
    folder.load_pepper(pepper_file(config), signs=not roots_of(config))


def roots_of(config: Config) -> Sequence[Root]:
    """Return the roots that sign instead of the pepper, from the configuration and the file.

    Raises UnusablePepper.
    """
    configured = [parse_root(each.get_secret_value()) for each in config.credits.roots]
    return [*configured, *folder.load_roots(config.data_dir / folder.ROOTS_FILE)]


def keep_new_root(config: Config, new: Root) -> Path:
    """Add *new* to the file of roots; return the path of the file.  Raises UnusablePepper."""
    path = config.data_dir / folder.ROOTS_FILE
    folder.keep_roots(path, rotated(folder.load_roots(path), new))
    return path


def retention_of(config: Config) -> Retention:
    """Return the periods for which candles and swaps are stored."""
    market = config.market
    keep_s = {
        Timeframe.M1: market.retention_m1_hours * HOUR_S,
        Timeframe.M5: market.retention_m5_hours * HOUR_S,
        Timeframe.M15: market.retention_m15_days * DAY_S,
        Timeframe.H1: market.retention_h1_days * DAY_S,
    }
    return Retention(keep_s, market.retention_swaps_minutes * MINUTE_S)


def open_market(config: Config, *, epoch: int | None = None) -> AbstractAsyncContextManager[Market]:
    """Open the market.  Raises UnusableStore.

    epoch   the epoch of this ingest, whose writes fail once a later epoch has begun; None: the
            writes do not depend on the epoch
    """
    return engine_of(config).open_market(
        retention=retention_of(config), follows_all=config.market.track == "all", epoch=epoch
    )


def open_money(config: Config, clock: Clock) -> AbstractAsyncContextManager[Money]:
    """Open the tables of credits, payments and accounts.  Raises UnusableStore."""
    configured = config.credits.pepper
    pepper = None if configured is None else bytes.fromhex(configured.get_secret_value())
    return engine_of(config).open_money(
        pepper=pepper, pepper_file=pepper_file(config), clock=clock, roots=roots_of(config)
    )


NAME_BYTES = 16


def expect_own_stores(
    config: Config, *, is_new: bool = False, writes: bool = False, uses_pepper: bool = False
) -> str:
    """Return the name of the installation; at the first start, assign one.

    is_new        whether to accept an emptied store, or a store of another installation
    writes        whether to record this build; processes that serve or ingest do
    uses_pepper   whether to require the file of the pepper if the store was used with a pepper
                  and none is configured
    Raises        UnusableStore, StoreUnavailable
    """
    beside = Beside(
        where=engine_of(config).where,
        has_pepper=config.credits.pepper is None
        and (config.data_dir / folder.PEPPER_FILE).exists(),
        is_new=is_new,
        version=__version__,
        commit=(commit() or "") if writes else None,
        now=SystemClock().now(),
    )
    try:
        with opened(config, "money") as money, opened(config, "market") as market:
            name = settle(money, market, beside, token_hex(NAME_BYTES))
            if uses_pepper and config.credits.pepper is None:
                _expect_kept(config.data_dir / folder.PEPPER_FILE, money)
            return name
    except DatabaseAway as cause:
        raise StoreUnavailable(f"{beside.where} does not answer: {cause}") from cause
    except DatabaseError as cause:
        raise UnusableStore(f"{beside.where}: {cause}") from cause


def _expect_kept(file: Path, money: Database) -> None:
    """Raise UnusablePepper if the store was used with a pepper, but *file* does not exist.

    With a new pepper, no stored credential would be valid.
    """
    # Query the store first: another process creates the file before it stores the pepper's hash.
    if money.execute(IS_USED).get and not file.exists():
        raise UnusablePepper(
            f"expected the pepper of the credentials that are stored, in {file} or in"
            " credits.pepper; there is none: restore it from your backup"
        )


def opened(config: Config, kind: str, *, migrates: bool = True) -> AbstractContextManager[Database]:
    """Open the tables of *kind*, money or market, during the block.

    migrates   whether to run pending migrations first
    Raises     UnusableStore, DatabaseError
    """
    return engine_of(config).opened(kind, migrates=migrates)


OF_API: Final = ("origin", *(name for name in ApiConfig.model_fields if "limit_" in name))


def common_settings(config: Config) -> Mapping[str, str]:
    """Return the settings that must be the same in all api processes, as texts by name.

    Secrets and the contents of files are hashed.
    """
    common = {"replicas_max": f"{config.replicas_max}"}
    common |= _section("payments", config.payments) | _section("accounts", config.accounts)
    return common | {f"api.{name}": _setting_text(getattr(config.api, name)) for name in OF_API}


def _section(name: str, section: Section) -> dict[str, str]:
    return {f"{name}.{field}": _setting_text(value) for field, value in section}


def _setting_text(value: object) -> str:
    if isinstance(value, SecretStr):
        return _hashed(value.get_secret_value().encode())
    if isinstance(value, Path) and value.is_file():  # by content, because paths may differ
        return _hashed(value.read_bytes())
    return str(value)


def _hashed(secret: bytes) -> str:
    return f"sha256:{sha256(secret).hexdigest()}"


@asynccontextmanager
async def backfill_lock(config: Config) -> AsyncIterator[None]:
    """Let no other process of the installation read a backfill during the block.

    Raises BackfillIsRead if one does already, StoreUnavailable if the store does not answer.
    """
    with ExitStack() as stack:
        # In a thread, because connecting to PostgreSQL may take seconds.
        await asyncio.to_thread(stack.enter_context, engine_of(config).backfill_lock())
        yield


LIMITS_ASKED_S_MAX: Final = 5.0


@asynccontextmanager
async def open_limits(config: Config, clock: Clock) -> AsyncIterator[Limits]:
    """Yield the object that creates the rate limiters of this process.

    They count requests in PostgreSQL if `store` is set, else in memory.  Raises StoreUnavailable if
    PostgreSQL does not answer, UnusableStore if it cannot be used.
    """
    store = engine_of(config).windows()
    if store is None:
        yield MemoryLimits(clock)
        return
    batches = LimitBatches(store, clock)
    async with aclosing(SharedLimits(batches, clock, replicas=config.replicas_max)) as limits:
        yield limits


async def expect_limits(config: Config) -> bool:
    """Check that the shared store of limits responds; return False if there is no such store.

    Raises StoreUnavailable if the store does not answer, UnusableStore if it cannot be used.
    """
    store = engine_of(config).windows()
    if store is None:
        return False
    async with aclosing(store):
        try:
            async with asyncio.timeout(LIMITS_ASKED_S_MAX):
                await store.settle(())
        except (LimitStoreAway, TimeoutError) as cause:
            raise StoreUnavailable(f"{cause}" or "no answer in time") from cause
    return True


def waiting(config: Config) -> AbstractAsyncContextManager[Waiting]:
    """Return a context manager of a `Waiting`, which waits until the swap log has grown.

    With SQLite, it waits for *api.poll_interval_ms* instead.  Entering the context manager raises
    UnusableStore if api processes with other settings run.
    """
    poll_interval_s = config.api.poll_interval_ms / 1000
    return engine_of(config).waiting(poll_interval_s, common_settings(config))
