"""No answer of a node makes a payment lost or causes an unexpected error."""

import asyncio
import tempfile
import tracemalloc
import zlib
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import PriceUnavailable
from mintscope.kit.primitives import Signature, UnixMs, Wallet
from mintscope.payments.node import ANSWER_BYTES_MAX, PaymentNode
from mintscope.payments.ports import (
    AlreadyUsed,
    ChainUnavailable,
    Settled,
    Unavailable,
    Unresolved,
)
from mintscope.payments.price_cache import PriceCache
from mintscope.payments.price_sources import FeedPrice
from mintscope.payments.pricing import Doubt, Quote
from mintscope.payments.protocol.envelope import Refused
from mintscope.payments.protocol.memo import UnusablePaymentToken
from mintscope.payments.settlement import RpcSettlement
from mintscope.solana.blocks import Endpoint
from support.fakes.raw_server import raw_server, whole
from support.scenes.payments.payment_build import PAYER
from support.scenes.payments.payment_world import AMOUNT, RESOURCE, World, buy, world_at
from support.spoiling import RUINED, spoil

PATIENCE_S: Final = 0.05
HEALED_S: Final = 10.0  # the longest wait, on a busy machine
OF_SETTLEMENT: Final = [
    "simulateTransaction",
    "getBlockHeight",
    "sendTransaction",
    "getSignatureStatuses",
    "getTransaction",
    "getEpochInfo",
]
VERBS: Final[dict[str, Callable[[RpcSettlement, Signature], Coroutine[Any, Any, object]]]] = {
    "getEpochInfo": lambda chain, signature: chain.look([signature]),
    "getSignatureStatuses": lambda chain, signature: chain.look([signature]),
    "getTransaction": lambda chain, signature: chain.look([signature]),
    "getBlockHeight": lambda chain, _: chain.finalized_height(),
    "getBalance": lambda chain, _: chain.lamports(Wallet(str(PAYER.pubkey()))),
    "getSignaturesForAddress": lambda chain, _: chain.arrivals(after=None, before=None),
    "getAccountInfo": lambda chain, _: _looked_at(chain),
}
HERMES: Final = (
    b'{"parsed":[{"price":{"price":"2000000","conf":"9","expo":-6,"publish_time":1799999999}}]}'
)
NOW: Final = UnixMs(1_800_000_000_000)
seeds = st.integers(0, 2**48)


async def _looked_at(chain: RpcSettlement) -> int:
    with suppress(UnusablePaymentToken):
        await chain.expect_usable()
    return await chain.block_time_s()


def in_a_world(story: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with world_at(Path(folder)) as world:
                await story(world)

    asyncio.run(run())


@pytest.mark.storm
@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    ruined=st.dictionaries(
        st.sampled_from(OF_SETTLEMENT), st.sampled_from(sorted(RUINED)), min_size=1
    )
)
@example({"sendTransaction": "text that is no UTF-8"})
@example(dict.fromkeys(OF_SETTLEMENT[2:], "text that is no UTF-8"))
@example(dict.fromkeys(OF_SETTLEMENT[2:], "no end of nesting"))
def test_a_payment_is_settled_after_unreadable_answers_of_a_node(
    ruined: Mapping[str, str],
) -> None:
    async def story(world: World) -> None:
        facilitator = world.facilitator(patience_s=PATIENCE_S)
        payment = world.pay(facilitator.require(RESOURCE, AMOUNT))
        world.spoil = {method: RUINED[name] for method, name in ruined.items()}
        first = await buy(facilitator, payment)
        assert isinstance(first, Settled | Unavailable | Unresolved)
        was_sent = "sendTransaction" in world.calls
        assert isinstance(first, Unavailable) != was_sent
        with suppress(ChainUnavailable):
            await world.reconciler().once()
        world.spoil = {}
        world.slots(3)
        await world.reconciler().once()

        assert isinstance(await buy(world.facilitator(patience_s=HEALED_S), payment), Settled)
        assert world.received() == AMOUNT
        assert world.fees() == 10_001

    in_a_world(story)


@pytest.mark.storm
@settings(max_examples=40, deadline=None, derandomize=True)
@given(spoilt=st.dictionaries(st.sampled_from(OF_SETTLEMENT), seeds, min_size=1))
def test_a_payment_has_an_outcome_if_a_node_lies_about_it(spoilt: Mapping[str, int]) -> None:
    async def story(world: World) -> None:
        facilitator = world.facilitator(patience_s=PATIENCE_S)
        payment = world.pay(facilitator.require(RESOURCE, AMOUNT))
        world.spoil = {method: partial(spoil, seed=seed) for method, seed in spoilt.items()}
        for _ in range(2):
            outcome = await buy(facilitator, payment)
            assert isinstance(outcome, Settled | Unavailable | Unresolved | Refused | AlreadyUsed)
            world.slots(3)
            with suppress(ChainUnavailable):
                await world.reconciler().once()
        assert world.fees() <= 10_001

    in_a_world(story)


@pytest.fixture(scope="module")
def sold(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, Signature]:
    """A chain with one payment, and the signature of this payment."""

    async def sell() -> tuple[World, Signature]:
        async with world_at(tmp_path_factory.mktemp("sold")) as world:
            facilitator = world.facilitator()
            outcome = await buy(facilitator, world.pay(facilitator.require(RESOURCE, AMOUNT)))
            assert isinstance(outcome, Settled)
            world.slots(40)
            return world, outcome.payment.signature

    return asyncio.run(sell())


@pytest.mark.storm
@settings(max_examples=300, deadline=None, derandomize=True)
@given(name=st.sampled_from(sorted(VERBS)), seed=seeds)
def test_a_spoiled_answer_gives_a_valid_result_or_an_outage(
    sold: tuple[World, Signature], name: str, seed: int
) -> None:
    ask(sold, name, lambda good: spoil(good, seed))


@pytest.mark.storm
@settings(max_examples=100, deadline=None, derandomize=True)
@given(name=st.sampled_from(sorted(VERBS)), body=st.binary())
def test_random_bytes_give_a_valid_result_or_an_outage(
    sold: tuple[World, Signature], name: str, body: bytes
) -> None:
    ask(sold, name, lambda _: body)


def ask(sold: tuple[World, Signature], name: str, change: Callable[[bytes], bytes]) -> None:
    """Call *name* with garbled answers of the node; numbers in the result must fit the store."""
    world, signature = sold

    async def run() -> None:
        chain = world.chain()
        try:
            with suppress(ChainUnavailable, UnusablePaymentToken):
                reported = await VERBS[name](chain, signature)
                numbers = [each for each in _inside(reported) if isinstance(each, int)]
                assert all(abs(number) < 2**63 for number in numbers), reported
        finally:
            await chain.aclose()

    world.spoil = {name: change}
    try:
        asyncio.run(run())
    finally:
        world.spoil = {}


def _inside(reported: object) -> Iterator[object]:
    yield reported
    if isinstance(reported, Sequence) and not isinstance(reported, str):
        for each in reported:
            yield from _inside(each)
    elif isinstance(reported, Struct):
        for name in reported.__struct_fields__:
            yield from _inside(getattr(reported, name))


async def test_a_huge_compressed_answer_takes_little_memory() -> None:
    packed = zlib.compress(bytes(20 * ANSWER_BYTES_MAX), 9, wbits=31)
    async with raw_server(whole(packed, b"Content-Encoding: gzip")) as url:
        node = PaymentNode(Endpoint(url=url), None)
        tracemalloc.start()
        try:
            with pytest.raises(ChainUnavailable, match="expected at most"):
                await node.height("confirmed")
            assert tracemalloc.get_traced_memory()[1] < 4 * ANSWER_BYTES_MAX
        finally:
            tracemalloc.stop()
            await node.aclose()


def feed(text: bytes) -> Quote | Doubt:
    async def run() -> Quote | Doubt:
        transport = httpx.MockTransport(lambda _: httpx.Response(200, content=text))
        source = FeedPrice("http://feed/", transport=transport)
        cache = PriceCache(source, decimals=6, clock=ManualClock(NOW))
        with suppress(PriceUnavailable):
            assert (await cache.price_list()).request > 0
        try:
            return await source.read(NOW)
        finally:
            await source.aclose()

    return asyncio.run(run())


@pytest.mark.storm
@settings(max_examples=200, deadline=None, derandomize=True)
@given(seed=seeds)
def test_a_spoiled_answer_of_a_feed_is_a_price_or_a_doubt(seed: int) -> None:
    assert isinstance(feed(spoil(HERMES, seed)), Quote | Doubt)


@pytest.mark.parametrize(
    "figure",
    [
        *("sNaN", "-sNaN", "NaN", "Infinity", "-Infinity", "-0", "1e-999999", "1e999999", "0x1"),
        *("9" * 200_000, "1" + "0" * 64, "\u0661", "1_000", " 1 ", "", "1e", "\\ud800"),
    ],
    ids=lambda figure: figure[:12],
)
def test_an_odd_figure_of_a_feed_is_a_doubt_or_below_1000_usd(figure: str) -> None:
    found = feed(HERMES.replace(b"2000000", figure.encode()))

    assert isinstance(found, Doubt) or 0 < found.usd < 1_000


@pytest.mark.parametrize("ruin", RUINED.values(), ids=RUINED)
def test_an_unreadable_answer_of_a_feed_is_a_doubt(ruin: Callable[[bytes], bytes]) -> None:
    assert feed(ruin(HERMES)) is Doubt.NO_ANSWER
