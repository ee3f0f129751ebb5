"""Bringing a schema up to date, or saying what that would do."""

from typing import Final

from mintscope.base.errors import NeedsUpgrade, StoreUnavailable
from mintscope.edges.storage.database import DatabaseError
from mintscope.edges.storage.folder import MARKET_FILE, MONEY_FILE, WEBHOOKS_FILE
from mintscope.edges.storage.sqlite.connection import migrate_file, waits_for
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.storage.extras import extra

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
        from mintscope.edges.storage.postgres import migrating  # noqa: PLC0415 - an extra
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
        from mintscope.edges.storage.postgres import migrating  # noqa: PLC0415 - an extra
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
