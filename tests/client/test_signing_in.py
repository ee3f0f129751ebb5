"""The client signs in with a wallet, and checks receipts, at a service that sells."""

import json
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Generator
from typing import Any

import httpx
import msgspec
import pytest
from solders.keypair import Keypair
from typing_extensions import override

from mintscope_client import AsyncClient, CreditBudget
from mintscope_client.auth import PaymentAuth
from mintscope_client.calls.conversation import PayingAuth
from mintscope_client.endpoints.receipts import DidDocument
from mintscope_client.errors import NoCreditsError, OverBudgetError
from mintscope_client.signatures.receipts import ForgedReceipt, check_receipt
from mintscope_client.signatures.sign_in import HEADER, WalletSignIn
from mintscope_client.wallet import WillNotPay
from support.fakes import reports
from support.fakes.reports import TRACKED
from support.scenes.payments.payment_build import payer_wallet
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import ORIGIN, SellingApi, opened
from support.scenes.whole_report import whole_report


@pytest.fixture(autouse=True)
def full_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "REPORT", whole_report())


class Way(httpx.AsyncBaseTransport):
    """A transport to the shop that records requests and loses the answers numbered in *lost*.

    throttled    the number of the request that a proxy answers with 429
    """

    def __init__(self, shop: SellingApi, *lost: int, throttled: int | None = None) -> None:
        self._shop = httpx.ASGITransport(app=shop.service.app)
        self._lost = lost
        self._throttled = throttled
        self.sent: list[httpx.Request] = []
        self.signatures: list[str | None] = []

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.sent.append(request)
        self.signatures.append(request.headers.get(HEADER))
        if len(self.sent) == self._throttled:
            return httpx.Response(429)
        answer = await self._shop.handle_async_request(request)
        if len(self.sent) in self._lost:
            await answer.aread()
            raise httpx.ReadError("the connection broke", request=request)
        return answer


def payer(world: World) -> PaymentAuth:
    return PaymentAuth(payer_wallet(world.terms, world.buyer), rpc_url="http://chain/")


class Buyer:
    """Opens clients of one wallet."""

    def __init__(self, shop: SellingApi, world: World) -> None:
        self.shop, self.world = shop, world

    def client(
        self, *lost: int, throttled: int | None = None, **options: Any
    ) -> tuple[AsyncClient, Way]:
        way = Way(self.shop, *lost, throttled=throttled)
        options.setdefault("payer", WalletSignIn(self.world.buyer))
        return AsyncClient(ORIGIN, transport=way, patience_s=5, **options), way


@pytest.fixture
async def buyer(world: World) -> AsyncIterator[Buyer]:
    async with opened(world) as shop:
        await world.chains[-1].refresh_offer()
        yield Buyer(shop, world)


async def test_a_wallet_signs_in_to_spend_credits_that_it_has_bought(
    buyer: Buyer, world: World
) -> None:
    await buyer.shop.buy()
    client, way = buyer.client(budget=CreditBudget(credits_in_all=4))
    async with client:
        report = await client.token(TRACKED)
        batch = await client.batch([TRACKED])
        swaps = await client.swaps(TRACKED).first()
        answer = await client.with_raw_response.token(TRACKED)
        spent = client.budget.spent
        with pytest.raises(OverBudgetError):
            await client.batch([TRACKED, TRACKED])

    assert report.token == TRACKED
    assert batch.delivered == 1
    assert swaps.swaps == []  # an empty page is free
    assert (answer.credits_left, spent) == (7, 3)
    # Each call is first sent without a signature, to get a challenge.
    assert [each is not None for each in way.signatures] == [False, True] * 4
    assert world.received() == 25_000


async def test_a_lost_answer_takes_no_second_credit(buyer: Buyer) -> None:
    await buyer.shop.buy()
    client, way = buyer.client(2)
    async with client:
        answer = await client.with_raw_response.token(TRACKED)

    _, first, again = way.signatures
    assert answer.data.token == TRACKED
    assert (answer.credits_left, first) == (9, again)


async def test_a_lost_answer_and_a_429_take_no_second_credit(buyer: Buyer) -> None:
    await buyer.shop.buy()
    client, way = buyer.client(2, throttled=3)
    async with client:
        answer = await client.with_raw_response.token(TRACKED)

    _, first, throttled, again = way.signatures
    assert answer.data.token == TRACKED
    assert (answer.credits_left, first, first) == (9, throttled, again)


async def test_a_wallet_without_credits_pays_if_payments_are_allowed(
    buyer: Buyer, world: World
) -> None:
    alone, _ = buyer.client()
    async with alone:
        with pytest.raises(NoCreditsError):
            await alone.token(TRACKED)
    both, _ = buyer.client(payer=WalletSignIn(world.buyer, otherwise=payer(world)))
    async with both:
        paid = await both.with_raw_response.token(TRACKED)
        bought = await both.buy_credits(10)
        signed = await both.with_raw_response.token(TRACKED)
        spent = both.budget.spent

    assert paid.receipt is not None
    assert spent == 1  # the credit of the signature: the payment cost no credit
    assert bought.credits == 10
    assert (signed.receipt, signed.credits_left) == (None, 9)
    assert world.received() == 2_500 + 25_000


class Held(PayingAuth):
    """A client that has an unfinished payment, of unknown outcome, for every request."""

    @override
    def holds(self, _key: str) -> bool:
        return True

    @override
    def adopt(self, _method: str, _url: httpx.URL) -> str | None:
        return "a-key-of-an-earlier-process"

    @override
    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["paid"] = "yes"
        yield request


async def test_a_pending_payment_is_completed_without_spending_credits(
    buyer: Buyer, world: World
) -> None:
    await buyer.shop.buy()
    auth = WalletSignIn(world.buyer, otherwise=Held())
    request = httpx.Request("GET", f"{ORIGIN}/v1/token/{TRACKED}")
    way = Way(buyer.shop)
    async with httpx.AsyncClient(transport=way) as http:
        await http.send(request, auth=auth)

    assert [each.headers.get("paid") for each in way.sent] == ["yes"]
    assert way.signatures == [None]
    assert auth.adopt("GET", request.url) == "a-key-of-an-earlier-process"
    assert not WalletSignIn(world.buyer).holds("any")


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("shop.example", "evil.example"),
        (f"https://shop.example/v1/token/{TRACKED}", "https://shop.example/v1/stream"),
        ('"version":"1"', '"version":"2"'),
        ("Spend credits", "Spend\\nURI: https://evil.example"),
        ('"nonce":"', '"nonce":"\\u202e'),
        ("solana:", "eip155:"),
        ("ed25519", "eip191"),
    ],
)
async def test_only_a_challenge_for_the_call_is_signed(
    buyer: Buyer, world: World, was: str, becomes: str
) -> None:
    """With a signature for another service, a malicious service could spend credits there."""

    class Evil(Way):
        @override
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            answer = await super().handle_async_request(request)
            reported = json.dumps(json.loads(b64decode(answer.headers["payment-required"])),
                              separators=(",", ":"))  # fmt: skip
            assert was in reported
            forged = b64encode(reported.replace(was, becomes).encode()).decode()
            return httpx.Response(402, headers={"payment-required": forged})

    way = Evil(buyer.shop)
    async with AsyncClient(ORIGIN, transport=way, payer=WalletSignIn(world.buyer)) as client:
        with pytest.raises(WillNotPay):
            await client.token(TRACKED)

    assert way.signatures == [None]
    assert client.budget.spent == 0


async def paid(buyer: Buyer) -> tuple[str, DidDocument]:
    """Return the receipt of a report that was paid for, and the keys of the service."""
    client, _ = buyer.client(payer=payer(buyer.world))
    async with client:
        answer = await client.with_raw_response.token(TRACKED)
        keys = await client.receipt_keys()
    assert answer.receipt is not None
    return answer.receipt, keys


async def test_a_receipt_names_the_purchase_the_payer_and_the_time(
    buyer: Buyer, world: World
) -> None:
    receipt, keys = await paid(buyer)
    claims = check_receipt(receipt, keys)

    assert claims.resource_url == f"{ORIGIN}/v1/token/{TRACKED}"
    assert claims.payer == str(world.buyer.pubkey())
    assert claims.issued_at == world.clock.now() // 1000
    assert claims.transaction


def changed(part: str, **changes: Any) -> str:
    """Return *part*, a part of a JWS, with *changes* to its fields."""
    content = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4))) | changes
    return urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


async def test_a_forged_receipt_is_refused(buyer: Buyer) -> None:
    receipt, keys = await paid(buyer)
    head, body, signature = receipt.split(".")
    (method, *_) = keys.verification_method
    evil = Keypair()
    own = b64encode(bytes(evil.pubkey()), altchars=b"-_").decode().rstrip("=")
    signed = bytes(evil.sign_message(f"{head}.{body}".encode()))
    by_another = b64encode(signed, altchars=b"-_").decode().rstrip("=")
    forged = [
        "",
        "a.b.c",
        f"{head}.{body}",
        f"{head}.{body}.{signature[:-4]}",
        f"{head}.{body}.{by_another}",
        f"{changed(head, alg='none')}.{body}.{signature}",
        f"{changed(head, kid='did:web:shop.example#x')}.{body}.{signature}",
        f"{head}.{changed(body, payer=str(evil.pubkey()))}.{signature}",
        f"{head}.{changed(body, resourceUrl='https://evil.example/')}.{signature}",
        f"{head}.{changed(body, resourceUrl='https://[::1')}.{signature}",
        f"{head}.{changed(body, resourceUrl='')}.{signature}",
    ]
    for each in forged:
        with pytest.raises(ForgedReceipt):
            check_receipt(each, keys)
    other = msgspec.structs.replace(
        keys,
        verification_method=[
            msgspec.structs.replace(
                method, public_key_jwk=msgspec.structs.replace(method.public_key_jwk, x=own)
            )
        ],
    )
    elsewhere = msgspec.structs.replace(keys, id="did:web:evil.example")
    retired = msgspec.structs.replace(keys, assertion_method=[])
    for document in (other, elsewhere, retired):
        with pytest.raises(ForgedReceipt):
            check_receipt(receipt, document)
