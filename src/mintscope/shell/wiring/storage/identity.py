"""Refusing a store that was emptied or exchanged, before anything is done with it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from mintscope import __version__
from mintscope.base.clock import SystemClock
from mintscope.base.errors import StoreUnavailable, UnusablePepper, UnusableStore
from mintscope.edges.storage.database import Database, DatabaseAway, DatabaseError
from mintscope.edges.storage.folder import MARKET_FILE, MONEY_FILE, PEPPER_FILE
from mintscope.edges.storage.identity import IS_USED, Beside, settle
from mintscope.edges.storage.sqlite.database import SqliteDatabase
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.processes.build import commit
from mintscope.shell.wiring.storage.extras import extra

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
            from mintscope.edges.storage.postgres import openers  # noqa: PLC0415 - extra
        database = openers.open_tables(config.store.get_secret_value(), kind)
    try:
        yield database
    finally:
        database.close()
