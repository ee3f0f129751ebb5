"""Files for the large parts of a list, outside the memory of this process.

The trades of each closed part have a file, whose space is free again once nothing refers to the
trades.  The file is read with `preadv`, so its bytes stay in the cache of the system, which may
drop them.

The newest candles of timeframes wider than a minute are mapped, because kernels read and change a
few of them at each update, and read all of them if a condition needs such candles.  `release` frees
the memory of the pages that were used: these stay in the cache of the system, which may write them
to the disk and drop them.  No file has a name.
"""

import mmap
import os
import weakref
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final

import numpy as np
import structlog

from mintscope.market.screening.columns import KeptChunk, PartChunk

LOG = structlog.get_logger(__name__)
ROWS_MIN: Final = 2_048  # for a shorter chunk, a file is not worth its open descriptor
# File systems that reserve space for each allocated page.  On others, a full disk would end a
# process that writes to a map: a file system that copies on write needs space for each change.
MAPPED_ON: Final = frozenset({"ext2", "ext3", "ext4", "xfs"})
MOUNTS: Final = Path("/proc/self/mountinfo")


class ListFiles:
    """Stores the large parts of the token list in files.

    Implements `screening.columns.ListMemory`.
    """

    def __init__(self, folder: Path, *, rows_min: int = ROWS_MIN, maps: bool | None = None) -> None:
        """Store the large parts of a token list in files in *folder*.

        rows_min   parts with fewer rows stay in memory
        maps       whether records are in memory-mapped files; None: only if the file system of
                   *folder* reserves allocated space
        """
        self._folder = folder
        self._rows_min = rows_min
        self._is_writable = True
        self._maps = file_system_of(folder) in MAPPED_ON if maps is None else maps
        self._mapped: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()

    def chunk(self, chunk: PartChunk) -> KeptChunk:
        """Store *chunk* in a file, and return the stored chunk.

        It stays in memory if it is small, or if the file cannot be written.
        """
        if len(chunk.rows) < self._rows_min:
            return chunk
        try:
            kept = ChunkInFile(self._folder, chunk)
        except OSError as error:
            self._tell(error)
            return chunk
        self._is_writable = True
        return kept

    def records(self, count: int, of: np.dtype[Any]) -> Any:
        """Return an array of *count* records of the type *of*, all zero.

        A large array is in a memory-mapped file, if the file system is suitable; others are in
        memory.
        """
        if not self._maps or count < self._rows_min:
            return np.zeros(count, of)
        try:
            mapped = _mapped(self._folder, count * of.itemsize)
        except OSError as error:
            self._tell(error)
            return np.zeros(count, of)
        self._mapped.add(mapped)
        return np.frombuffer(mapped, of)

    def release(self) -> None:
        """Free the memory of the mapped files, whose contents stay in the files.

        This takes some tens of microseconds if little memory was used.
        """
        # The maps are shared with their files, so the cache of the system keeps all changes.
        for mapped in self._mapped:
            mapped.madvise(mmap.MADV_DONTNEED)

    def _tell(self, error: OSError) -> None:
        if self._is_writable:
            LOG.warning("list_kept_in_memory", folder=str(self._folder), error=repr(error))
        self._is_writable = False


def _mapped(folder: Path, size: int) -> mmap.mmap:
    """Return a memory-mapped file of *size* zero bytes in *folder*, with disk space reserved.

    Raises OSError.
    """
    with TemporaryFile(dir=folder, buffering=0) as file:
        # Without reserved space, a write to the map on a full disk would end the process.
        os.posix_fallocate(file.fileno(), 0, size)
        return mmap.mmap(file.fileno(), size)


def file_system_of(folder: Path) -> str:
    """Return the type of the file system of *folder*, such as `ext4`; "" if it is unknown."""
    try:
        mounts = MOUNTS.read_text()
    except OSError:
        return ""
    path = folder.resolve()
    found: tuple[int, str] = (0, "")
    for line in mounts.splitlines():  # proc(5): the type follows the separator
        before, _, after = line.partition(" - ")
        place = Path(before.split()[4].replace("\\040", " "))
        is_above = path == place or place in path.parents
        if is_above and len(place.parts) >= found[0]:  # a later mount hides an earlier one
            found = (len(place.parts), after.split()[0])
    return found[1]


class ChunkInFile:
    """A part of the trades in the token list, stored in a file.

    Implements `screening.columns.KeptChunk`.
    """

    def __init__(self, folder: Path, chunk: PartChunk) -> None:
        """Write the trades in *chunk* to an unnamed temporary file in *folder*.  Raises OSError."""
        self.row_count = len(chunk.rows)
        self._places: dict[str, tuple[int, np.dtype[Any]]] = {}
        size = 0
        with TemporaryFile(dir=folder, buffering=0) as file:
            for name, column in zip(PartChunk._fields, chunk, strict=True):
                if column is not None:
                    self._places[name] = (size, column.dtype)
                    size += _written(file.fileno(), column)
            self._file = os.dup(file.fileno())  # `file` closes its own descriptor
        weakref.finalize(self, os.close, self._file)

    def column(self, name: str) -> Any:
        """Return the column *name*, read from the file; None if there is none.  Raises OSError."""
        if name not in self._places:
            return None
        place, kind = self._places[name]
        found = np.empty(self.row_count, kind)
        wanted = found.data.cast("B")
        read = 0
        while read < len(wanted):
            more = os.preadv(self._file, [wanted[read:]], place + read)
            if not more:
                raise OSError(f"expected {len(wanted)} bytes of a kept chunk, were {read}")
            read += more
        return found

    def whole(self) -> PartChunk:
        """Return the trades with all columns, read from the file.  Raises OSError."""
        return PartChunk(*(self.column(name) for name in PartChunk._fields))


def _written(file: int, column: Any) -> int:
    """Append *column* to *file*, and return its number of bytes.  Raises OSError."""
    left = np.ascontiguousarray(column).data.cast("B")
    size = len(left)
    while left:
        left = left[os.write(file, left) :]
    return size
