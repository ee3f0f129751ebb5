"""Bringing a schema up to date, or saying what that would do."""

from mintscope.edges.storage.folder import MARKET_FILE, MONEY_FILE, WEBHOOKS_FILE
from mintscope.edges.storage.sqlite.connection import migrate_file
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.storage.extras import extra


def migrations(config: Config, *, is_done: bool) -> list[str]:
    """Return the names of the migrations that the store lacked.

    is_done   run them
    Raises    UnusableStore
    """
    if config.store is None:
        files = {"money": MONEY_FILE, "market": MARKET_FILE, "webhooks": WEBHOOKS_FILE}
        return [
            f"{kind} {name}"
            for kind, file in files.items()
            for name in migrate_file(config.data_dir / file, kind, is_done=is_done)
        ]
    with extra("postgres", "psycopg", "store"):
        from mintscope.edges.storage.postgres import migrating  # noqa: PLC0415 - an extra
    return migrating.migrate_all(config.store.get_secret_value(), is_done=is_done)
