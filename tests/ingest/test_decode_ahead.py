"""Each block is decoded to the same result, whatever the process that decodes ahead does."""

from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mintscope.dex.outcome import Decoded
from mintscope.ingest.decoding import PLACES, DecodeAhead, Heard, WorkerLost
from mintscope.ingest.pipeline import Ingest
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import UnixMs
from mintscope.solana.blocks import WSOL
from mintscope.solana.transaction import Transactions
from support.fakes.made_chain import MINTS, ListSource, decode_made, random_chain
from support.oracles.market_file import kept
from support.scenes.stores import market_in

BLOCKS = random_chain(3, 120)


class FakeWorker:
    """A fake decode worker without a process; a call of `hear` returns at most one answer.

    late       the number of calls of `hear` without an answer before each answer, unless `hear` may
               wait
    fails_at   each answer whose number is a multiple of this has no result
    dies_at    the number of the answer at which the worker is lost
    hangs_at   the number of the answer that never comes
    """

    def __init__(
        self, *, late: int = 0, fails_at: int = 0, dies_at: int = 0, hangs_at: int = 0
    ) -> None:
        self.late, self.fails_at, self.dies_at, self.hangs_at = late, fails_at, dies_at, hangs_at
        self.answered = self.started = 0
        self.most = 0
        self._in_vain = 0
        self._is_ready = False
        self._asked: deque[Transactions] = deque()

    def start(self) -> None:
        self.started += 1
        self._is_ready = False

    def ask(self, transactions: Transactions) -> None:
        assert self._is_ready
        self._asked.append(transactions)
        self.most = max(self.most, len(self._asked))

    def hear(self, wait_s: float) -> Heard | None:
        if not self._is_ready:
            self._is_ready = True
            return Heard(None)
        if not self._asked or self.answered + 1 == self.hangs_at:
            return None
        self._in_vain += 1
        if not wait_s and self._in_vain <= self.late:
            return None
        self._in_vain = 0
        self.answered += 1
        if self.answered == self.dies_at:
            raise WorkerLost
        transactions = self._asked.popleft()
        fails = self.fails_at and self.answered % self.fails_at == 0
        return Heard(None if fails else decode_made(transactions))

    def end(self) -> None:
        self._asked.clear()


def ahead_with(worker: FakeWorker) -> DecodeAhead:
    return DecodeAhead(decode_made, worker, starts_after=1)


WORKERS = {
    "well": FakeWorker,
    "is late": lambda: FakeWorker(late=9),
    "is so late that it is waited for": lambda: FakeWorker(late=99),
    "fails at some": lambda: FakeWorker(fails_at=3),
    "dies at once": lambda: FakeWorker(dies_at=1),
    "dies later": lambda: FakeWorker(dies_at=7),
    "hangs": lambda: FakeWorker(hangs_at=2),
}


@pytest.mark.parametrize("made", WORKERS.values(), ids=WORKERS)
def test_blocks_decoded_ahead_equal_blocks_decoded_here(made: Callable[[], FakeWorker]) -> None:
    worker = made()
    ahead = ahead_with(worker)
    try:
        for first in range(0, len(BLOCKS), 20):
            some = BLOCKS[first : first + 20]
            for block in some[1:]:
                ahead.offer(block)
            for block in some:
                assert ahead.decoded(block) == decode_made(block.transactions)
    finally:
        ahead.close()
    assert worker.answered > 0
    assert worker.most <= PLACES


async def test_ingest_writes_the_same_rows_with_a_second_process(tmp_path: Path) -> None:
    workers = {"alone": None, "beside": FakeWorker()}
    for name, worker in workers.items():
        ahead = None if worker is None else ahead_with(worker)
        async with market_in(tmp_path / name) as market:
            await Ingest(
                source=ListSource(BLOCKS),
                store=market.store,
                decode=decode_made,
                clock=ManualClock(UnixMs(0)),
                mints=[WSOL, *MINTS],
                ahead=ahead,
            ).run()
        if ahead is not None:
            ahead.close()

    beside = workers["beside"]
    assert beside is not None
    assert beside.answered > 0
    assert kept(tmp_path / "beside") == kept(tmp_path / "alone")


def test_a_lost_worker_is_reported_once_and_not_used_again() -> None:
    worker = FakeWorker(dies_at=1)
    ahead = ahead_with(worker)
    with capture_logs() as logs:
        for block in BLOCKS[:20]:
            ahead.offer(block)
        for block in BLOCKS[:20]:
            ahead.decoded(block)
        for block in BLOCKS[20:40]:
            ahead.offer(block)
            ahead.decoded(block)
        ahead.close()
    assert [log["event"] for log in logs] == ["decode_worker_lost"]
    assert worker.answered == 1


def test_an_error_of_the_decoder_is_raised_for_its_block() -> None:
    def decode(transactions: Iterable[object]) -> Decoded:
        raise ValueError(len(list(transactions)))

    ahead = DecodeAhead(decode, FakeWorker(fails_at=1), starts_after=1)
    try:
        for block in BLOCKS[:10]:
            ahead.offer(block)
        for block in BLOCKS[:10]:
            with pytest.raises(ValueError, match=str(len(block.transactions))):
                ahead.decoded(block)
    finally:
        ahead.close()


def test_no_worker_is_started_for_a_few_waiting_blocks() -> None:
    worker = FakeWorker()
    ahead = DecodeAhead(decode_made, worker)
    for block in BLOCKS[:50]:
        ahead.offer(block)
        ahead.decoded(block)
    ahead.close()
    assert worker.started == 0


def test_a_worker_stops_if_no_blocks_wait_and_starts_again_if_they_do() -> None:
    worker = FakeWorker()
    ahead = DecodeAhead(decode_made, worker, starts_after=10, rests_after=20)
    for _ in range(2):
        for block in BLOCKS[:30]:
            ahead.offer(block)
        for block in BLOCKS[:30]:
            ahead.decoded(block)
        answered = worker.answered
        for block in BLOCKS[30:60]:
            ahead.decoded(block)
        assert worker.answered == answered
    ahead.close()
    assert worker.started == 2


def test_answers_for_forgotten_blocks_are_not_given_for_other_blocks() -> None:
    worker = FakeWorker(late=1)
    ahead = ahead_with(worker)
    for block in BLOCKS[:10]:
        ahead.offer(block)
    ahead.forget()
    for block in BLOCKS[50:60]:
        ahead.offer(block)
    for block in BLOCKS[50:60]:
        assert ahead.decoded(block) == decode_made(block.transactions)
    ahead.close()
