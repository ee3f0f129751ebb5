"""Requests of a process to its disk, and answers to its client, in order: a line each."""

import os
from pathlib import Path
from typing import Any

import apsw
from typing_extensions import override

FLUSH = "flush"


class FlushTrace:
    """Lines of a file; whole ones, whichever thread and process adds them."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(self, line: str) -> None:
        """Add *line*."""
        os.write(self._file, f"{line}\n".encode())


class TracedFiles(apsw.VFS):
    """The files of SQLite as they are, each flush of which is noted once it is done.

    Every connection that is opened from now on has them, as long as this lives.
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
