"""Chooses the engine of an installation."""

from typing import TYPE_CHECKING

from mintscope.app.config.groups import Config

if TYPE_CHECKING:
    from mintscope.app.stores.engines import Engine


def is_shared(config: Config) -> bool:
    """Return whether processes on several machines can share the stores."""
    return address_of(config) is not None


def address_of(config: Config) -> str | None:
    """Return the address of the shared store with its password; None if the stores are files."""
    return None if config.store is None else config.store.get_secret_value()


def engine_of(config: Config) -> "Engine":
    """Return the engine of *config*.  Raises UnusableStore if a package is missing."""
    address = address_of(config)
    if address is not None:
        from mintscope.app.stores.places import extra  # noqa: PLC0415 - only if chosen

        with extra("postgres", "psycopg", "store"):
            from mintscope.app.stores.postgres import PostgresEngine  # noqa: PLC0415 - an extra
        return PostgresEngine(address)
    from mintscope.app.stores.sqlite import SqliteEngine  # noqa: PLC0415 - only if chosen

    return SqliteEngine(config.data_dir)
