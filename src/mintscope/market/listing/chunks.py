"""Trades of closed parts of time, kept until the parts leave a span.

Of 100,000 tokens that trade all day they are half of a list, and nothing reads most of them for an
hour or a day.  So what keeps them is a port: a process that serves keeps them in files.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Rows: TypeAlias = NDArray[np.int32]


class PartChunk(NamedTuple):
    """Volumes of some rows in a closed part, each row once: `swaps` for D1, else `bought`."""

    rows: Rows
    closes: NDArray[np.float64]
    volumes: NDArray[np.int64]
    swaps: NDArray[np.int32] | None = None
    bought: NDArray[np.int64] | None = None


class KeptChunk(Protocol):
    """A stored chunk, which never changes and whose rows are in rising order."""

    @property
    def count(self) -> int:
        """The number of rows."""

    def column(self, name: str) -> Any:
        """Return a column of `PartChunk`; None if the chunk lacks it.  Raises OSError."""

    def whole(self) -> PartChunk:
        """Return all columns.  Raises OSError."""


KeepChunk: TypeAlias = Callable[[PartChunk], KeptChunk]


class ChunkInMemory:
    """Implements `KeptChunk`; the class is a `KeepChunk`."""

    def __init__(self, chunk: PartChunk) -> None:
        self._chunk = chunk

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self._chunk.rows)

    def column(self, name: str) -> Any:
        """Return a column."""
        return getattr(self._chunk, name)

    def whole(self) -> PartChunk:
        """Return all columns."""
        return self._chunk


def by_row(chunk: PartChunk) -> PartChunk:
    """Return *chunk* with its rows in rising order."""
    if np.all(chunk.rows[1:] > chunk.rows[:-1]):
        return chunk
    order = np.argsort(chunk.rows)
    columns: list[Any] = [None if column is None else column[order] for column in chunk]
    return PartChunk(*columns)


def joined(chunks: Sequence[PartChunk]) -> PartChunk:
    """Return all rows of *chunks* as one chunk, in rising order."""
    columns: list[Any] = [
        None if column[0] is None else np.concatenate(column)
        for column in zip(*chunks, strict=True)
    ]
    return by_row(PartChunk(*columns))


def closes_of(chunk: KeptChunk, rows: Sequence[int]) -> tuple[Any, Any]:
    """Return (places in *rows* that have a price in *chunk*, their prices)."""
    kept = chunk.column("rows")
    wanted = np.asarray(rows)
    at = np.minimum(np.searchsorted(kept, wanted), len(kept) - 1)
    closes = chunk.column("closes")[at]
    is_ours = (kept[at] == wanted) & ~np.isnan(closes)
    return np.flatnonzero(is_ours), closes[is_ours]
