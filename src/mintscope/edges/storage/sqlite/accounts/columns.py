"""What every table needs: a row from named columns, and a change of some."""

from collections.abc import Iterable, Mapping

import apsw
import msgspec

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.keys.scope import Scope, in_order


def insert(db: apsw.Connection, table: str, columns: Mapping[str, object]) -> int:
    """Add a row and return its id; names are never taken from a request."""
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    statement = f"INSERT INTO {table} ({names}) VALUES ({marks}) RETURNING id"  # noqa: S608
    return int(db.execute(statement, tuple(columns.values())).get)


def update(db: apsw.Connection, table: str, row_id: int, changes: Mapping[str, object]) -> None:
    """Change columns of one row; names are never taken from a request."""
    settings = ", ".join(f"{name} = ?" for name in changes)
    statement = f"UPDATE {table} SET {settings} WHERE id = ?"  # noqa: S608
    db.execute(statement, (*changes.values(), row_id))


def moment(at: int | None) -> UnixMs | None:
    """Return a time that may be missing."""
    return None if at is None else UnixMs(at)


def scopes_text(scopes: Iterable[Scope]) -> str:
    """Return *scopes* as they are stored: a JSON list in the order of lists of scopes."""
    return msgspec.json.encode(in_order(scopes)).decode()


def scopes_of(text: str) -> frozenset[Scope]:
    """Return the scopes that *text* holds."""
    return frozenset(msgspec.json.decode(text, type=list[Scope]))
