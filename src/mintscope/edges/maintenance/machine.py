"""Checks of the machine of a process: free disk space, memory, length of write-ahead logs."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mintscope.base.errors import ServiceUnavailable
from mintscope.base.metrics import DISK_FREE_BYTES, MEMORY_FREE_SHARE

MIB: Final = 1024**2
GROUPS: Final = Path("/sys/fs/cgroup")
MEMORY: Final = Path("/proc/meminfo")
GROUP_OF_PROCESS: Final = Path("/proc/self/cgroup")
WAL: Final = "-wal"  # the suffix that SQLite appends to the name of the file


class Machine:
    """The machine of this process; its metrics are measured whenever they are read.

    folder            the data folder, which may not exist yet
    disk_bytes_min    the check fails with less free space on its disk
    memory_share_min  the check fails with a smaller free share of the memory of this process's
                      control group, or else of the machine
    wal_bytes_max     the check fails if the write-ahead log of a file in *folder* is longer
    """

    def __init__(
        self,
        folder: Path,
        *,
        disk_bytes_min: int,
        memory_share_min: float,
        wal_bytes_max: int,
    ) -> None:
        self._folder = folder
        self._disk_bytes_min = disk_bytes_min
        self._memory_share_min = memory_share_min
        self._wal_bytes_max = wal_bytes_max

    def measure(self) -> None:
        """Measure the machine whenever the metrics are read."""
        DISK_FREE_BYTES.measure(lambda: disk_free_bytes(self._folder))
        if memory_free_share() is not None:
            MEMORY_FREE_SHARE.measure(lambda: memory_free_share() or 0.0)

    async def expect_disk(self) -> None:
        """Raise ServiceUnavailable if the disk fills up."""
        free = disk_free_bytes(self._folder)
        if free < self._disk_bytes_min:
            raise ServiceUnavailable(
                f"expected {self._disk_bytes_min // MIB:,} MiB free on the disk of the data; there"
                f" are {free // MIB:,}: make room, or move the data to a larger disk"
            )

    async def expect_memory(self) -> None:
        """Raise ServiceUnavailable if memory runs out."""
        share = memory_free_share()
        if share is not None and share < self._memory_share_min:
            raise ServiceUnavailable(
                f"expected {self._memory_share_min:.0%} of the memory to be free; it is"
                f" {share:.1%}: raise the limit of this process, or lower market.live_mints_max"
            )

    async def expect_short_log(self) -> None:
        """Raise ServiceUnavailable if a write-ahead log of SQLite grows: a reader holds it."""
        for name, size in wal_bytes(self._folder).items():
            if size > self._wal_bytes_max:
                raise ServiceUnavailable(
                    f"the write-ahead log of {name} has {size // MIB:,} MiB; at most"
                    f" {self._wal_bytes_max // MIB:,} are usual: a backup, or another program that"
                    " reads the file, keeps it from being shortened"
                )


def disk_free_bytes(folder: Path) -> int:
    """Return the free bytes on the disk of *folder*, which may not exist yet."""
    existing = next(path for path in [folder, *folder.absolute().parents] if path.exists())
    return shutil.disk_usage(existing).free


def wal_bytes(folder: Path) -> Mapping[str, int]:
    """Return the length of the write-ahead log of each file of *folder*, by the file."""
    found = {}
    for path in sorted(folder.glob(f"*.sqlite{WAL}")):
        try:
            found[path.name.removesuffix(WAL)] = path.stat().st_size
        except OSError:  # it was deleted meanwhile
            continue
    return found


def memory_free_share() -> float | None:
    """Return the free share of the memory, that of the control group if it has a limit.

    None if this machine does not report it.
    """
    try:
        return _free_of_group() or _free_of_machine(MEMORY.read_text())
    except (OSError, ValueError, KeyError, StopIteration):
        return None


def _free_of_group() -> float | None:
    """Return the free share of the limit of this process's control group (cgroup v2), if any."""
    named = next(
        line for line in GROUP_OF_PROCESS.read_text().splitlines() if line.startswith("0::")
    )
    folder = GROUPS / named.removeprefix("0::").lstrip("/")
    if not (folder / "memory.max").exists():
        return None
    limit = (folder / "memory.max").read_text().strip()
    if limit == "max":
        return None
    used = int((folder / "memory.current").read_text())
    lines = (folder / "memory.stat").read_text().splitlines()
    cached = next(int(line.split()[1]) for line in lines if line.startswith("inactive_file "))
    return max(0.0, 1 - (used - cached) / int(limit))


def _free_of_machine(text: str) -> float:
    """Return MemAvailable as a share of MemTotal (proc(5))."""
    kib = {name: int(rest.split()[0]) for name, _, rest in map(_parted, text.splitlines())}
    return kib["MemAvailable"] / kib["MemTotal"]


def _parted(line: str) -> tuple[str, str, str]:
    return line.partition(":")
