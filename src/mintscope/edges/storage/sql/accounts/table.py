"""A table of accounts: its rows are read into records by the names of their fields."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, Generic, TypeVar, cast, get_type_hints

import msgspec

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.keys.scope import in_order
from mintscope.edges.storage.database import Database, ahead_ms, marks

IdT = TypeVar("IdT", bound=int)
RowT = TypeVar("RowT")

NO_END: Final = "9223372036854775807"  # the greatest id
DECODERS: Final[Mapping[str, Callable[[Any], object]]] = {
    "scopes": msgspec.json.decode,
    "asked_scopes": msgspec.json.decode,
    "facts": msgspec.json.decode,
    "detail": msgspec.json.decode,
    "is_administrator": bool,
    "is_active": bool,
    "is_closed": bool,
    "by_email": bool,
    "user_removed": bool,
    "has_second_factor": bool,
}


class Columns(Generic[RowT]):
    """The columns that make a *kind*: in *table*, by the names of its fields.

    expressions   of fields that have no such column; Columns for one that is a record itself, and
                  is None where its first column is NULL
    """

    def __init__(self, kind: type[RowT], table: str, **expressions: "str | Columns[Any]") -> None:
        self._kind = kind
        names = get_type_hints(kind)
        self._parts = {name: expressions.get(name, f'"{table}".{name}') for name in names}
        parts = self._parts.values()
        self.text: str = ", ".join(part if isinstance(part, str) else part.text for part in parts)

    def read(self, row: Iterable[Any]) -> RowT:
        """Return the record of a row that holds the columns in the order of `text`."""
        return msgspec.convert(self._fields(iter(row)), self._kind, builtin_types=(bytes,))

    def _fields(self, values: Iterator[Any]) -> dict[str, object] | None:
        found: dict[str, object] = {}
        for name, part in self._parts.items():
            if isinstance(part, Columns):
                found[name] = part._fields(values)
            else:
                value = next(values)
                found[name] = DECODERS[name](value) if name in DECODERS else value
        return None if next(iter(found.values())) is None else found


class Table(Generic[IdT, RowT]):
    """One table inside a transaction; names of columns are never taken from a request.

    NAME     of the table
    COLUMNS  of its records
    SOURCE   what they are selected from, with the condition that all of them meet
    """

    NAME: ClassVar[str]
    COLUMNS: ClassVar[Columns[Any]]
    SOURCE: ClassVar[str]

    def __init__(self, db: Database) -> None:
        self._db = db

    def get(self, row_id: IdT, /) -> RowT | None:
        """Return one record."""
        return self._first(f'"{self.NAME}".id = ?', row_id)

    def update(self, row_id: IdT, /, **changes: object) -> None:
        """Change columns of one row."""
        settings = ", ".join(f'"{name}" = ?' for name in changes)
        values = [_stored(value) for value in changes.values()]
        statement = f'UPDATE "{self.NAME}" SET {settings} WHERE id = ?'  # noqa: S608
        self._db.execute(statement, (*values, row_id))

    def _shared(self, at: UnixMs) -> UnixMs:
        """Return *at*, which is by the clock of this process, by the clock that all share."""
        return UnixMs(at - ahead_ms(self._db))

    def _add(self, columns: Mapping[str, object]) -> IdT:
        names = ", ".join(f'"{name}"' for name in columns)
        values = tuple(_stored(value) for value in columns.values())
        given = f"({names}) VALUES ({marks(values)})"
        statement = f'INSERT INTO "{self.NAME}" {given} RETURNING id'
        return cast("IdT", self._db.execute(statement, values).get)

    def _all(self, condition: str, *values: object) -> list[RowT]:
        statement = f"SELECT {self.COLUMNS.text} FROM {self.SOURCE} {condition}"  # noqa: S608
        return [self.COLUMNS.read(row) for row in self._db.execute(statement, values)]

    def _first(self, condition: str, *values: object) -> RowT | None:
        return next(iter(self._all(condition, *values)), None)


def _stored(value: object) -> object:
    """Return *value* as a column holds it: scopes and facts as JSON, booleans as numbers."""
    if isinstance(value, frozenset):
        return msgspec.json.encode(in_order(value)).decode()
    if isinstance(value, dict):
        return msgspec.json.encode(value).decode()
    return int(value) if isinstance(value, bool) else value
