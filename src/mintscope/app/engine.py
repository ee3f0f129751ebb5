"""Chooses between SQLite and PostgreSQL for the stores of an installation."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mintscope.app.config.groups import Config
from mintscope.kit.errors import UnusableStore

if TYPE_CHECKING:
    from mintscope.app.stores.postgres import PostgresEngine
    from mintscope.app.stores.sqlite import SqliteEngine


@contextmanager
def extra(name: str, package: str, setting: str) -> Iterator[None]:
    """If the block imports a module that is missing, raise UnusableStore, which names *package*.

    name      name of the extra, and of the file in requirements, that installs the package
    setting   the setting that needs the package
    """
    try:
        yield
    except ModuleNotFoundError as cause:
        raise UnusableStore(
            f"expected the Python package {package}, for the setting {setting}; it is not"
            f" installed: pip install --require-hashes -r requirements/{name}.txt, a file of"
            " mintscope's sources"
        ) from cause


def is_shared(config: Config) -> bool:
    """Return whether processes on several machines can share the stores."""
    return address_of(config) is not None


def address_of(config: Config) -> str | None:
    """Return the address of the shared store with its password; None if the stores are files."""
    return None if config.store is None else config.store.get_secret_value()


def engine_of(config: Config) -> "SqliteEngine | PostgresEngine":
    """Return the engine of the configured store, PostgreSQL or SQLite.

    Each method of an engine may raise UnusableStore and StoreUnavailable.  Raises UnusableStore if
    a package is missing.
    """
    address = address_of(config)
    if address is not None:
        with extra("postgres", "psycopg", "store"):
            from mintscope.app.stores.postgres import PostgresEngine  # noqa: PLC0415 - an extra
        return PostgresEngine(address)
    from mintscope.app.stores.sqlite import SqliteEngine  # noqa: PLC0415 - only if chosen

    return SqliteEngine(config.data_dir)
