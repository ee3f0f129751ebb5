"""Candles as tables in CSV, Parquet or the file format of Arrow.

A table has one column for each value, in the order of COLUMNS; tables of several mints begin with a
column `token`.  A value that is not known is null, and empty in CSV.  Parquet and Arrow are written
by polars, which is installed with the extra `tables` of the package.
"""

from collections.abc import Sequence
from enum import StrEnum
from io import BytesIO
from typing import Any, Final, TypeAlias

from mintscope.kit.primitives import MICRO_USD, UnixS
from mintscope.market.series.pools import SeriesCandle

COLUMNS: Final = (
    "t", "o", "h", "l", "c", "solO", "solH", "solL", "solC", "volume", "buyVolume", "sellVolume",
    "swaps", "imported", "isOpen",
)  # fmt: skip
INTEGERS: Final = frozenset({"t", "swaps"})
BOOLEANS: Final = frozenset({"imported", "isOpen"})
TEXTS: Final = frozenset({"token"})
Column: TypeAlias = Sequence[float | str | None]
Table: TypeAlias = dict[str, Column]


class TableFormat(StrEnum):
    """A file format for tables of candles."""

    CSV = "csv"
    PARQUET = "parquet"
    ARROW = "arrow"


MEDIA_TYPES: Final = {
    TableFormat.CSV: "text/csv; charset=utf-8",
    TableFormat.PARQUET: "application/vnd.apache.parquet",
    TableFormat.ARROW: "application/vnd.apache.arrow.file",
}


class NoTableLibrary(Exception):
    """Raised if polars, which writes Parquet and Arrow, is not installed."""


def table_of(candles: Sequence[SeriesCandle], ended: UnixS) -> Table:
    """Return *candles* as a table by name of the column, as in the response of `GET .../candles`.

    ended    candles that begin later than this time are open
    """
    return {
        "t": [c.bucket for c in candles],
        "o": [c.open for c in candles],
        "h": [c.high for c in candles],
        "l": [c.low for c in candles],
        "c": [c.close for c in candles],
        "solO": [c.open_sol for c in candles],
        "solH": [c.high_sol for c in candles],
        "solL": [c.low_sol for c in candles],
        "solC": [c.close_sol for c in candles],
        "volume": [
            (c.buy_volume + c.sell_volume + (c.imported_volume or 0)) / MICRO_USD for c in candles
        ],
        "buyVolume": [_own(c, c.buy_volume / MICRO_USD) for c in candles],
        "sellVolume": [_own(c, c.sell_volume / MICRO_USD) for c in candles],
        "swaps": [_own(c, c.count) for c in candles],
        "imported": [c.imported_volume is not None for c in candles],
        "isOpen": [c.bucket > ended for c in candles],
    }


def _own(candle: SeriesCandle, value: float) -> float | None:
    return value if candle.imported_volume is None else None


def joined(tables: Sequence[Table]) -> Table:
    """Return one table with the rows of all *tables*: at least one, all with the same columns."""
    return {name: [value for one in tables for value in one[name]] for name in tables[0]}


def written(table: Table, form: TableFormat) -> bytes:
    """Return *table* as the bytes of a file in the format *form*.

    Raises NoTableLibrary for Parquet and Arrow if polars is not installed.
    """
    if form is TableFormat.CSV:
        return _csv(table)
    try:
        import polars  # noqa: ICN001, PLC0415 - large, and of an extra
    except ImportError:
        raise NoTableLibrary(f"expected polars, which writes {form}; it is not installed") from None
    kinds: dict[str, Any] = {name: _kind(name, polars) for name in table}
    # Without a schema, a column without values would have no type.
    frame = polars.DataFrame(table, schema=kinds)
    file = BytesIO()
    if form is TableFormat.PARQUET:
        frame.write_parquet(file)
    else:
        frame.write_ipc(file)
    return file.getvalue()


def _kind(name: str, polars: Any) -> Any:
    if name in INTEGERS:
        return polars.Int64
    if name in BOOLEANS:
        return polars.Boolean
    return polars.String if name in TEXTS else polars.Float64


def _csv(table: Table) -> bytes:
    rows = zip(*([_cell(value) for value in column] for column in table.values()), strict=True)
    lines = [",".join(table), *map(",".join, rows), ""]
    return "\n".join(lines).encode()


def _cell(value: float | str | None) -> str:
    if value is None:
        return ""
    # Before numbers, because True is an int.
    if isinstance(value, bool):
        return "true" if value else "false"
    # `repr` gives the shortest text that reads back as the same float.
    return value if isinstance(value, str) else repr(value)
