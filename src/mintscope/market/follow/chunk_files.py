"""List chunks in files: the trades of closed parts, kept outside the memory of this process.

Each has a file without a name, whose space is free again once nothing refers to the chunk.  It is
read with `pread`, so its bytes stay in the cache of the system, which may drop them.
"""

import os
import weakref
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final

import numpy as np
import structlog

from mintscope.market.listing.chunks import ChunkInMemory, KeptChunk, PartChunk

LOG = structlog.get_logger(__name__)
ROWS_MIN: Final = 2_048  # a shorter chunk takes less memory than its file takes open descriptors


class ChunkFiles:
    """Keeps chunks in files; an instance is a `listing.chunks.KeepChunk`."""

    def __init__(self, folder: Path, *, rows_min: int = ROWS_MIN) -> None:
        """Keep chunks of at least *rows_min* rows in files of *folder*, others in memory."""
        self._folder = folder
        self._rows_min = rows_min
        self._is_writable = True

    def __call__(self, chunk: PartChunk) -> KeptChunk:
        """Return *chunk* stored in a file, or in memory if it is small or cannot be written."""
        if len(chunk.rows) < self._rows_min:
            return ChunkInMemory(chunk)
        try:
            kept = ChunkInFile(self._folder, chunk)
        except OSError as error:
            if self._is_writable:
                LOG.warning("list_kept_in_memory", folder=str(self._folder), error=repr(error))
            self._is_writable = False
            return ChunkInMemory(chunk)
        self._is_writable = True
        return kept


class ChunkInFile:
    """Implements `listing.chunks.KeptChunk`."""

    def __init__(self, folder: Path, chunk: PartChunk) -> None:
        """Write *chunk* to a file without a name in *folder*.  Raises OSError."""
        self.count = len(chunk.rows)
        self._places: dict[str, tuple[int, np.dtype[Any]]] = {}
        size = 0
        with TemporaryFile(dir=folder, buffering=0) as file:
            for name, column in zip(PartChunk._fields, chunk, strict=True):
                if column is not None:
                    self._places[name] = (size, column.dtype)
                    size += _written(file.fileno(), column)
            self._file = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._file)

    def column(self, name: str) -> Any:
        """Return a column of `PartChunk`; None if it has none.  Raises OSError."""
        if name not in self._places:
            return None
        place, kind = self._places[name]
        found = np.empty(self.count, kind)
        wanted = found.data.cast("B")
        read = 0
        while read < len(wanted):
            more = os.preadv(self._file, [wanted[read:]], place + read)
            if not more:
                raise OSError(f"expected {len(wanted)} bytes of a kept chunk, were {read}")
            read += more
        return found

    def whole(self) -> PartChunk:
        """Return all columns.  Raises OSError."""
        return PartChunk(*(self.column(name) for name in PartChunk._fields))


def _written(file: int, column: Any) -> int:
    """Append *column* to *file*, and return its count of bytes.  Raises OSError."""
    left = np.ascontiguousarray(column).data.cast("B")
    size = len(left)
    while left:
        left = left[os.write(file, left) :]
    return size
