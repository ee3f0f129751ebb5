"""Converts rows to a DataFrame; only this module needs pandas or polars."""

import sys
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

Library: TypeAlias = Literal["pandas", "polars"]
LIBRARIES: Final[tuple[Library, ...]] = ("pandas", "polars")
MOMENTS: Final = frozenset({"t", "time", "at"})  # fields whose Unix seconds become times


def to_dataframe(lines: Iterable[msgspec.Struct], library: Library | None = None) -> Any:
    """Return *lines* as a DataFrame: one column per field; `sol_c` is the field `c` of `sol`.

    Columns of indicators with parameters are named like `sma(50)` and `adx(14)_plusDi`.  The Unix
    seconds in `t`, `time` and `at` become times in UTC.  A field that is always None has no column.

    library   "pandas" or "polars"; None: one that the program has imported, or else one that is
              installed
    Raises    ImportError if the library is not installed
    """
    chosen = choose_library(library)
    rows = [dict(_flat(type(line), line)) for line in lines]
    filled = {name for row in rows for name, value in row.items() if value is not None}
    kept = [{name: row[name] for name in row if name in filled} for row in rows]
    # polars reads the types of columns from the first 100 rows, where an average may still be None.
    options = {"infer_schema_length": None} if chosen == "polars" else {}
    return import_module(chosen).DataFrame(kept, **options)


def choose_library(library: Library | None = None) -> Library:
    """Return *library*, or if it is None, the name of a library that the program has imported.

    If the program has imported none, return the name of an installed library.
    Raises ImportError if the library, or every library, is missing.
    """
    if library is not None:
        import_module(library)
        return library
    for is_there in (sys.modules.__contains__, find_spec):
        for name in LIBRARIES:
            if is_there(name):
                return name
    raise ImportError(f"expected one of {' and '.join(LIBRARIES)} to be installed")


def _flat(shape: type[msgspec.Struct], line: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of each field of *line*, a struct of the type *shape*.

    A struct inside *line* yields its own fields. If *line* is None, all values are None.

    before   a text in front of each name; the names in a dict stay unchanged
    """
    for field in msgspec.structs.fields(shape):
        value = None if line is None else getattr(line, field.name)
        inner = _struct_in(field.type)
        if inner is not None:
            yield from _flat(inner, value, f"{before}{field.name}_")
        elif isinstance(value, dict):
            yield from _of_names(value)
        elif field.name in MOMENTS and value is not None:
            yield before + field.name, datetime.fromtimestamp(value, timezone.utc)
        else:
            yield before + field.name, value


def _of_names(values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the columns (name, value) of *values*; a nested dict has columns `outer_inner`."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from ((f"{name}_{part}", number) for part, number in value.items())
        else:
            yield name, value


def _struct_in(kind: Any) -> type[msgspec.Struct] | None:
    """Return the msgspec struct in *kind*, a type or a union of types; None if there is none."""
    for each in get_args(kind) or (kind,):
        if isinstance(each, type) and issubclass(each, msgspec.Struct):
            return each
    return None
