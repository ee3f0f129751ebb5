"""Pages of rows as a model reads them: the names of columns once, then one array a row.

595 candles as objects are 154 KB; many hosts give a result of a tool 25,000 units of text at most.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

SIGNIFICANT_DIGITS: Final = 9


def table_of(items: Sequence[Mapping[str, Any]], fields: Collection[str]) -> dict[str, Any]:
    """Return *items* as columns and rows; nested values are columns with a dotted name.

    fields   the names of fields to keep, in the order of the items; all of them if it is empty

    Numbers that are not integers are rounded to nine significant digits.
    """
    flat = [dict(_flattened(item, fields)) for item in items]
    columns = _columns(flat)
    rows = [[_rounded(row.get(column)) for column in columns] for row in flat]
    return {"columns": columns, "rows": rows}


def _flattened(item: Mapping[str, Any], fields: Collection[str]) -> Iterable[tuple[str, Any]]:
    for name, value in item.items():
        if fields and name not in fields:
            continue
        if isinstance(value, Mapping):
            yield from ((f"{name}.{inner}", each) for inner, each in _flattened(value, ()))
        else:
            yield name, value


def _columns(flat: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of all columns; one that is null where others are nested is left out."""
    names = list(dict.fromkeys(name for row in flat for name in row))
    nested = {name.rpartition(".")[0] for name in names}
    return [name for name in names if name not in nested]


def _rounded(value: Any) -> Any:
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}") if isinstance(value, float) else value
