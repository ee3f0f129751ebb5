"""The contract of every store of mint facts.  To test an engine, add it to `MARKET_ENGINES`."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from mintscope.kit.primitives import Mint, Slot, UnixMs
from mintscope.kit.time import DAY_MS
from mintscope.market.store.log_writer import SqlMintFacts, SqlTracking
from support.fakes.facts import FACTS
from support.fakes.made_chain import MINTS
from support.scenes.market_engines import MARKET_ENGINES, market_of

A, B, C, _ = MINTS
Ports = tuple[SqlMintFacts, SqlTracking]


@pytest.fixture(params=MARKET_ENGINES)
async def ports(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ports]:
    async with market_of(request.param, tmp_path) as market:
        yield market.facts, market.tracking


async def test_facts_are_stored_unchanged(ports: Ports) -> None:
    facts, tracking = ports
    await tracking.add(A)

    assert await facts.one(A) is None
    assert await facts.save(A, FACTS)
    assert await facts.one(A) == FACTS


async def test_facts_of_an_older_slot_replace_nothing(ports: Ports) -> None:
    facts, tracking = ports
    await tracking.add(A)
    await facts.save(A, FACTS)

    assert not await facts.save(A, replace(FACTS, slot=Slot(9), name="older"))
    assert await facts.save(A, replace(FACTS, slot=Slot(11), name="newer"))
    found = await facts.one(A)
    assert found is not None
    assert found.name == "newer"


async def test_facts_of_an_absurd_slot_are_replaced_by_facts_read_later(
    ports: Ports,
) -> None:
    """Otherwise facts from a node that once reported the slot 2^53 would never be replaced."""
    facts, tracking = ports
    await tracking.add(A)
    absurd = replace(FACTS, slot=Slot(2**53), name="absurd")
    await facts.save(A, absurd)

    later = replace(FACTS, name="later", read_at_ms=UnixMs(FACTS.read_at_ms + DAY_MS))
    assert await facts.save(A, later)
    assert await facts.one(A) == later
    assert await facts.due(UnixMs(later.read_at_ms), 9) == []


async def test_an_unknown_mint_has_no_facts(ports: Ports) -> None:
    facts, _ = ports

    assert not await facts.save(Mint("unknown"), FACTS)
    assert await facts.one(Mint("unknown")) is None


async def test_unread_mints_are_due_first_and_then_the_oldest_facts(ports: Ports) -> None:
    facts, tracking = ports
    for mint in (A, B, C):
        await tracking.add(mint)
    await facts.save(A, replace(FACTS, read_at_ms=UnixMs(500)))
    await facts.save(B, replace(FACTS, read_at_ms=UnixMs(400)))

    assert await facts.due(UnixMs(501), 9) == [C, B, A]
    assert await facts.due(UnixMs(501), 2) == [C, B]
    assert await facts.due(UnixMs(500), 9) == [C, B]
    await tracking.remove(C)
    assert await facts.due(UnixMs(500), 9) == [B]


async def test_a_mint_whose_facts_were_missed_is_not_due_and_keeps_its_old_facts(
    ports: Ports,
) -> None:
    facts, tracking = ports
    await tracking.add(A)
    await tracking.add(B)
    await facts.save(B, FACTS)
    for mint in (A, B):
        await facts.missed(mint, UnixMs(2_000))

    assert await facts.due(UnixMs(2_000), 9) == []
    assert await facts.due(UnixMs(2_001), 9) == [A, B]
    assert await facts.one(A) is None
    assert await facts.one(B) == FACTS
