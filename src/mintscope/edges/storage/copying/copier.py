"""From one installation into another: rows in the order of their keys, and a check of each."""

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from mintscope.edges.storage.copying.table import CannotCopy, Relation, Side, Target, keyed
from mintscope.edges.storage.database import Row

ROWS_MAX: Final = 2_000

Progress = Callable[[str, int], None]
_encode: Final = msgspec.msgpack.Encoder().encode


class Sum(NamedTuple):
    """The comparison of a table.

    total   of all integers in it
    hash    of every row, in the order of the key
    """

    rows: int
    total: int
    hash: str


def copy(source: Side, target: Target, name: str, progress: Progress) -> dict[str, Sum]:
    """Copy every row of *source*, and compare; return what was compared.

    A copy that was interrupted goes on behind the last row that is there.

    name       of the source, so that only a copy of the same goes on
    progress   called with (table, rows)
    Raises     CannotCopy
    """
    tables = source.tables()
    if tables.keys() != target.tables().keys():
        differ = sorted(tables.keys() ^ target.tables().keys())
        raise CannotCopy(f"expected the same tables on both sides; these differ: {differ}")
    target.begin(name)
    for table in tables.values():
        _copy_table(source, target, table, progress)
    sums = {table.name: _compared(source, target, table, progress) for table in tables.values()}
    target.end(source.sequences())
    return sums


def _copy_table(source: Side, target: Target, table: Relation, progress: Progress) -> None:
    for rows in _parts(source, table, after=_last(target, table)):
        target.add(table, rows)
        progress(f"copied {table.name}", len(rows))


def _last(target: Target, table: Relation) -> list[object] | None:
    last = None
    for rows in _parts(target, table):
        last = keyed(table, rows[-1])
    return last


def _compared(source: Side, target: Target, table: Relation, progress: Progress) -> Sum:
    expected = _sum(source, table, progress)
    found = _sum(target, table, progress)
    if found != expected:
        raise CannotCopy(
            f"expected {expected.rows} rows of {table.name}, integers that add up to"
            f" {expected.total} and hash {expected.hash[:16]}; there are {found.rows},"
            f" {found.total} and {found.hash[:16]}: was the source written meanwhile? Begin again"
            " with an empty target"
        )
    return found


def _sum(side: Side, table: Relation, progress: Progress) -> Sum:
    count = total = 0
    digest = sha256()
    for rows in _parts(side, table):
        for row in rows:
            total += sum(value for value in row if isinstance(value, int))
            digest.update(_encode(tuple(row)))
        count += len(rows)
        progress(f"compared {table.name}", len(rows))
    return Sum(count, total, digest.hexdigest())


def _parts(side: Side, table: Relation, after: list[object] | None = None) -> Iterator[list[Row]]:
    while rows := list(side.rows(table, after, ROWS_MAX)):
        yield rows
        after = keyed(table, rows[-1])
