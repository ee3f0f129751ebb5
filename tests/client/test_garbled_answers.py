"""Any answer of a seller or node leads to a purchase or to an error of the client."""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from mintscope.payments.protocol.headers import PAYMENT_REQUIRED, PAYMENT_SIGNATURE
from mintscope_client.async_client import REQUEST_S_MAX
from mintscope_client.auth import PaymentAuth
from mintscope_client.buyer import Buyer
from mintscope_client.errors import ClientError, PendingError, RefusedError, UnreachableError
from mintscope_client.journal import SUFFIX, Journal, JournalUnusable
from mintscope_client.keypair import UnusableKeypair, parse_keypair
from mintscope_client.transport import ANSWER_BYTES_MAX, BoundedTransport
from mintscope_client.wallet import WillNotPay
from support.scenes.payments.payment_build import payer_wallet
from support.scenes.payments.payment_shop import Shop
from support.scenes.payments.payment_world import World, world_at
from support.spoiling import RUINED, spoil

PRICE: Final = 22_500
OF_NODE: Final = [
    "getLatestBlockhash",
    "getBlockHeight",
    "getEpochInfo",
    "getSignaturesForAddress",
]
Change = Callable[[bytes], bytes]
seeds = st.integers(0, 2**48)


class Street(httpx.AsyncBaseTransport):
    """A transport to a fake node and a shop; `spoil` changes the shop's answers to payments.

    demand    changes the payment terms of each 402; None: they stay as they are
    times     the number of answers that `spoil` still changes
    payments  the payment headers that the shop received, each once
    """

    def __init__(self, world: World) -> None:
        self._shop = httpx.ASGITransport(app=Shop(world.facilitator()).app)
        self._chain = world.transport
        self.spoil: Callable[[httpx.Response], httpx.Response] | None = None
        self.demand: Change | None = None
        self.price: Callable[[], AsyncIterator[bytes]] | None = None
        self.times = 10**9
        self.payments = set[str]()

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.host == "chain":
            return await self._chain.handle_async_request(request)
        if PAYMENT_SIGNATURE in request.headers:
            self.payments.add(request.headers[PAYMENT_SIGNATURE])
        answer = await self._shop.handle_async_request(request)
        if self.price is not None:
            return httpx.Response(402, stream=Endless(self.price()))
        if PAYMENT_REQUIRED in answer.headers and self.demand is not None:
            text = self.demand(b64decode(answer.headers[PAYMENT_REQUIRED]))
            return httpx.Response(402, headers={PAYMENT_REQUIRED: b64encode(text).decode()})
        if PAYMENT_SIGNATURE in request.headers and self.spoil is not None and self.times:
            self.times -= 1
            await answer.aread()
            return self.spoil(answer)
        return answer


class Endless(httpx.AsyncByteStream):
    """A response body that consists of *chunks*."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks

    @override
    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._chunks


class Visit:
    """A buyer who may spend three prices, in payments of at most 30,000 atoms."""

    def __init__(
        self, world: World, journal: Journal | None = None, *, request_s_max: float = REQUEST_S_MAX
    ) -> None:
        self.world = world
        self.wallet = payer_wallet(world.terms, world.buyer, atoms_in_all=3 * PRICE)
        auth = PaymentAuth(self.wallet, rpc_url="http://chain/", journal=journal)
        self.street = Street(world)
        http = httpx.AsyncClient(
            transport=BoundedTransport(self.street), base_url="https://shop.example"
        )
        self.buyer = Buyer(
            http, auth, clock=world.clock, sleep=self.wait, request_s_max=request_s_max
        )

    async def wait(self, seconds: float) -> None:
        self.world.slots(int(min(seconds, 60) / 0.4) + 1)

    async def try_to_buy(self, key: str | None = None) -> str | None:
        """Buy credits, or continue the payment *key*; return the key of a pending payment."""
        try:
            await self.buyer.buy_credits(10, key=key)
        except (PendingError, RefusedError) as trouble:
            return trouble.key
        except (ClientError, WillNotPay):
            return None
        return None


def in_a_world(
    story: Callable[[Visit], Coroutine[Any, Any, None]], *, request_s_max: float = REQUEST_S_MAX
) -> None:
    async def run() -> None:
        with TemporaryDirectory() as folder:
            async with world_at(Path(folder)) as world:
                await story(Visit(world, request_s_max=request_s_max))

    asyncio.run(run())


@pytest.mark.parametrize("ruin", RUINED.values(), ids=RUINED)
def test_a_success_that_a_proxy_has_garbled_is_requested_again(ruin: Change) -> None:
    async def story(visit: Visit) -> None:
        visit.street.times = 2
        visit.street.spoil = lambda answer: httpx.Response(
            201, content=ruin(answer.content) or b"\n"
        )
        bought = await visit.buyer.buy_credits(10)

        assert bought.price_paid == PRICE
        assert visit.world.received() == PRICE

    in_a_world(story)


@pytest.mark.parametrize(
    "data",
    ["{}", '{"token": "svc_credit_1"}', '{"credits": 10}', '{"credits": 10, "pricePaid": 1}'],
)
def test_a_success_without_its_credits_is_requested_again(data: str) -> None:
    async def story(visit: Visit) -> None:
        visit.street.times = 2
        visit.street.spoil = lambda _: httpx.Response(201, text=f'{{"data": {data}}}')
        bought = await visit.buyer.buy_credits(10)

        assert bought.credits == 10
        assert visit.world.received() == PRICE

    in_a_world(story)


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_an_answer_of_any_length_is_read_up_to_a_bound(encoding: str) -> None:
    given_out = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal given_out
        while True:
            given_out += 2**20
            yield bytes(2**20)

    async def story(visit: Visit) -> None:
        visit.street.times = 2
        visit.street.spoil = lambda _: httpx.Response(
            201, headers={"Content-Encoding": encoding}, stream=Endless(endless())
        )
        bought = await visit.buyer.buy_credits(10)

        assert bought.credits == 10
        assert visit.world.received() == PRICE
        assert given_out <= 2 * (ANSWER_BYTES_MAX + 2**20)

    in_a_world(story)


async def dripping() -> AsyncIterator[bytes]:
    while True:
        yield b" "
        await asyncio.sleep(0.01)


def test_an_answer_that_comes_too_slowly_is_given_up_and_its_payment_sent_again() -> None:
    async def story(visit: Visit) -> None:
        visit.street.times = 1
        visit.street.spoil = lambda _: httpx.Response(201, stream=Endless(dripping()))
        bought = await visit.buyer.buy_credits(10)

        assert bought.credits == 10
        assert visit.world.received() == PRICE

    in_a_world(story, request_s_max=1.0)


def test_a_price_that_arrives_too_slowly_is_not_paid() -> None:
    async def story(visit: Visit) -> None:
        visit.street.price = dripping
        with pytest.raises(UnreachableError, match="the whole answer within"):
            await visit.buyer.buy_credits(10)

        assert visit.world.received() == 0

    in_a_world(story, request_s_max=0.2)


@pytest.mark.storm
@settings(max_examples=20, deadline=None, derandomize=True)
@given(seed=seeds, status=st.sampled_from([200, 201, 400, 402, 404, 409, 429, 500, 503]))
def test_a_purchase_with_a_changed_answer_of_the_seller_is_paid_once(
    seed: int, status: int
) -> None:
    async def story(visit: Visit) -> None:
        visit.street.spoil = lambda answer: httpx.Response(
            status, content=spoil(answer.content, seed)
        )
        key = await visit.try_to_buy()
        if key is not None:
            await visit.try_to_buy(key)
        assert len(visit.street.payments) == 1
        assert visit.world.received() == PRICE

    in_a_world(story)


@pytest.mark.parametrize(
    "text",
    ["9" * 400, "Mon, 99 Foo 99999 99:99:99 +9999", "Mon, 01 Jan 0001 00:00:00 +2359", "\xb2", ""],
)
def test_a_payment_is_continued_and_not_repeated_after_any_retry_after(text: str) -> None:
    async def story(visit: Visit) -> None:
        headers = [(b"Retry-After", text.encode("latin-1"))]
        visit.street.spoil = lambda _: httpx.Response(503, headers=headers)
        key = await visit.try_to_buy()
        assert key is not None
        assert visit.world.received() == PRICE
        visit.street.spoil = None
        bought = await visit.buyer.buy_credits(10, key=key)

        assert bought.credits == 10
        assert len(visit.street.payments) == 1
        assert visit.world.received() == visit.wallet.limit.spent == PRICE

    in_a_world(story)


@pytest.mark.storm
@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=seeds)
def test_a_changed_demand_is_paid_within_the_limit_or_declined(seed: int) -> None:
    async def story(visit: Visit) -> None:
        visit.street.demand = partial(spoil, seed=seed)
        await visit.try_to_buy()
        assert visit.world.received() <= 30_000

    in_a_world(story)


@pytest.mark.parametrize("digits", [20, 5_000])
def test_an_amount_of_many_digits_is_declined(digits: int) -> None:
    async def story(visit: Visit) -> None:
        visit.street.demand = lambda good: good.replace(b'"22500"', b'"%b"' % (b"9" * digits))
        with pytest.raises(WillNotPay, match="amount"):
            await visit.buyer.buy_credits(10)

    in_a_world(story)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    ruined=st.dictionaries(st.sampled_from(OF_NODE), st.sampled_from(sorted(RUINED)), min_size=1)
)
def test_unreadable_answers_of_a_node_cause_no_second_payment(ruined: Mapping[str, str]) -> None:
    async def story(visit: Visit) -> None:
        visit.world.spoil = {method: RUINED[name] for method, name in ruined.items()}
        visit.street.times = 1
        visit.street.spoil = lambda _: httpx.Response(402)
        await visit.try_to_buy(await visit.try_to_buy())
        is_signed = "getLatestBlockhash" not in ruined
        assert len(visit.street.payments) == is_signed
        assert visit.wallet.limit.spent == PRICE * is_signed
        assert visit.world.received() <= visit.wallet.limit.spent

    in_a_world(story)


@pytest.mark.parametrize("name", ["", "[" * 44, "z" * 44, "\u00e9"])
def test_a_payment_with_an_invalid_blockhash_is_not_signed(name: str) -> None:
    async def story(visit: Visit) -> None:
        blockhash = str(visit.world.blockhash()).encode()
        visit.world.spoil = {
            "getLatestBlockhash": lambda good: good.replace(blockhash, name.encode())
        }
        with pytest.raises(WillNotPay, match="a blockhash in base58"):
            await visit.buyer.buy_credits(10)

    in_a_world(story)


@pytest.mark.storm
@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    spoilt=st.fixed_dictionaries({"getSignaturesForAddress": seeds})
    | st.dictionaries(st.sampled_from(OF_NODE), seeds, min_size=1)
)
def test_answers_of_a_node_cause_a_second_payment_only_if_they_have_wrong_heights(
    spoilt: Mapping[str, int],
) -> None:
    """A node with wrong block heights can hide a payment; then each attempt pays at most once."""

    async def story(visit: Visit) -> None:
        visit.world.spoil = {method: partial(spoil, seed=seed) for method, seed in spoilt.items()}
        visit.street.times = 1
        visit.street.spoil = lambda _: httpx.Response(402)
        await visit.try_to_buy(await visit.try_to_buy())
        payments_max = 1 if spoilt.keys() <= {"getSignaturesForAddress"} else 2
        assert len(visit.street.payments) <= payments_max
        assert visit.world.received() <= payments_max * PRICE

    in_a_world(story)


@pytest.mark.parametrize(
    "text", [b"\xff", b"{}", b"[" * 100_000, b'{"key": "\xff"}', b"", b"null", b"\0"], ids=len
)
def test_an_unreadable_journal_raises_journal_unusable(tmp_path: Path, text: bytes) -> None:
    (tmp_path / f"a{SUFFIX}").write_bytes(text)

    with pytest.raises(JournalUnusable, match="expected a payment in"):
        Journal(tmp_path)


@given(st.text() | st.binary().map(lambda some: str(list(some))))
def test_any_text_is_a_keypair_or_raises_unusable_keypair(text: str) -> None:
    try:
        parse_keypair(text)
    except UnusableKeypair:
        return
