"""Facts of mints are read from a node when tracking begins, and then daily."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from typing_extensions import override

from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Mint, UnixMs
from mintscope.kit.time import DAY_S, SECOND_MS
from mintscope.market.mint_accounts import read_facts, refresh_facts
from mintscope.market.mint_facts import MintFacts, NotAMint
from mintscope.solana.blocks import Endpoint
from mintscope.solana.rpc import Rpc, Unreachable
from mintscope_devchain.chain import Devchain
from support.scenes.stores import market_in

NOW = UnixMs(1_790_000_000_000)
NO_MINT = Mint("DKu9kykSfbN5LBfFXtNNDPaX35o4Fv6vJ9FKk7pZpump")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture(scope="module")
def chain() -> Devchain:
    chain = Devchain(seed=7, now=NOW, history_days=0)
    chain.tick()
    return chain


@pytest.fixture
async def rpc(chain: Devchain, clock: ManualClock) -> AsyncIterator[Rpc]:
    endpoint = Endpoint(url="http://devchain", attempts_max=1)
    async with Rpc(endpoint, clock=clock, transport=httpx.ASGITransport(chain.app)) as rpc:
        yield rpc


async def test_the_facts_of_a_mint_are_read_and_other_addresses_are_no_mint(
    chain: Devchain, rpc: Rpc, clock: ManualClock
) -> None:
    token = chain.tokens[1]
    read = await read_facts(rpc, [NO_MINT, token.mint], clock)

    assert isinstance(read[NO_MINT], NotAMint)
    facts = read[token.mint]
    assert isinstance(facts, MintFacts)
    assert (facts.decimals, facts.program) == (token.decimals, token.program)
    assert 0 <= facts.slot <= chain.blockstore.tip
    assert facts.read_at_ms == NOW


async def test_tracked_mints_are_read_once_and_again_after_a_day(
    chain: Devchain, rpc: Rpc, clock: ManualClock, tmp_path: Path
) -> None:
    mint = chain.tokens[1].mint
    async with market_in(tmp_path) as market:
        for each in (mint, NO_MINT):
            await market.tracking.add(each)
        read_at = []
        for _ in range(3):
            await refresh_facts(rpc, market.facts, clock)
            facts = await market.facts.one(mint)
            read_at.append(None if facts is None else facts.read_at_ms)
            clock.step(DAY_S * SECOND_MS // 2 + 1)

        assert read_at == [NOW, NOW, NOW + DAY_S * SECOND_MS + 2]
        assert await market.facts.one(NO_MINT) is None


async def test_an_answer_with_the_wrong_number_of_accounts_is_an_error(clock: ManualClock) -> None:
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"context": {"slot": 1}, "value": [None]}}
    node = httpx.MockTransport(lambda _: httpx.Response(200, json=answer))
    endpoint = Endpoint(url="http://node", attempts_max=1)
    async with Rpc(endpoint, clock=clock, transport=node) as rpc:
        with pytest.raises(Unreachable, match="expected 2 accounts; was 1"):
            await read_facts(rpc, [NO_MINT], clock)


class Spoilt(httpx.AsyncBaseTransport):
    """Passes requests to *node*, but answers 502 to those with *address*, or if `is_down`."""

    def __init__(self, node: httpx.AsyncBaseTransport, address: str) -> None:
        self.node = node
        self.address = address
        self.requests = 0
        self.is_down = False

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        if self.is_down or self.address.encode() in request.content:
            return httpx.Response(502)
        return await self.node.handle_async_request(request)


async def test_an_unreadable_mint_does_not_prevent_reading_the_others(
    chain: Devchain, clock: ManualClock, tmp_path: Path
) -> None:
    mints = [token.mint for token in chain.tokens]
    bad, *others = mints
    node = Spoilt(httpx.ASGITransport(chain.app), bad)
    endpoint = Endpoint(url="http://devchain", attempts_max=1)
    async with (
        market_in(tmp_path) as market,
        Rpc(endpoint, clock=clock, transport=node) as rpc,
    ):
        for mint in mints:
            await market.tracking.add(mint)
        await refresh_facts(rpc, market.facts, clock)
        assert await market.facts.one(bad) is None
        assert None not in [await market.facts.one(mint) for mint in others]

        asked = node.requests
        await refresh_facts(rpc, market.facts, clock)
        assert node.requests == asked, "none is due"
        clock.advance(15 * 60_000 + 1_000)
        assert list(await market.facts.due(UnixMs(clock.now() - 86_400_000), 50)) == [bad]


async def test_mints_are_due_until_a_node_answers(
    chain: Devchain, clock: ManualClock, tmp_path: Path
) -> None:
    mints = {token.mint for token in chain.tokens}
    node = Spoilt(httpx.ASGITransport(chain.app), "none")
    node.is_down = True
    endpoint = Endpoint(url="http://devchain", attempts_max=1)
    async with (
        market_in(tmp_path) as market,
        Rpc(endpoint, clock=clock, transport=node) as rpc,
    ):
        for mint in mints:
            await market.tracking.add(mint)
        with pytest.raises(Unreachable):
            await refresh_facts(rpc, market.facts, clock)
        assert set(await market.facts.due(clock.now(), 50)) == mints
        assert node.requests <= 3, "a node that is down is not asked for each mint"
