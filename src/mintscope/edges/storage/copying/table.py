"""Tables that are copied, and the databases to copy from and into."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from mintscope.base.errors import UnusableStore
from mintscope.edges.storage.database import Row

# Tables of a database, not of the installation.
NOT_COPIED: Final = {
    *("migration", "sqlite_sequence", "copy_progress"),
    *("credit_batch", "credit_writer", "ingest_epoch", "limit_window"),
    *("replica_settings", "token_price", "backup_taken", "list_snapshot", "list_snapshot_piece"),
}
# Rows that a new schema holds already.
MADE_BY_MIGRATIONS: Final = {"progress", "credit_day_mark", "credit_received_mark"}


class Relation(NamedTuple):
    """A table of both engines.

    columns   their types, as PostgreSQL names them, by their names
    key       the columns of its primary key
    """

    name: str
    columns: Mapping[str, str]
    key: Sequence[str]


class Side(Protocol):
    """An installation's tables, for reading."""

    def tables(self) -> Mapping[str, Relation]:
        """Return them by name."""

    def rows(self, table: Relation, after: Sequence[object] | None, rows_max: int) -> Sequence[Row]:
        """Return the rows behind key *after*, in the order of the key."""

    def sequences(self) -> Mapping[str, int]:
        """Return the largest number ever given, of tables that number their rows."""

    def close(self) -> None:
        """Let go of files and connections."""


class Target(Side, Protocol):
    """One that is copied into."""

    def begin(self, source: str) -> None:
        """Let rows be added without the guards of the schema, from *source* alone.

        Raises NotEmpty if anything else is there.
        """

    def add(self, table: Relation, rows: Sequence[Row]) -> None:
        """Add rows, all or none."""

    def end(self, sequences: Mapping[str, int]) -> None:
        """Put the guards back, which check what is there."""


class CannotCopy(UnusableStore):
    """The message says what was expected and what was there."""


def keyed(table: Relation, row: Row) -> list[object]:
    """Return the key of *row*."""
    places = list(table.columns)
    return [row[places.index(name)] for name in table.key]


def quoted(names: Sequence[str], more: str = "") -> str:
    """Return *names* for a statement, each with *more* behind it."""
    return ", ".join(f'"{name}"{more}' for name in names)


def reading(table: Relation, *, after: bool, order: Sequence[str]) -> str:
    """Return the statement that reads a part of *table*.

    order   how each column of the key is compared
    """
    marks = ", ".join("?" * len(order))
    compared = ", ".join(order)
    behind = f"WHERE ({compared}) > ({marks})" if after else ""
    return (
        f'SELECT {quoted(list(table.columns))} FROM "{table.name}" {behind}'  # noqa: S608 - ours
        f" ORDER BY {compared} LIMIT ?"
    )
