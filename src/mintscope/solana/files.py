"""Reads block files, plain or gzip: each line is a block in the form of getBlock.

A line is one of
    {"slot": 1, "blockhash": ..., "transactions": [...], ...}
    {"slot": 1, "block": {"blockhash": ..., "transactions": [...], ...}}
    {"jsonrpc": "2.0", "result": {"slot": 1, "transactions": [...], ...}, "id": 1}
In the last form the slot may also be next to "result".  Only the slot and the transactions
are required.  A block that names no parent has the block of the previous line as its parent.
"""

import asyncio
import gzip
import zlib
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Annotated, BinaryIO, Final

import msgspec
import structlog

from mintscope.kit.errors import Undecodable, decode_json
from mintscope.kit.primitives import Slot, UnixS
from mintscope.kit.time import TIME_MAX
from mintscope.solana.blocks import Block, Finalized, Gap, SourceError, Tip, Update
from mintscope.solana.pace import Pace, PaceMeter
from mintscope.solana.window import SkippedFiles
from mintscope.solana.wire import JsonTransactions

LINE_BYTES_MAX: Final = 64 * 1024 * 1024
# Limits of a batch: a thread reads one at a time, so that parsing does not block the event loop.
BATCH_BYTES: Final = 1024 * 1024
BATCH_UPDATES: Final = 256
GZIP_MAGIC: Final = b"\x1f\x8b"

log = structlog.get_logger()

Progress = Callable[[int, int], None]
Number = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Time = Annotated[int, msgspec.Meta(ge=0, le=TIME_MAX)]  # rejects a time in milliseconds


class FileError(SourceError):
    """A block file cannot be read further, or the files are in the wrong order.

    The message names the file and the reason, and the line if one is at fault.
    """


class _BlockBody(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    slot: Number | None = None
    parent_slot: Number | None = None
    blockhash: str | None = None
    previous_blockhash: str | None = None
    block_time: Time | None = None
    transactions: list[msgspec.Raw] | None = None


class _BlockLine(_BlockBody, frozen=True, rename="camel", kw_only=True):
    block: _BlockBody | None = None
    result: _BlockBody | None = None


_DECODER: Final = msgspec.json.Decoder(_BlockLine)


class FileSource:
    """A Source over block files, which are read one after the other.

    A block is final if it is the last one, or if the next line has a parent slot that is not below
    the slot of this block.

    progress   called with (bytes read, total bytes) of the files on disk
    """

    def __init__(self, paths: Sequence[Path], *, progress: Progress | None = None) -> None:
        self._paths = tuple(paths)
        self._progress = progress

    async def genesis_hash(self) -> str | None:
        """Return None, because a block does not name its chain."""
        return None

    async def updates(self, after: Tip | None) -> AsyncGenerator[Update, None]:
        """Yield the updates that follow *after* in the files, then end.

        Raises FileError before the first update if a file does not exist or is a pipe, or if the
        files are in the wrong order.  If a file cannot be read, raises FileError after the
        updates of the lines before the fault.
        """
        reader = _Reader(self._paths)
        await asyncio.to_thread(_expect_ascending, self._paths)
        stream = _updates(reader, after)
        while True:
            batch, failure = await asyncio.to_thread(_take, stream, reader)
            for update in batch:
                yield update
            if self._progress is not None:
                self._progress(reader.bytes_done(), reader.bytes_total)
            if failure is not None:
                raise failure
            if not batch:
                return


def _take(stream: Iterator[Update], reader: "_Reader") -> tuple[Sequence[Update], FileError | None]:
    """Return the next updates, none at the end of *stream*, and the error that ended it, if any."""
    batch: list[Update] = []
    end = reader.text_bytes + BATCH_BYTES
    try:
        for update in stream:
            batch.append(update)
            if reader.text_bytes >= end or len(batch) == BATCH_UPDATES:
                break
    except FileError as failure:
        return batch, failure
    return batch, None


def _expect_ascending(paths: Sequence[Path]) -> None:
    """Raise FileError if a file begins below the first slot of the file before it.

    Some blocks of such a file would be lost.  Files whose first line cannot be read are left out of
    the comparison.
    """
    if len(paths) == 1:
        return
    before: tuple[Slot, Path] | None = None
    for path in paths:
        slot = _first_slot(path)
        if slot is None:
            continue
        if before is not None and slot < before[0]:
            raise FileError(
                f"{path}: expected a first slot from {before[0]} on, where {before[1]} begins;"
                f" was {slot}: give the files in the order of their slots"
            )
        before = slot, path


def _first_slot(path: Path) -> Slot | None:
    """Return the slot of the first line of *path*; None if no line can be read now."""
    try:
        return next((_parse(where, line)[0] for where, line in _Reader([path]).lines()), None)
    except FileError:
        return None


def _updates(reader: "_Reader", after: Tip | None) -> Iterator[Update]:
    """Yield the updates of *reader* that follow *after*, then the finality of the last block."""
    previous: Tip | None = None
    final: Slot | None = None
    warned = False
    resumed = after is None
    skipped = SkippedFiles(after)
    for where, line in reader.lines():
        slot, body = _parse(where, line)
        if after is not None and previous is None and slot > after.slot:
            previous = after  # the files continue those of the last run
        block = _link(where, slot, body, previous)
        tip = Tip(block.slot, block.blockhash)
        resumed = resumed or after is None or slot > after.slot or tip == after
        is_new = resumed and tip != after
        skipped.note(where, slot, is_new=is_new)
        if is_new:
            if not warned and final is not None and block.slot <= final:
                warned = True
                log.warning("block_not_newer", where=where, slot=slot, expected_above=final)
            if previous is not None and block.parent_slot >= previous.slot:
                final = previous.slot
            yield from _between(where, previous, block)
            yield block
        previous = tip
    skipped.finish()
    if previous is not None:
        yield Finalized(previous.slot)


def _between(where: str, previous: Tip | None, block: Block) -> Iterator[Update]:
    """Yield the finality of *previous*, and any gap before *block*; nothing at a fork."""
    if previous is None or block.parent_slot < previous.slot:
        return
    yield Finalized(previous.slot)
    if block.parent_slot > previous.slot:
        yield Gap(Slot(previous.slot + 1), block.parent_slot, f"not in the files before {where}")


def _parse(where: str, line: bytes) -> tuple[Slot, _BlockBody]:
    try:
        read = decode_json(line, _DECODER)
    except Undecodable as cause:
        raise FileError(f"{where}: expected one getBlock answer in JSON; {cause}") from cause
    body = read.block or read.result or read
    number = read.slot if read.slot is not None else body.slot
    if number is None:
        raise FileError(f'{where}: expected the key "slot"; was none')
    if body.transactions is None:
        raise FileError(f'{where}: expected the key "transactions"; was none')
    return Slot(number), body


def _link(where: str, slot: Slot, body: _BlockBody, previous: Tip | None) -> Block:
    """Return the block in *body*, one line of a file.

    Its parent is the block *previous* of the line before, unless *body* names another parent slot.
    """
    parent_slot = _parent_slot(where, slot, body.parent_slot, previous)
    # The parent is the previous line, unless the line has another parent slot.
    if previous is not None and parent_slot == previous.slot:
        parent_blockhash = previous.blockhash
    else:
        parent_blockhash = body.previous_blockhash or _made_up_hash(parent_slot)
    return Block(
        slot=slot,
        parent_slot=parent_slot,
        blockhash=body.blockhash or _made_up_hash(slot),
        parent_blockhash=parent_blockhash,
        time=None if body.block_time is None else UnixS(body.block_time),
        transactions=JsonTransactions(body.transactions or ()),
        size=sum(map(len, body.transactions or ())),
    )


def _parent_slot(where: str, slot: Slot, parent: int | None, previous: Tip | None) -> Slot:
    if parent is not None:
        if parent >= slot > 0:
            raise FileError(f"{where}: expected a parent slot below slot {slot}; was {parent}")
        return Slot(parent)
    if previous is None:
        return Slot(max(slot - 1, 0))
    if slot <= previous.slot:
        raise FileError(f"{where}: expected a slot above {previous.slot} or a parent; was {slot}")
    return previous.slot


def _made_up_hash(slot: int) -> str:
    """Return a substitute for the missing hash of the block at *slot*: the slot as text."""
    return f"slot-{slot}"


class _Reader:
    """Reads the lines of files, and counts the bytes.

    text_bytes   bytes read so far, after decompression
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._finished_bytes = 0
        self._open: BinaryIO | None = None
        self.text_bytes = 0
        try:
            self.bytes_total = sum(path.stat().st_size for path in paths)
        except OSError as cause:
            raise FileError(f"{cause.filename}: cannot be read: {cause.strerror}") from cause
        for path in paths:
            if path.is_fifo():
                raise FileError(f"{path}: expected a file; was a pipe, which can be read only once")

    def bytes_done(self) -> int:
        return self._finished_bytes + (0 if self._open is None else self._open.tell())

    def lines(self) -> Iterator[tuple[str, bytes]]:
        """Yield the position ("file:line") and the text of every line that is not blank."""
        for path in self._paths:
            try:
                with path.open("rb") as raw:
                    self._open = raw
                    try:
                        yield from self._lines_of(path, raw)
                    finally:
                        self._finished_bytes += raw.tell()
                        self._open = None
            except OSError as cause:
                raise FileError(f"{path}: cannot be read: {cause.strerror}") from cause

    def _lines_of(self, path: Path, raw: BinaryIO) -> Iterator[tuple[str, bytes]]:
        # Detected by the content, because a compressed file may have any name.
        magic = raw.read(len(GZIP_MAGIC))
        raw.seek(0)
        text: BinaryIO = raw
        if magic == GZIP_MAGIC:
            text = BufferedReader(gzip.GzipFile(fileobj=raw))
        number = 0
        while True:
            number += 1
            where = f"{path}:{number}"
            try:
                line = text.readline(LINE_BYTES_MAX + 1)
            except (EOFError, zlib.error, gzip.BadGzipFile) as cause:
                raise FileError(f"{where}: expected a whole gzip file; {cause}") from cause
            if not line:
                return
            if len(line) > LINE_BYTES_MAX:
                raise FileError(f"{where}: expected at most {LINE_BYTES_MAX} bytes; was more")
            self.text_bytes += len(line)
            if not line.isspace():
                yield where, line


# Shares of a slot's duration: a found block makes the next request earlier by EARLIER, and a
# missing block delays it by LATER.  With these values, one request in a dozen is too early.
EARLIER: Final = 0.02
LATER: Final = 0.25


class Arrivals:
    """Predicts the time at which each slot can be requested: one slot duration after the last.

    Past requests count with the time at which they were sent, so the latency of the node has no
    effect.  Times are of a monotonic clock.
    """

    def __init__(self) -> None:
        self._meter = PaceMeter()
        self._newest: tuple[Slot, float] | None = None  # a slot, and its due time

    @property
    def pace(self) -> Pace | None:
        """The pace of the chain, or None while there are too few block times."""
        return self._meter.pace

    def note_made(self, slot: Slot, time: UnixS | None) -> None:
        """Measure the pace of the chain with the block time of *slot*; None is ignored."""
        if time is not None:
            self._meter.note(slot, time)

    def note_named(self, slot: Slot, asked_at_s: float) -> None:
        """Record that a request sent at *asked_at_s* returned *slot* as the newest slot."""
        due_at_s = self.due_at_s(slot)
        # The block may be older than this request, so an earlier prediction stays.
        self._newest = slot, asked_at_s if due_at_s is None else min(asked_at_s, due_at_s)

    def note_there(self, slot: Slot, asked_at_s: float) -> None:
        """Record that a request sent at *asked_at_s* found *slot*: later slots are due earlier."""
        self.note_named(slot, asked_at_s - self._share_s(EARLIER))

    def note_early(self, slot: Slot, asked_at_s: float) -> None:
        """Record that a request sent at *asked_at_s* came too early: *slot* is due later."""
        due_at_s = self.due_at_s(slot)
        if due_at_s is None:
            return
        # Requests sent before this answer were too early for the same reason, and add no delay.
        self._newest = slot, max(due_at_s, asked_at_s + self._share_s(LATER))

    def due_at_s(self, slot: Slot) -> float | None:
        """Return the time at which *slot* can be requested, in seconds of a monotonic clock.

        Return None until the pace and the time of one slot are known.
        """
        if self.pace is None or self._newest is None:
            return None
        newest, at_s = self._newest
        return at_s + self.pace.seconds(slot - newest)

    def _share_s(self, share: float) -> float:
        return 0.0 if self.pace is None else share * self.pace.slot_s
