"""The reason for late blocks is reported as text, for each fault of a node."""

import asyncio
from dataclasses import dataclass
from typing import Final

import pytest

from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import Slot, UnixMs
from mintscope.solana.blocks import Block
from mintscope.solana.node import LATE_S, WatchedNode
from mintscope.solana.pace import Pace
from mintscope.solana.rpc import Commitment, Head, Missing, Unreachable
from mintscope.solana.wire import Absence, Header
from support.fakes.made_chain import block

CONFIRMED: Final = Commitment.CONFIRMED


@dataclass
class AnyNode:
    """Implements Node with answers that a test sets."""

    newest: int = 100
    failure: str = ""
    missing: Missing | None = None
    gives_blocks: bool = True

    async def head(self, commitment: Commitment) -> Head:
        del commitment
        self._expect_answer()
        return Head(Slot(self.newest), None)

    async def first_available(self) -> Slot:
        return Slot(0)

    async def genesis_hash(self) -> str:
        return "genesis"

    async def pace(self) -> Pace | None:
        return None

    async def blocks(self, *, first: Slot, last: Slot, commitment: Commitment) -> list[Slot]:
        del commitment
        return [Slot(each) for each in range(first, last + 1)]

    async def block(
        self, slot: Slot, commitment: Commitment, *, is_expected: bool = False
    ) -> Block | Missing:
        del commitment, is_expected
        self._expect_answer()
        if not self.gives_blocks:
            await asyncio.Event().wait()
        return self.missing or block(slot, None)

    async def header(self, slot: Slot, commitment: Commitment) -> Header | Missing:
        del commitment
        return Missing(slot=slot, absence=Absence.SKIPPED)

    def _expect_answer(self) -> None:
        if self.failure:
            raise Unreachable(self.failure)


class Watched:
    """A fake node that a `WatchedNode` watches, and the result of the check."""

    def __init__(self) -> None:
        self.node = AnyNode()
        self.clock = ManualClock(UnixMs(0))
        self.watched = WatchedNode(self.node, self.clock)

    async def said(self, slot: int | None = 99, age_s: float | None = 1.0) -> str:
        try:
            await self.watched.expect_current(None if slot is None else Slot(slot), age_s)
        except ServiceUnavailable as trouble:
            return str(trouble)
        return ""


@pytest.fixture
def watched() -> Watched:
    made = Watched()
    made.clock.advance(int(LATE_S * 1_000) + 1_000)
    return made


async def test_no_problem_is_reported_while_blocks_are_fresh(watched: Watched) -> None:
    watched.node.failure = "HTTP 429, 5 times in a row"
    with pytest.raises(Unreachable):
        await watched.watched.head(CONFIRMED)
    assert await watched.said(age_s=LATE_S) == ""


async def test_a_refusal_is_reported_with_the_error_of_the_node(watched: Watched) -> None:
    watched.node.failure = "HTTP 429, 5 times in a row"
    with pytest.raises(Unreachable):
        await watched.watched.block(Slot(100), CONFIRMED)
    said = await watched.said(age_s=25)
    assert "no usable answer to requests for a block: HTTP 429, 5 times in a row" in said
    assert said.endswith("the newest block is 25 s old")
    watched.node.failure = ""
    await watched.watched.block(Slot(100), CONFIRMED)
    assert "429" not in await watched.said(age_s=30)


async def test_a_node_that_stands_still_is_reported(watched: Watched) -> None:
    await watched.watched.head(CONFIRMED)
    watched.clock.advance(12_000)
    await watched.watched.head(CONFIRMED)
    said = await watched.said(slot=100, age_s=25)
    assert "does not advance: it has named no slot above 100 for 12 s" in said


@pytest.mark.parametrize("absence", [Absence.NOT_READY, Absence.PURGED, Absence.SKIPPED])
async def test_a_missing_block_is_reported_with_the_reason(
    watched: Watched, absence: Absence
) -> None:
    watched.node.missing = Missing(slot=Slot(101), absence=absence, reason="-32001")
    watched.node.newest = 150
    assert await watched.watched.block(Slot(101), CONFIRMED) == watched.node.missing
    said = await watched.said(slot=100, age_s=25)
    assert f"names slot 150 and does not give the block after 100 ({absence.name}: -32001)" in said


async def test_a_node_that_lags_is_reported(watched: Watched) -> None:
    for newest in range(100, 130):
        watched.node.newest = newest
        await watched.watched.block(Slot(newest), CONFIRMED)
        watched.clock.advance(400)
    assert "the node is behind" in await watched.said(slot=129, age_s=160)


async def test_a_node_that_names_an_older_slot_is_reported(watched: Watched) -> None:
    await watched.watched.head(CONFIRMED)
    watched.node.newest = 40
    watched.clock.advance(12_000)
    said = await watched.said(slot=100, age_s=25)
    assert "the node is behind: it names slot 40, and has named 100 before" in said


async def test_a_node_that_does_not_answer_is_reported(watched: Watched) -> None:
    watched.node.gives_blocks = False
    asking = asyncio.create_task(watched.watched.block(Slot(100), CONFIRMED))
    await asyncio.sleep(0)
    watched.clock.advance(8_000)
    assert "has not answered for 8 s a request for a block" in await watched.said(age_s=25)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert "has not answered" not in await watched.said(age_s=30)


async def test_no_problem_is_reported_while_missed_blocks_are_read(watched: Watched) -> None:
    said = [await watched.said(age_s=age_s) for age_s in (600, 500, 400, 399.5)]
    assert [bool(each) for each in said] == [True, False, False, True]


async def test_no_problem_is_reported_just_after_the_start() -> None:
    young = Watched()
    assert await young.said(slot=None, age_s=None) == ""
    young.clock.advance(int(LATE_S * 1_000) + 1_000)
    assert await young.said(slot=None, age_s=None) != ""

    resumed = Watched()
    assert await resumed.said(slot=99, age_s=3_600) == ""
