"""Decodes blocks in a second process, the worker.

Ingest writes a block to one of a few places in shared memory, and the worker replaces the block
with the result.  The messages on a socket contain neither blocks nor results, so the processes do
not wait for each other.

While several blocks wait, both processes decode: each takes the oldest block that still waits.
Ingest does so while it waits for the worker.  It uses no thread for this, because a thread would
wait for the interpreter longer than the decoding of a block takes.
"""

import mmap
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from enum import Enum, auto
from select import select
from struct import Struct
from subprocess import DEVNULL, Popen
from typing import Final, NamedTuple, Protocol

import msgspec
import structlog

from mintscope.dex.outcome import Decoded
from mintscope.ingest.slots import Decode
from mintscope.solana.blocks import Block
from mintscope.solana.transaction import Transactions

PLACES: Final = 6  # maximum number of open requests
PLACE_BYTES: Final = 64 * 1024 * 1024  # the system allocates only the written pages
END_S_MAX: Final = 2.0
LENGTH: Final = Struct("<q")
NOTHING: Final = -1  # the length that means no result

# `Pack` returns the name of the form of transactions, and the bytes of each transaction; `Unpack`
# is its inverse.
Pack = Callable[[Transactions], tuple[str, Sequence[memoryview]]]
Unpack = Callable[[str, Sequence[memoryview]], Transactions]


class WorkerLost(Exception):
    """The worker does not run, or its answer cannot be read; its open requests are lost."""


class Heard(NamedTuple):
    """An answer of the worker process; *decoded* is None if the worker has no result.

    The first answer of a worker has no result: it only means that the worker is ready.
    """

    decoded: Decoded | None


class AskedBlock(msgspec.Struct, array_like=True):
    """A request to decode one block."""

    place: int  # index of the place in shared memory that has the block
    form: str = ""  # name of the form of the transactions; "" if they did not fit into the place
    ends: list[int] = []  # the end of each transaction, in bytes from the start of the place


ASKED: Final = msgspec.msgpack.Decoder(AskedBlock)
DECODED: Final = msgspec.msgpack.Decoder(Decoded)
ENCODER: Final = msgspec.msgpack.Encoder()


class DecodeWorker:
    """A child process that decodes blocks, answers in the order of requests, and ends with ingest.

    command   the command line; the file descriptors of the socket and the shared memory are
              appended
    """

    def __init__(self, command: Sequence[str], pack: Pack) -> None:
        self._command = command
        self._pack = pack
        self._process: Popen[bytes] | None = None
        self._link: _WorkerLink | None = None
        self._asked_count = self._heard_count = 0

    @property
    def pid(self) -> int | None:
        """The process id of the worker; None if it does not run."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process, which is ready about a second later.  Raises OSError if it fails."""
        ours, theirs = socket.socketpair()
        memory = os.memfd_create("blocks")
        os.ftruncate(memory, PLACES * PLACE_BYTES)
        self._link = _WorkerLink(ours, memory)
        self._asked_count = 0
        # The first answer belongs to no request.
        self._heard_count = -1
        try:
            # Closed after the start, so that the stream ends when the child does.
            with theirs:
                numbers = theirs.fileno(), memory
                self._process = Popen(  # noqa: S603 - our own
                    [*self._command, *map(str, numbers)], stdin=DEVNULL, pass_fds=numbers
                )
        finally:
            os.close(memory)  # the mapping of the memory remains

    def ask(self, transactions: Transactions) -> None:
        """Request the decoding of *transactions*; at most PLACES requests may be open.

        Raises WorkerLost if the worker does not run.
        """
        link = self._expect_link()
        form, parts = self._pack(transactions)
        try:
            link.send(ENCODER.encode(link.put(self._asked_count % PLACES, form, parts)))
        except OSError as cause:
            raise WorkerLost from cause
        self._asked_count += 1

    def hear(self, wait_s: float) -> Heard | None:
        """Return the next answer; None if none arrives within *wait_s* seconds.

        The first answer means that the worker is ready; the others are in the order of requests.
        Raises WorkerLost if the worker has ended or its answer cannot be read.
        """
        link = self._expect_link()
        place = self._heard_count % PLACES
        try:
            if not link.has_message(wait_s):
                return None
            (length,) = LENGTH.unpack(link.receive())
            self._heard_count += 1
            return Heard(None if length == NOTHING else DECODED.decode(link.read(place, length)))
        except (EOFError, OSError, msgspec.MsgspecError) as cause:
            raise WorkerLost from cause

    def end(self) -> None:
        """Kill the worker process, even if it is busy."""
        process = self._process
        self._process = None
        link = self._link
        self._link = None
        if link is not None:
            link.end()
        if process is not None:
            process.kill()
            process.wait(END_S_MAX)

    def _expect_link(self) -> "_WorkerLink":
        if self._link is None:
            raise WorkerLost
        return self._link


def answer(decode: Decode, unpack: Unpack, socket_number: int, memory_number: int) -> None:
    """Answer the requests of the parent process in order, until the socket closes or fails.

    The first answer only means that this process is ready.  An answer has no result if the block
    cannot be decoded, or if the block or the result is larger than its place in shared memory.

    unpack                         the inverse of the parent's *pack*
    socket_number, memory_number   file descriptors of the socket and of the shared memory
    """
    link = _WorkerLink(socket.socket(fileno=socket_number), memory_number)
    with suppress(EOFError, OSError):
        link.send(LENGTH.pack(NOTHING))
        while True:
            asked = ASKED.decode(link.receive())
            link.send(LENGTH.pack(_answer(link, asked, decode, unpack)))


def _answer(link: "_WorkerLink", asked: AskedBlock, decode: Decode, unpack: Unpack) -> int:
    """Decode *asked*, and write the result to the block's place in shared memory.

    Return the length of the result in bytes, or NOTHING if there is no result.
    """
    if not asked.form:
        return NOTHING
    try:
        encoded = ENCODER.encode(decode(unpack(asked.form, link.parts(asked))))
    except Exception:  # noqa: BLE001 - the parent decodes them again, and reports the error
        return NOTHING
    return (
        len(encoded) if link.put(asked.place, asked.form, [memoryview(encoded)]).form else NOTHING
    )


class _WorkerLink:
    """One side of the link between ingest and the worker: a socket and the shared memory."""

    def __init__(self, connected: socket.socket, memory_number: int) -> None:
        self._socket = connected
        self._memory = memoryview(mmap.mmap(memory_number, PLACES * PLACE_BYTES))

    def put(self, place: int, form: str, parts: Sequence[memoryview]) -> AskedBlock:
        """Copy the *parts* of a block to *place* in shared memory; return the decoding request.

        form    the format of the parts; the request has none if the parts do not fit
        """
        begin = end = place * PLACE_BYTES
        ends = []
        for part in parts:
            start = end
            end = end + len(part)
            if end - begin > PLACE_BYTES:
                return AskedBlock(place)
            self._memory[start:end] = part
            ends.append(end - begin)
        return AskedBlock(place, form, ends)

    def parts(self, asked: AskedBlock) -> list[memoryview]:
        room = self._memory[asked.place * PLACE_BYTES :]
        return [room[begin:end] for begin, end in zip([0, *asked.ends], asked.ends, strict=False)]

    def read(self, place: int, length: int) -> memoryview:
        return self._memory[place * PLACE_BYTES :][:length]

    def send(self, message: bytes) -> None:
        self._socket.sendall(LENGTH.pack(len(message)) + message)

    def has_message(self, wait_s: float) -> bool:
        """Return whether a message or the end of the stream arrives within *wait_s* seconds."""
        return bool(select([self._socket], [], [], wait_s)[0])

    def receive(self) -> bytes:
        """Return the next message.  Raises EOFError if the other process has closed the socket."""
        (length,) = LENGTH.unpack(self._exactly(LENGTH.size))
        return self._exactly(length)

    def end(self) -> None:
        self._socket.close()

    def _exactly(self, count: int) -> bytes:
        found = self._socket.recv(count, socket.MSG_WAITALL)
        if len(found) < count:
            raise EOFError
        return found


STARTS_AFTER: Final = 100  # the worker starts after this number of blocks that had to wait
RESTS_AFTER: Final = 200  # the worker ends after this number of blocks in a row that did not wait
PATIENCE_S: Final = 2.0

log = structlog.get_logger()


class Worker(Protocol):
    """Decodes blocks in another process; `DecodeWorker` implements this port."""

    def start(self) -> None:
        """Start the worker, whose first answer means that it is ready.  Raises OSError."""

    def ask(self, transactions: Transactions) -> None:
        """Request the decoding of *transactions*.  Raises WorkerLost if the worker does not run."""

    def hear(self, wait_s: float) -> Heard | None:
        """Return the next answer; None if none arrives within *wait_s* seconds.

        The first answer means that the worker is ready; the others are in the order of requests.
        Raises WorkerLost if the worker has ended or its answer cannot be read.
        """

    def end(self) -> None:
        """End the worker's process."""


class WorkerState(Enum):
    """The state of the worker; it is not started again after LOST."""

    RESTS = auto()
    STARTS = auto()
    WORKS = auto()
    LOST = auto()


@dataclass(eq=False, repr=False)
class DecodeAhead:
    """Decodes blocks, some of them in advance in a worker process.

    Blocks that must wait are offered to the worker, if it runs; the others are decoded on request.
    """

    decode: Decode  # decodes in this process
    worker: Worker  # decodes in another process, until it fails once
    _: KW_ONLY
    starts_after: int = STARTS_AFTER  # number of blocks that had to wait
    rests_after: int = RESTS_AFTER  # number of blocks in a row that did not wait
    patience_s: float = PATIENCE_S  # the seconds that the worker may take for one block

    def __post_init__(self) -> None:
        self._state = WorkerState.RESTS
        # By `id`, because the hash of a block would read all of it.  Each dictionary also holds its
        # blocks, so no other block gets their ids.
        self._waiting: dict[int, Block] = {}  # by `id`, oldest first
        self._asked: deque[Block | None] = deque()  # open requests; None: no longer needed
        self._done: dict[int, tuple[Block, Decoded | None]] = {}  # None: no result
        self._waited_count = 0
        self._unwaited_count = 0  # blocks in a row that did not wait

    def offer(self, block: Block) -> None:
        """Let the worker process decode *block* in advance, because it waits for other blocks.

        The caller must call `decoded` for it later, or `forget`.
        """
        self._waited_count += 1
        self._unwaited_count = 0
        if self._state is WorkerState.RESTS and self._waited_count >= self.starts_after:
            self._start()
        if self._state in (WorkerState.STARTS, WorkerState.WORKS):
            self._waiting[id(block)] = block
            self._go_on()

    def decoded(self, block: Block) -> Decoded:
        """Return the decoded *block*; wait at most `patience_s` for each answer of the worker.

        Raises the errors of the decoder.
        """
        key = id(block)
        self._waiting.pop(key, None)
        self._go_on()
        while self._is_asked(block):
            self._decode_another()
        _, decoded = self._done.pop(key, (None, None))
        self._rest_if_idle()
        return self.decode(block.transactions) if decoded is None else decoded

    def forget(self) -> None:
        """Discard all offered blocks and their results, which the caller will not request."""
        self._waiting.clear()
        self._done.clear()
        # The worker still answers these requests; the answers are then ignored.
        self._asked = deque([None] * len(self._asked))

    def close(self) -> None:
        """Discard the waiting blocks, and end the worker process."""
        self.forget()
        self.worker.end()

    def _is_asked(self, block: Block) -> bool:
        return any(each is block for each in self._asked)

    def _decode_another(self) -> None:
        """Decode a waiting block; if no block waits, wait for the worker, up to `patience_s`."""
        if not self._waiting:
            self._go_on(self.patience_s)
            return
        other = self._take()
        with suppress(Exception):  # the error occurs again when this block is requested
            self._done[id(other)] = other, self.decode(other.transactions)
        self._go_on()

    def _take(self) -> Block:
        return self._waiting.pop(next(iter(self._waiting)))

    def _go_on(self, wait_s: float = 0.0) -> None:
        """Read the answers of the worker process, and send it waiting blocks.

        wait_s   seconds to wait for the next answer, after which the process counts as lost; 0: do
                 not wait
        """
        if self._state not in (WorkerState.STARTS, WorkerState.WORKS):
            return
        try:
            if not self._hear(wait_s) and wait_s:
                self._lose("it takes too long")
            while self._hear(0.0):
                pass
            while self._state is WorkerState.WORKS and self._waiting and len(self._asked) < PLACES:
                block = self._take()
                self._asked.append(block)
                self.worker.ask(block.transactions)
        except WorkerLost:
            self._lose("it has ended")

    def _start(self) -> None:
        self._state = WorkerState.STARTS
        try:
            self.worker.start()
        except OSError as cause:
            self._lose(str(cause))

    def _lose(self, reason: str) -> None:
        log.warning("decode_worker_lost", reason=reason)
        self._state = WorkerState.LOST
        self._asked.clear()
        self.worker.end()

    def _hear(self, wait_s: float) -> bool:
        heard = None if self._state is WorkerState.LOST else self.worker.hear(wait_s)
        if heard is None:
            return False
        if self._state is WorkerState.STARTS:
            self._state = WorkerState.WORKS
            return True
        block = self._asked.popleft()
        if block is not None:
            self._done[id(block)] = block, heard.decoded
        return True

    def _rest_if_idle(self) -> None:
        self._unwaited_count += 1
        if self._unwaited_count < self.rests_after or self._state is not WorkerState.WORKS:
            return
        self._state = WorkerState.RESTS
        self._waited_count = 0
        self._asked.clear()
        self.worker.end()
