"""Blocks that wait are decoded in two processes: each takes the oldest that none has taken.

All of it happens in the thread that asks, between two blocks: another thread would wait for the
interpreter longer than a block takes.
"""

from collections import deque
from contextlib import suppress
from enum import Enum, auto
from typing import Final, Protocol

import structlog

from mintscope.base.solana import Block
from mintscope.base.transaction import Transactions
from mintscope.core.dex.outcome import Decoded
from mintscope.edges.ingest.decode_worker import PLACES, Heard, WorkerLost
from mintscope.edges.ingest.slots import Decode

STARTS_AFTER: Final = 100  # blocks that waited: what is caught up sooner is not worth a process
RESTS_AFTER: Final = 200  # blocks in a row that did not wait
PATIENCE_S: Final = 2.0

log = structlog.get_logger()


class Worker(Protocol):
    """Decodes elsewhere."""

    def start(self) -> None:
        """Begin; what it answers first is that it is ready.  Raises OSError."""

    def ask(self, transactions: Transactions) -> None:
        """Ask what *transactions* decode to.  Raises WorkerLost."""

    def hear(self, wait_s: float) -> Heard | None:
        """Return the next answer, in the order asked, if it comes within *wait_s*.

        Raises WorkerLost.
        """

    def end(self) -> None:
        """Let go of what it runs in."""


class WorkerState(Enum):
    """The task of the worker."""

    RESTS = auto()
    STARTS = auto()
    WORKS = auto()
    LOST = auto()


class DecodeAhead:
    """Decodes the blocks it is offered, and those it is asked for.

    worker         one that is lost is asked no more
    starts_after   that many blocks waited it is started
    patience_s     how long it may take for a block
    """

    def __init__(
        self,
        decode: Decode,
        worker: Worker,
        *,
        starts_after: int = STARTS_AFTER,
        rests_after: int = RESTS_AFTER,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._decode = decode
        self._worker = worker
        self._starts_after = starts_after
        self._rests_after = rests_after
        self._patience_s = patience_s
        self._state = WorkerState.RESTS
        self._waiting: dict[int, Block] = {}  # by identity, oldest first
        self._asked: deque[Block | None] = deque()  # with the worker; None: forgotten meanwhile
        self._done: dict[int, tuple[Block, Decoded | None]] = {}  # None: to be decoded here
        self._waited_count = 0
        self._unwaited_count = 0  # since one that waited

    def offer(self, block: Block) -> None:
        """Note that *block* will be asked for, after others."""
        self._waited_count += 1
        self._unwaited_count = 0
        if self._state is WorkerState.RESTS and self._waited_count >= self._starts_after:
            self._start()
        if self._state in (WorkerState.STARTS, WorkerState.WORKS):
            self._waiting[id(block)] = block
            self._go_on()

    def decoded(self, block: Block) -> Decoded:
        """Return what *block* decodes to, at the latest once the worker's patience ends.

        Raises what the decoder raises.
        """
        key = id(block)
        self._waiting.pop(key, None)
        self._go_on()
        while self._is_asked(block):
            self._decode_another()
        _, decoded = self._done.pop(key, (None, None))
        self._rest_if_idle()
        return self._decode(block.transactions) if decoded is None else decoded

    def forget(self) -> None:
        """Forget all blocks: none of them will be asked for."""
        self._waiting.clear()
        self._done.clear()
        self._asked = deque([None] * len(self._asked))

    def close(self) -> None:
        """End the worker."""
        self.forget()
        self._worker.end()

    def _is_asked(self, block: Block) -> bool:
        return any(each is block for each in self._asked)

    def _decode_another(self) -> None:
        """Use the time until the next answer; lose a worker that takes too long."""
        if not self._waiting:
            self._go_on(self._patience_s)
            return
        other = self._take()
        with suppress(Exception):  # met again, and reported, when it is asked for
            self._done[id(other)] = other, self._decode(other.transactions)
        self._go_on()

    def _take(self) -> Block:
        return self._waiting.pop(next(iter(self._waiting)))

    def _go_on(self, wait_s: float = 0.0) -> None:
        """Hear what the worker has, and give it what waits.

        wait_s   for the next answer, without which it is lost; 0: it need not have one
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
                self._worker.ask(block.transactions)
        except WorkerLost:
            self._lose("it has ended")

    def _start(self) -> None:
        self._state = WorkerState.STARTS
        try:
            self._worker.start()
        except OSError as cause:
            self._lose(str(cause))

    def _lose(self, reason: str) -> None:
        log.warning("decode_worker_lost", reason=reason)
        self._state = WorkerState.LOST
        self._asked.clear()
        self._worker.end()

    def _hear(self, wait_s: float) -> bool:
        heard = None if self._state is WorkerState.LOST else self._worker.hear(wait_s)
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
        """End a worker that is not needed."""
        self._unwaited_count += 1
        if self._unwaited_count < self._rests_after or self._state is not WorkerState.WORKS:
            return
        self._state = WorkerState.RESTS
        self._waited_count = 0
        self._asked.clear()
        self._worker.end()
