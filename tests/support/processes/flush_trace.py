"""Records when a process flushes to disk and answers its client, in order, as lines of a file."""

import os
from pathlib import Path
from typing import Any

import apsw
from typing_extensions import override

FLUSH = "flush"


class FlushTrace:
    """A file to which all threads and processes can add whole lines."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(self, line: str) -> None:
        """Add *line* to the file."""
        os.write(self._file, f"{line}\n".encode())


class TracedFiles(apsw.VFS):
    """The files of SQLite; each completed flush adds a line to *trace*.

    All connections that are opened later use these files while this object exists.
    """

    def __init__(self, trace: FlushTrace) -> None:
        self._base = apsw.vfs_names()[0]
        super().__init__("traced", self._base, makedefault=True)
        self._trace = trace

    @override
    def xOpen(self, name: Any, flags: Any) -> apsw.VFSFile:
        return _TracedFile(self._base, name, flags, self._trace)


class _TracedFile(apsw.VFSFile):
    def __init__(self, base: str, name: Any, flags: Any, trace: FlushTrace) -> None:
        super().__init__(base, name, flags)
        self._trace = trace

    @override
    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._trace.note(FLUSH)
