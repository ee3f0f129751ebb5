"""Common SQL in the words of PostgreSQL: its marks for values, and its locks of rows."""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from mintscope.edges.storage.database import Batch

# A text in quotes is left alone; so is a cast (`::`).  A comment is a lock of rows, or a mistake.
LOCK: Final = r"/\*(?: FOR UPDATE((?: OF \w+)?(?: SKIP LOCKED)?) \*/)?"
MARK: Final = re.compile(rf"'(?:[^']|'')*'|::|{LOCK}|\?(\d*)|:([a-z_]+)")
KNOWN_MAX: Final = 2_000


class Translated(NamedTuple):
    """A statement with the marks $1, $2 ...; the names of its values where they have some."""

    text: str
    names: tuple[str, ...]


def inserting_arrays(batch: Batch) -> str:
    """Return the statement that adds the rows of *batch*, given as one array a column."""
    arrays = ", ".join(
        f"${number}::{kind}[]" for number, kind in enumerate(batch.columns.values(), 1)
    )
    columns = ", ".join(batch.columns)
    rows = f"SELECT * FROM unnest({arrays})"  # noqa: S608 - ours, as is the table
    return f"INSERT INTO {batch.table} ({columns}) {rows} {batch.on_conflict}"


@lru_cache(KNOWN_MAX)
def translate(statement: str) -> Translated:
    """Return *statement* with its marks `?`, `?1` or `:name`, and its locks, as PostgreSQL has it.

    Raises ValueError if a comment is no lock: without the lock that it was meant to be, two
    transactions would change the same rows.
    """
    names: list[str] = []
    count = 0

    def mark(found: re.Match[str]) -> str:
        nonlocal count
        locked, number, name = found.groups()
        if found[0].startswith("/*"):
            if locked is None:
                raise ValueError(
                    "a comment in a statement must be /* FOR UPDATE [OF table] [SKIP LOCKED] */,"
                    f" not {statement[found.start() :]!r}"
                )
            return f"FOR NO KEY UPDATE{locked}"
        if number:
            return f"${number}"
        if name:
            if name not in names:
                names.append(name)
            return f"${names.index(name) + 1}"
        if number is None:
            return found[0]
        count += 1
        return f"${count}"

    return Translated(MARK.sub(mark, statement), tuple(names))
