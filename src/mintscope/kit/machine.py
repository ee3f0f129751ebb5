"""Checks of disk, memory and the public certificate, and the return of free memory to the system.

glibc does not return freed memory to the system if it lies below memory in use: after 1,900
connections with a body each, glibc kept 90 MB.
"""

import asyncio
import ctypes
import gc
import re
import shutil
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from mintscope.kit.clock import Clock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.metrics import CERTIFICATE_EXPIRES_AT, DISK_FREE_BYTES, MEMORY_FREE_SHARE
from mintscope.kit.time import DAY_S, SECOND_MS

MIB: Final = 1024**2
GROUPS: Final = Path("/sys/fs/cgroup")
MEMORY: Final = Path("/proc/meminfo")
GROUP_OF_PROCESS: Final = Path("/proc/self/cgroup")
WAL: Final = "-wal"  # SQLite appends it to a file's name to name the write-ahead log


@dataclass(eq=False, repr=False)
class Machine:
    """Metrics and checks of the machine of this process.

    memory_share_min  `expect_memory` fails if a smaller share (0 to 1) of memory is free.  The
                      whole is the memory limit of this process's control group, or the memory of
                      the machine if the group has no limit
    """

    folder: Path  # the data folder, which may not exist yet
    _: KW_ONLY
    disk_bytes_min: int  # `expect_disk` fails if the disk of *folder* has fewer free bytes
    memory_share_min: float
    wal_bytes_max: int  # `expect_short_log` fails if a write-ahead log in *folder* is longer

    def measure(self) -> None:
        """From now on, export free disk and memory as metrics, measured at each export."""
        DISK_FREE_BYTES.measure(lambda: disk_free_bytes(self.folder))
        # A machine that does not report its memory exports no such metric.
        if memory_free_share() is not None:
            MEMORY_FREE_SHARE.measure(lambda: memory_free_share() or 0.0)

    async def expect_disk(self) -> None:
        """Raise ServiceUnavailable if the disk has too little free space."""
        free = disk_free_bytes(self.folder)
        if free < self.disk_bytes_min:
            raise ServiceUnavailable(
                f"expected {self.disk_bytes_min // MIB:,} MiB free on the disk of the data; there"
                f" are {free // MIB:,}: free some space, or move the data to a larger disk"
            )

    async def expect_memory(self) -> None:
        """Raise ServiceUnavailable if the free share of memory is less than `memory_share_min`."""
        share = memory_free_share()
        if share is not None and share < self.memory_share_min:
            raise ServiceUnavailable(
                f"expected {self.memory_share_min:.0%} of the memory to be free; it is"
                f" {share:.1%}: raise the limit of this process, or lower market.live_mints_max"
            )

    async def expect_short_log(self) -> None:
        """Raise ServiceUnavailable if the write-ahead log of an SQLite file is too long.

        A long read, such as a backup, prevents SQLite from shortening the log.
        """
        for name, size in wal_bytes(self.folder).items():
            if size > self.wal_bytes_max:
                raise ServiceUnavailable(
                    f"the write-ahead log of {name} has {size // MIB:,} MiB; at most"
                    f" {self.wal_bytes_max // MIB:,} are usual: a backup, or another program that"
                    " reads the file, prevents the service from shortening it"
                )


def disk_free_bytes(folder: Path) -> int:
    """Return the number of free bytes on the disk of *folder*, which may not exist yet."""
    existing = next(path for path in [folder, *folder.absolute().parents] if path.exists())
    return shutil.disk_usage(existing).free


def wal_bytes(folder: Path) -> Mapping[str, int]:
    """Return the bytes of each write-ahead log in *folder*, by the name of its SQLite file."""
    found = {}
    for path in sorted(folder.glob(f"*.sqlite{WAL}")):
        try:
            found[path.name.removesuffix(WAL)] = path.stat().st_size
        except OSError:  # the file was deleted meanwhile
            continue
    return found


def memory_free_share() -> float | None:
    """Return the free share of memory, from 0 to 1; None if this machine does not report it.

    The whole is the limit of this process's control group, or else the memory of the machine.
    """
    try:
        share = _free_of_group()
        return _free_of_machine(MEMORY.read_text()) if share is None else share
    except (OSError, ValueError, KeyError, StopIteration):
        return None


def _free_of_group() -> float | None:
    """Return the free share of this process's cgroup (v2) memory limit; None without a limit."""
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
    # Pages of files that the kernel can free at any time.
    cached = next(int(line.split()[1]) for line in lines if line.startswith("inactive_file "))
    return max(0.0, 1 - (used - cached) / int(limit))


def _free_of_machine(text: str) -> float:
    """Return MemAvailable as a share of MemTotal; *text* is /proc/meminfo."""
    parts = (line.partition(":") for line in text.splitlines())
    kib = {name: int(rest.split()[0]) for name, _, rest in parts}
    return kib["MemAvailable"] / kib["MemTotal"]


EVERY_S: Final = 20.0
TIMEOUT_S: Final = 10.0
LINE_BYTES_MAX: Final = 8 * 1024
PORTS: Final = {"https": 443, "http": 80}
PATH: Final = "/healthz"


class PublicAddress:
    """Checks the public URL and its certificate by a request every EVERY_S seconds."""

    def __init__(
        self,
        origin: str,  # the public address, such as `https://api.example`
        clock: Clock,
        *,
        days_min: int,  # the check fails if the certificate expires within fewer days
        trusted: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        parts = urlsplit(origin)
        self._origin = origin
        self._host = parts.hostname or ""
        self._port = parts.port or PORTS[parts.scheme]
        self._named = parts.netloc
        self._trusted = trusted() if parts.scheme == "https" else None
        self._clock = clock
        self._days_min = days_min
        self._trouble: str | None = None

    async def run(self) -> None:
        """Check the public address every EVERY_S seconds until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(EVERY_S)

    async def look(self) -> None:
        """Send one request to the public address, and store the trouble that was found, or None."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                self._trouble = await self._ask()
        except ssl.SSLCertVerificationError as refusal:
            self._trouble = (
                f"clients refuse the certificate of {self._named}: {refusal.verify_message}: renew"
                " the certificate, and serve the whole chain"
            )
        except TimeoutError:
            self._trouble = f"{self._origin} gives no answer within {TIMEOUT_S:g} s"
        except OSError as trouble:
            self._trouble = (
                f"{self._origin} cannot be reached from this machine: {trouble}: check the proxy"
                " and the host name"
            )

    async def expect_reachable(self) -> None:
        """Raise ServiceUnavailable if the public address had a trouble at the last request.

        For example, it did not answer, or its certificate expires soon.
        """
        if self._trouble is not None:
            raise ServiceUnavailable(self._trouble)

    async def _ask(self) -> str | None:
        """Send a request; return the fault of its response or of the certificate, or None."""
        reader, writer = await asyncio.open_connection(
            self._host,
            self._port,
            ssl=self._trusted,
            server_hostname=self._host if self._trusted else None,
            limit=LINE_BYTES_MAX,
        )
        try:
            expires_at = _expires_at(writer)
            asked = f"GET {PATH} HTTP/1.1\r\nHost: {self._named}\r\nConnection: close\r\n\r\n"
            writer.write(asked.encode())
            said = (await reader.readline()).decode(errors="replace").strip()
        except ValueError:
            said = ""  # the line was too long
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        if said.split(" ")[1:2] != ["200"]:
            return f"{self._origin}{PATH} answers {said[:80]!r}: does it lead to this service?"
        return self._expiring(expires_at)

    def _expiring(self, expires_at: float | None) -> str | None:
        if expires_at is None:
            return None
        CERTIFICATE_EXPIRES_AT.set(expires_at)
        days = (expires_at - self._clock.now() / SECOND_MS) / DAY_S
        if days >= self._days_min:
            return None
        return f"the certificate of {self._named} is valid for {days:.1f} more days: renew it"


def _expires_at(writer: asyncio.StreamWriter) -> float | None:
    """Return the Unix time at which the peer's certificate expires; None without a certificate."""
    certificate = writer.get_extra_info("peercert")
    return None if not certificate else ssl.cert_time_to_seconds(certificate["notAfter"])


PAUSE_S: Final = 10.0
BATCH_OBJECTS: Final = 250_000  # objects of a fold, all of which are freed at its end
M_ARENA_MAX: Final = -8  # from malloc.h
ARENAS: Final = 2
MAPS: Final = Path("/proc/self/smaps")
MADV_DONTNEED: Final = 4  # from mman.h


async def give_memory_back() -> None:
    """Give free memory back to the system every PAUSE_S seconds until cancelled."""
    while True:
        await asyncio.sleep(PAUSE_S)
        await asyncio.to_thread(trim)


def trim() -> None:
    """Give free memory back to the system now; this takes 1 ms, or 10 ms for 100 MB."""
    with suppress(OSError, AttributeError):  # other C libraries need no trim
        ctypes.CDLL(None).malloc_trim(0)


def let_go_of_library(name: str) -> int:
    """Free the memory of unchanged pages of the loaded library *name*; return the number of bytes.

    The system loads a page again when it is used.  The compiler of kernels has 70 MiB of such
    pages, which are not used after the last kernel is loaded.
    """
    given = 0
    try:
        advise = ctypes.CDLL(None).madvise
        for begin, end, held in _clean_maps(MAPS.read_text(), name):
            if not advise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), MADV_DONTNEED):
                given += held
    except (OSError, AttributeError):  # other systems have no such maps
        return 0
    return given


def _clean_maps(text: str, name: str) -> Iterator[tuple[int, int, int]]:
    """Yield begin, end and resident bytes of each memory map of library *name* without changes.

    text   the content of /proc/self/smaps
    """
    for part in re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", text, flags=re.MULTILINE)[1:]:
        head, *lines = part.splitlines()
        span, access, *rest = head.split()
        if "w" in access or not rest[-1].endswith(f"/{name}"):
            continue
        kib = {each.split()[0]: int(each.split()[1]) for each in lines if each.endswith(" kB")}
        if kib["Private_Dirty:"] == kib["Shared_Dirty:"] == kib["Anonymous:"] == kib["Swap:"] == 0:
            begin, end = (int(each, 16) for each in span.split("-"))
            yield begin, end, kib["Rss:"] * 1024


def limit_arenas() -> None:
    """Make all threads but the first share one glibc arena; call this before they start."""
    # Otherwise each thread has its own arena, in which freed memory remains: reads of a list of
    # 100,000 tokens then take 90 MB more.
    with suppress(OSError, AttributeError):  # other C libraries have no arenas
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, ARENAS)


def freeze_startup_objects() -> None:
    """Exclude the objects that exist now from later garbage collections; call this once."""
    # These objects are never freed, and a collection that includes them blocks the event loop for
    # 75 ms.
    # Garbage that is frozen would never be freed.
    gc.collect()
    gc.freeze()


def expect_batches() -> None:
    """Make garbage collections rare, and exclude the objects that exist now from all of them.

    Otherwise garbage collections take a third of the time of a fold of swaps into candles.
    """
    freeze_startup_objects()
    gc.set_threshold(BATCH_OBJECTS)
