"""The buyer of mintscope and the official client of x402 at a shop, with and without faults."""

import asyncio
import json
from base64 import b64decode
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from typing_extensions import override
from x402 import x402Client
from x402.client_base import SpendControlAsset
from x402.http.clients.httpx import x402HttpxClient
from x402.mechanisms.svm.exact.register import register_exact_svm_client
from x402.mechanisms.svm.signers import KeypairSigner

from mintscope.kit.credentials import Credential, CredentialKind, hint, is_well_formed
from mintscope.payments.protocol.headers import PAYMENT_SIGNATURE
from mintscope_client.auth import CreditAuth, PaymentAuth
from mintscope_client.buyer import Buyer
from mintscope_client.calls.conversation import IDEMPOTENCY_KEY
from mintscope_client.errors import PendingError, RefusedError, UnreadableError
from mintscope_client.wallet import WillNotPay
from support.processes.listening import listening
from support.scenes.payments.payment_build import payer_wallet
from support.scenes.payments.payment_shop import Shop
from support.scenes.payments.payment_world import EXPIRY_SLOTS, World

TOKEN = "/v1/token/So11111111111111111111111111111111111111112"


class Street(httpx.AsyncBaseTransport):
    """A transport to a shop and to a chain; *spoil* may change or lose answers of the shop."""

    def __init__(self, world: World, shop: Shop) -> None:
        self._shop = httpx.ASGITransport(app=shop.app)
        self._chain = world.transport
        self.seen: list[httpx.Request] = []
        self.spoil: Callable[[httpx.Request, httpx.Response], httpx.Response] = lambda _, answer: (
            answer
        )

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.host == "chain":
            return await self._chain.handle_async_request(request)
        self.seen.append(request)
        return self.spoil(request, await self._shop.handle_async_request(request))


class Visit:
    """A buyer at a shop."""

    def __init__(self, world: World, *, patience_s: float = 0.4, **wallet_changes: Any) -> None:
        self.world = world
        self.wallet = payer_wallet(world.terms, world.buyer, **wallet_changes)
        self.auth = PaymentAuth(self.wallet, rpc_url="http://chain/")
        self.street = Street(world, Shop(world.facilitator(patience_s=patience_s)))
        self.http = httpx.AsyncClient(transport=self.street, base_url="https://shop.example")
        self.buyer = Buyer(self.http, self.auth, clock=world.clock, sleep=self.wait)

    async def wait(self, seconds: float) -> None:
        self.world.slots(int(seconds / 0.4) + 1)


async def test_the_buyer_buys_credits_and_reports(world: World) -> None:
    visit = Visit(world)
    bought = await visit.buyer.buy_credits(10)
    report = await visit.buyer.request(TOKEN.rsplit("/", 1)[1])

    assert is_well_formed(CredentialKind.CREDIT_TOKEN, bought.token)
    assert (bought.credits, bought.price_paid) == (10, 22_500)
    assert report == {"price": 1}
    assert world.ledger() == {hint(Credential(bought.token)): 10}
    assert visit.wallet.limit.spent == world.received() == 25_000


async def test_an_unpaid_purchase_without_a_credit_token_is_unreadable(world: World) -> None:
    data = {"credits": 10, "pricePaid": 0, "userId": 7}
    gift = httpx.MockTransport(lambda _: httpx.Response(201, json={"data": data}))
    async with httpx.AsyncClient(transport=gift, base_url="https://shop.example") as http:
        buyer = Buyer(http, Visit(world).auth)
        with pytest.raises(UnreadableError, match="201: expected a credit token"):
            await buyer.buy_credits(10)


async def test_a_purchase_whose_answer_is_lost_is_paid_once(world: World) -> None:
    visit = Visit(world)
    lost = 0

    def lose(request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        nonlocal lost
        if PAYMENT_SIGNATURE in request.headers and lost < 3:
            lost += 1
            raise httpx.ReadError("the connection broke", request=request)
        return answer

    visit.street.spoil = lose
    bought = await visit.buyer.buy_credits(10)

    assert lost == 3
    assert world.ledger() == {hint(Credential(bought.token)): 10}
    assert world.received() == visit.wallet.limit.spent == 22_500
    assert len({request.headers[IDEMPOTENCY_KEY] for request in visit.street.seen}) == 1


async def test_a_buyer_waits_for_a_slow_chain(world: World) -> None:
    visit = Visit(world, patience_s=0.02)
    world.go_wrong(landing={"kind": "late", "ms": 8_000})
    bought = await visit.buyer.buy_credits(10)

    assert world.ledger() == {hint(Credential(bought.token)): 10}
    assert world.received() == 22_500


async def test_a_buyer_waits_for_a_missing_payment_until_it_cannot_land(world: World) -> None:
    visit = Visit(world, patience_s=0.01)
    world.go_wrong(landing={"kind": "never"})
    with pytest.raises(RefusedError, match="402 PAYMENT_FAILED: transaction_expired"):
        await visit.buyer.buy_credits(10)

    assert len({each.headers.get(PAYMENT_SIGNATURE) for each in visit.street.seen}) == 1
    assert visit.wallet.limit.spent == 22_500


async def test_an_unknown_outcome_is_reported_as_pending(world: World) -> None:
    visit = Visit(world, patience_s=0.01)
    world.go_wrong(calls={"getSignatureStatuses": {"kind": "http"}})
    with pytest.raises(PendingError) as pending:
        await visit.buyer.buy_credits(10)

    assert visit.auth.holds(pending.value.key)


async def test_a_failed_payment_counts_as_spent_until_it_has_expired(world: World) -> None:
    visit = Visit(world, atoms_in_all=30_000)
    world.go_wrong(landing={"kind": "failed"})
    with pytest.raises(RefusedError, match="402 PAYMENT_FAILED: transaction_failed") as failed:
        await visit.buyer.buy_credits(10)
    assert failed.value.key is not None
    assert visit.wallet.limit.spent == 22_500
    world.go_wrong()
    world.slots(EXPIRY_SLOTS)

    await visit.buyer.buy_credits(10)
    assert visit.wallet.limit.spent == world.received() == 22_500


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"atoms_per_payment": 22_499}, "at most 22499 atoms a payment; was 22500"),
        ({"atoms_in_all": 22_499}, "at most 22499 atoms in all"),
        ({"pay_to": "someone"}, "there was none"),
        ({"asset": "another"}, "there was none"),
        ({"network": "solana:other"}, "there was none"),
    ],
)
async def test_the_wallet_pays_nothing_beyond_its_limits_or_on_other_terms(
    world: World, changes: dict[str, Any], message: str
) -> None:
    pinned = {key: changes[key] for key in ("pay_to", "asset", "network") if key in changes}
    if pinned:
        changes = {"pin": replace(payer_wallet(world.terms).pin, **pinned)}
    visit = Visit(world, **changes)
    with pytest.raises(WillNotPay, match=message):
        await visit.buyer.buy_credits(10)

    assert world.received() == visit.wallet.limit.spent == 0


async def test_the_limit_counts_all_payments(world: World) -> None:
    visit = Visit(world, atoms_in_all=5_000)
    for _ in range(2):
        await visit.buyer.request("x")
    with pytest.raises(WillNotPay, match="5000 are spent"):
        await visit.buyer.request("x")


async def test_a_demand_that_cannot_be_read_is_not_paid(world: World) -> None:
    for header in ("", "!", "e30=", "bnVsbA=="):
        with pytest.raises(WillNotPay):
            payer_wallet(world.terms).choose(header)


def test_a_mistyped_token_is_not_sent() -> None:
    with pytest.raises(ValueError, match="expected svc_credit_"):
        CreditAuth("svc_credit_" + "0" * 64)


@pytest.mark.usefixtures("official_client")
async def test_the_official_client_buys_a_report_and_two_bundles_at_once(world: World) -> None:
    shop = Shop(world.facilitator(patience_s=5))
    async with listening(shop.app) as shop_url, listening(world.node) as rpc_url:
        wallet = world.buyer

        async def visit(ask: Callable[[x402HttpxClient], Awaitable[Any]]) -> Any:
            client = x402Client()
            register_exact_svm_client(client, KeypairSigner(wallet), rpc_url=rpc_url)
            asset: SpendControlAsset = {
                "network": world.terms.network,
                "asset": world.terms.asset,
                "max_amount_per_payment": "1000000",
            }
            client.set_spend_controls({"allowed_assets": [asset]})
            async with x402HttpxClient(client, base_url=shop_url, timeout=20) as http:
                return await ask(http)

        async def both(http: x402HttpxClient) -> Any:
            return (
                await http.get(TOKEN),
                *await asyncio.gather(
                    *(http.post("/v1/credits/purchase?bundle=10") for _ in range(2))
                ),
            )

        # It asks its node synchronously, so it needs a thread and a loop of its own.
        answers = await asyncio.to_thread(lambda: asyncio.run(visit(both)))

    assert [answer.status_code for answer in answers] == [200, 201, 201]
    receipt = json.loads(b64decode(answers[0].headers["PAYMENT-RESPONSE"]))
    assert receipt["success"] is True
    assert receipt["payer"] == str(wallet.pubkey())
    tokens = [answer.json()["data"]["token"] for answer in answers[1:]]
    assert sorted(world.ledger()) == sorted(hint(token) for token in tokens)
    assert world.received() == 2_500 + 2 * 22_500
