"""A process that decodes blocks for this one.

Blocks lie in memory that both have, in one of a few places, and what they decode to takes the place
of the block.  Over a socket goes only where and how long that is, so that neither waits for the
other between two blocks.
"""

import mmap
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from select import select
from struct import Struct
from subprocess import DEVNULL, Popen
from typing import Final, NamedTuple

import msgspec

from mintscope.base.transaction import Transactions
from mintscope.core.dex.outcome import Decoded
from mintscope.edges.ingest.slots import Decode

PLACES: Final = 6  # how many blocks may be with the process
PLACE_BYTES: Final = 64 * 1024 * 1024  # of which only what is written to is taken
END_S_MAX: Final = 2.0
LENGTH: Final = Struct("<q")
NOTHING: Final = -1  # a length: there is no answer

# In what form transactions are, by its name, and the bytes of each.
Pack = Callable[[Transactions], tuple[str, Sequence[memoryview]]]
Unpack = Callable[[str, Sequence[memoryview]], Transactions]


class WorkerLost(Exception):
    """The process has ended, or was ended; nothing that it was asked is answered."""


class Heard(NamedTuple):
    """An answer; None where the process could not decode.  The first says that it is ready."""

    decoded: Decoded | None


class AskedBlock(msgspec.Struct, array_like=True):
    """Where a block lies; an empty form stands for one that found no room.

    ends   of its transactions, in bytes from where the place begins
    """

    place: int
    form: str = ""
    ends: list[int] = []


ASKED: Final = msgspec.msgpack.Decoder(AskedBlock)
DECODED: Final = msgspec.msgpack.Decoder(Decoded)
ENCODER: Final = msgspec.msgpack.Encoder()


class DecodeWorker:
    """A process that ends with this one; its answers come in the order of the questions.

    command   runs it; the numbers of its socket and of the memory are added
    """

    def __init__(self, command: Sequence[str], pack: Pack) -> None:
        self._command = command
        self._pack = pack
        self._process: Popen[bytes] | None = None
        self._link: _WorkerLink | None = None
        self._asked_count = self._heard_count = 0

    @property
    def pid(self) -> int | None:
        """The number of the process while it runs."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process, which takes about a second until it is ready.  Raises OSError."""
        ours, theirs = socket.socketpair()
        memory = os.memfd_create("blocks")
        os.ftruncate(memory, PLACES * PLACE_BYTES)
        self._link = _WorkerLink(ours, memory)
        self._asked_count = 0
        self._heard_count = -1
        with theirs:
            numbers = theirs.fileno(), memory
            self._process = Popen(  # noqa: S603 - our own
                [*self._command, *map(str, numbers)], stdin=DEVNULL, pass_fds=numbers
            )
        os.close(memory)  # what is mapped stays

    def ask(self, transactions: Transactions) -> None:
        """Ask what *transactions* decode to; at most PLACES may not be answered yet.

        Raises WorkerLost.
        """
        link = self._expect_link()
        form, parts = self._pack(transactions)
        try:
            link.send(ENCODER.encode(link.put(self._asked_count % PLACES, form, parts)))
        except OSError as cause:
            raise WorkerLost from cause
        self._asked_count += 1

    def hear(self, wait_s: float) -> Heard | None:
        """Return the next answer if it comes within *wait_s*.  Raises WorkerLost."""
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
        """End the process, whatever it does."""
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
    """Decode what is asked over the socket until it ends; the worker's own side.

    unpack   undoes what was done by the asking side's *pack*
    """
    link = _WorkerLink(socket.socket(fileno=socket_number), memory_number)
    with suppress(EOFError, OSError):
        link.send(LENGTH.pack(NOTHING))
        while True:
            asked = ASKED.decode(link.receive())
            link.send(LENGTH.pack(_answer(link, asked, decode, unpack)))


def _answer(link: "_WorkerLink", asked: AskedBlock, decode: Decode, unpack: Unpack) -> int:
    """Put what *asked* decodes to in its place; return how long that is."""
    if not asked.form:
        return NOTHING
    try:
        encoded = ENCODER.encode(decode(unpack(asked.form, link.parts(asked))))
    except Exception:  # noqa: BLE001 - who asked decodes them again, meets it, and tells it
        return NOTHING
    return (
        len(encoded) if link.put(asked.place, asked.form, [memoryview(encoded)]).form else NOTHING
    )


class _WorkerLink:
    """A socket for whole messages, and the memory beside it."""

    def __init__(self, connected: socket.socket, memory_number: int) -> None:
        self._socket = connected
        self._memory = memoryview(mmap.mmap(memory_number, PLACES * PLACE_BYTES))

    def put(self, place: int, form: str, parts: Sequence[memoryview]) -> AskedBlock:
        """Copy *parts* to *place*, if there is room for them."""
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
        """Return what was put there."""
        room = self._memory[asked.place * PLACE_BYTES :]
        return [room[begin:end] for begin, end in zip([0, *asked.ends], asked.ends, strict=False)]

    def read(self, place: int, length: int) -> memoryview:
        """Return the first *length* bytes of *place*."""
        return self._memory[place * PLACE_BYTES :][:length]

    def send(self, message: bytes) -> None:
        """Send *message*.  Raises OSError."""
        self._socket.sendall(LENGTH.pack(len(message)) + message)

    def has_message(self, wait_s: float) -> bool:
        """Say whether there is one, or the end, within *wait_s*."""
        return bool(select([self._socket], [], [], wait_s)[0])

    def receive(self) -> bytes:
        """Wait for the next message.  Raises EOFError at the end, or OSError."""
        (length,) = LENGTH.unpack(self._exactly(LENGTH.size))
        return self._exactly(length)

    def end(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _exactly(self, count: int) -> bytes:
        found = self._socket.recv(count, socket.MSG_WAITALL)
        if len(found) < count:
            raise EOFError
        return found
