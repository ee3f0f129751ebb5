"""A payment on chain that a restored store lacks belongs to its buyer, and to no one else."""

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Final

import httpx
import pytest
from solders.keypair import Keypair

from mintscope.api.x402 import report_offers
from mintscope.kit.audit import SERVICE
from mintscope.kit.limits import MemoryLimits
from mintscope.kit.primitives import Mint, Signature
from mintscope.payments.audit import recognise
from mintscope.payments.payment import Payment
from mintscope.payments.protocol.envelope import Terms
from mintscope.payments.trials import Trials
from mintscope.solana.blocks import USDC
from support.fakes.payment_memory import MemoryPaymentStore
from support.fakes.reports import TRACKED, UNTRACKED
from support.scenes.payments.payment_world import SECRETS, World, on_older_chain
from support.scenes.payments.restored import back_up, paid_with_key, restored
from support.scenes.payments.selling_api import (
    KEY,
    OTHER_KEY,
    PURCHASE,
    SellingApi,
    decoded,
    opened,
    settlement,
)
from support.scenes.service import bearer, refusal
from support.scenes.stores import money_in

REPORT: Final = f"/v1/token/{TRACKED}"
LONG_S: Final = 600  # the quote has expired, and so has the blockhash
SOLD: Final = [("POST", PURCHASE), ("GET", REPORT)]
HASTY_S: Final = 0.02


def rows(world: World) -> int:
    return int(world.sql("SELECT count(*) FROM payment"))


async def sold_and_lost(
    world: World, method: str = "POST", path: str = PURCHASE, key: str = KEY
) -> tuple[str, httpx.Response, Path]:
    """Back up the store, then sell to a client with *key*; return payment, answer and backup."""
    async with opened(world) as shop:
        copy = back_up(world)
        payment = await paid_with_key(shop, method, path, key)
        answer = await shop.send(method, path, payment, key=key)
        assert answer.is_success
    return payment, answer, copy


@pytest.mark.parametrize(("method", "path"), SOLD)
@pytest.mark.parametrize("after_s", [30, LONG_S])
async def test_the_idempotency_key_redeems_a_payment_that_the_store_lost(
    world: World, method: str, path: str, after_s: int
) -> None:
    payment, first, copy = await sold_and_lost(world, method, path)
    sent_count = world.calls.count("sendTransaction")  # twice if it was not seen at once

    async with restored(world, copy, after_s=after_s) as shop:
        answers = [await shop.send(method, path, payment, key=KEY) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [first.status_code] * 2
        assert answers[0].json()["data"] == answers[1].json()["data"]
        for answer in answers:
            assert settlement(answer) == settlement(first)
    assert rows(world) == 1
    assert world.calls.count("sendTransaction") == sent_count
    assert await world.audit(full=True) == []


@pytest.mark.parametrize("page", ["candles?tf=m5", "candles?tf=d1", "indicators?tf=h1"])
async def test_the_newest_page_of_a_series_is_recognised_by_its_transaction(
    world: World, page: str
) -> None:
    path = f"{REPORT}/{page}"
    async with opened(world) as shop:
        demand = await shop.demand("GET", path)
        wire = shop.transaction(demand)
    found = recognise(
        wire,
        report_offers([Mint(UNTRACKED), Mint(TRACKED)]),
        terms=world.terms,
        quote_key=SECRETS.quote,
    )

    assert found is not None
    assert f"https://shop.example{found.offer.resource}" == demand["resource"]["url"]
    assert found.offer.credit_count == 1


async def test_the_same_credit_token_is_issued_again_for_a_lost_bundle(world: World) -> None:
    payment, first, copy = await sold_and_lost(world)
    token = first.json()["data"]["token"]

    async with restored(world, copy) as shop:
        assert refusal(await shop.client.get(REPORT, headers=bearer(token))) == (
            401,
            "INVALID_TOKEN",
        )
        await shop.send("POST", PURCHASE, payment, key=KEY)
        used = await shop.client.get(REPORT, headers=bearer(token))
        assert used.headers["x-credits-remaining"] == "9"


@pytest.mark.parametrize(("method", "path"), SOLD)
async def test_the_one_time_key_of_a_pending_answer_is_valid_after_a_restore(
    world: World, method: str, path: str
) -> None:
    async with opened(world, patience_s=HASTY_S) as hasty:
        copy = back_up(world)
        world.go_wrong(landing={"kind": "late", "ms": 15_000})
        payment = await hasty.paid(method, path)
        pending = await hasty.send(method, path, payment)
    assert refusal(pending) == (503, "PAYMENT_PENDING")
    key = pending.headers["idempotency-key"]

    async with restored(world, copy, after_s=LONG_S) as shop:
        assert (await shop.send(method, path, payment, key=key)).is_success
    assert rows(world) == 1


@pytest.mark.parametrize(("method", "path"), SOLD)
@pytest.mark.parametrize("key", [None, OTHER_KEY, "0" * 80, "f" * 48])
async def test_a_copied_payment_header_without_its_key_is_409(
    world: World, method: str, path: str, key: str | None
) -> None:
    payment, _, copy = await sold_and_lost(world, method, path)

    async with restored(world, copy) as shop:
        stolen = await shop.send(method, path, payment, key=key)
        assert refusal(stolen) == (409, "PAYMENT_ALREADY_USED")
        assert "othing was sent" not in stolen.text
        assert rows(world) == 0
        assert (await shop.send(method, path, payment, key=KEY)).is_success


async def test_a_one_time_key_is_for_one_payment(world: World) -> None:
    async with opened(world, patience_s=HASTY_S) as hasty:
        copy = back_up(world)
        world.go_wrong(landing={"kind": "late", "ms": 15_000})
        payments = [await hasty.paid("POST", PURCHASE) for _ in range(2)]
        answers = [await hasty.send("POST", PURCHASE, payment) for payment in payments]
    keys = [answer.headers["idempotency-key"] for answer in answers]

    async with restored(world, copy, after_s=LONG_S) as shop:
        crossed = await shop.send("POST", PURCHASE, payments[0], key=keys[1])
        assert refusal(crossed) == (409, "PAYMENT_ALREADY_USED")
        assert (await shop.send("POST", PURCHASE, payments[0], key=keys[0])).is_success
        assert (await shop.send("POST", PURCHASE, payments[1], key=keys[1])).is_success


async def test_a_payment_with_a_copied_memo_is_refused(world: World) -> None:
    """A memo is public once it is paid, so another wallet can put it into its own payment."""
    async with opened(world) as shop:
        copy = back_up(world)
        asked = await shop.client.post(PURCHASE, headers={"Idempotency-Key": KEY})
        demand = decoded(asked, "payment-required")
        await shop.send("POST", PURCHASE, shop.pay(demand), key=KEY)
        copied = shop.pay(demand, world.fund("stranger"))
    received = world.received()

    async with restored(world, copy, after_s=LONG_S) as shop:
        for key in (OTHER_KEY, KEY):
            refused = await shop.send("POST", PURCHASE, copied, key=key)
            assert refusal(refused) == (402, "PAYMENT_FAILED")
            assert decoded(refused, "payment-response")["errorReason"] == "quote_expired"
    assert rows(world) == 0
    assert world.received() == received


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/credits/purchase?bundle=500"), ("GET", REPORT)]
)
async def test_a_lost_payment_buys_only_the_resource_of_its_quote(
    world: World, method: str, path: str
) -> None:
    payment, _, copy = await sold_and_lost(world)

    async with restored(world, copy) as shop:
        elsewhere = await shop.send(method, path, payment, key=KEY)
        assert refusal(elsewhere) == (402, "PAYMENT_FAILED")
        assert "sent to the chain" in elsewhere.text
    assert rows(world) == 0


async def test_a_lost_payment_is_accepted_at_its_quoted_price(world: World) -> None:
    payment, _, copy = await sold_and_lost(world)

    async with restored(world, copy, after_s=LONG_S) as shop:
        shop.price.usd = None
        assert (await shop.send("POST", PURCHASE, payment, key=KEY)).status_code == 201


async def test_a_payment_that_failed_on_chain_is_reported_as_failed(world: World) -> None:
    async with opened(world) as shop:
        copy = back_up(world)
        world.go_wrong(landing={"kind": "failed"})
        payment = await paid_with_key(shop, "POST", PURCHASE, KEY)
        await shop.send("POST", PURCHASE, payment, key=KEY)
    world.go_wrong()

    async with restored(world, copy, after_s=LONG_S) as shop:
        failed = await shop.send("POST", PURCHASE, payment, key=KEY)
        assert refusal(failed) == (402, "PAYMENT_FAILED")
        result = decoded(failed, "payment-response")
        assert (result["errorReason"], bool(result["transaction"])) == ("transaction_failed", True)
    assert rows(world) == 0


@on_older_chain
async def test_a_lost_payment_is_not_issued_before_it_is_final(world: World) -> None:
    async with opened(world) as shop:
        copy = back_up(world)
        world.go_wrong(landing={"kind": "vanish", "ms": 4_000})
        payment = await paid_with_key(shop, "POST", PURCHASE, KEY)
        assert (await shop.send("POST", PURCHASE, payment, key=KEY)).is_success

    async with restored(world, copy, after_s=0) as shop:
        world.go_wrong()
        early = await shop.send("POST", PURCHASE, payment, key=KEY)
        assert early.status_code == 503
        assert "Do not pay again" in early.json()["error"]["message"]
        assert rows(world) == 0
        world.seconds(LONG_S)
        late = await shop.send("POST", PURCHASE, payment, key=KEY)
        assert refusal(late) == (402, "PAYMENT_FAILED")
    assert rows(world) == 0


@pytest.mark.parametrize("after_s", [30, LONG_S])
async def test_a_lost_payment_is_503_while_the_chain_does_not_answer(
    world: World, after_s: int
) -> None:
    payment, _, copy = await sold_and_lost(world)

    async with restored(world, copy, after_s=after_s) as shop:
        world.go_wrong(calls={"*": {"kind": "http"}})
        unknown = await shop.send("POST", PURCHASE, payment, key=KEY)
        assert refusal(unknown) == (503, "PAYMENT_UNAVAILABLE")
        assert "send the same payment again" in unknown.json()["error"]["message"]
        assert "not sent" not in unknown.text
        world.go_wrong()
        assert (await shop.send("POST", PURCHASE, payment, key=KEY)).is_success


async def test_a_lost_payment_is_accepted_after_the_network_fee_has_risen(world: World) -> None:
    payment, _, copy = await sold_and_lost(world, "GET", REPORT)

    async with restored(world, copy, after_s=30) as shop:
        shop.sol.usd = Decimal(10**9)
        world.seconds(LONG_S)
        assert (await shop.send("GET", REPORT, payment, key=KEY)).is_success


async def test_three_processes_adopt_a_lost_payment_once(world: World) -> None:
    payment, first, copy = await sold_and_lost(world)

    async with (
        restored(world, copy, after_s=LONG_S) as shop,
        opened(world) as other,
        opened(world) as third,
    ):
        answers = await asyncio.gather(
            *(
                each.send("POST", PURCHASE, payment, key=KEY)
                for each in (shop, other, third)
                for _ in range(4)
            )
        )
    assert [answer.json()["data"] for answer in answers] == [first.json()["data"]] * 12
    assert rows(world) == 1
    assert list(world.ledger().values()) == [10]


async def test_a_lost_payment_is_accepted_while_sales_are_closed(world: World) -> None:
    payment, _, copy = await sold_and_lost(world)

    async with restored(world, copy) as shop:
        world.sql("INSERT INTO sales_stop VALUES (1, 0, 'a test')")
        assert (await shop.send("POST", PURCHASE, payment, key=KEY)).status_code == 201


async def claimed(shop: SellingApi, purchase: str, wallet: Keypair) -> httpx.Response:
    """Get a credit token for the credits of *purchase* by a challenge that *wallet* signs."""
    claim = {"purchase": purchase, "wallet": str(wallet.pubkey())}
    asked = await shop.client.post("/v1/credits/rotate/challenge", json=claim)
    text = asked.json()["data"]["challenge"]
    signed = {"challenge": text, "signature": str(wallet.sign_message(text.encode()))}
    return await shop.client.post("/v1/credits/rotate", json=claim | signed)


def signature_of(answer: httpx.Response) -> str:
    return str(decoded(answer, "payment-response")["transaction"])


@pytest.mark.parametrize(("sold", "credit_count"), [(SOLD[0], 10), (SOLD[1], 1)])
async def test_the_wallet_that_paid_gets_its_credits_without_a_key(
    world: World, sold: tuple[str, str], credit_count: int
) -> None:
    """A lost payment for one report is worth one credit."""
    _, answer, copy = await sold_and_lost(world, *sold)

    async with restored(world, copy, after_s=LONG_S) as shop:
        moved = await claimed(shop, signature_of(answer), world.buyer)
        assert moved.status_code == 201, moved.text
        assert moved.json()["data"]["credits"] == credit_count
        token = moved.json()["data"]["token"]
        used = await shop.client.get(REPORT, headers=bearer(token))
        assert used.headers["x-credits-remaining"] == str(credit_count - 1)
    assert await world.audit(full=True) == []


async def test_the_wallet_of_a_stranger_gets_nothing(world: World) -> None:
    payment, answer, copy = await sold_and_lost(world)
    stranger = world.fund("stranger")

    async with restored(world, copy, after_s=LONG_S) as shop:
        refused = await claimed(shop, signature_of(answer), stranger)
        assert refusal(refused) == (401, "INVALID_PROOF")
        assert rows(world) == 0
        assert (await shop.send("POST", PURCHASE, payment, key=KEY)).is_success


@pytest.mark.parametrize("is_key_first", [True, False])
async def test_credits_are_issued_once_to_key_and_wallet_together(
    world: World, *, is_key_first: bool
) -> None:
    payment, answer, copy = await sold_and_lost(world)

    async with restored(world, copy, after_s=LONG_S) as shop:
        if is_key_first:
            await shop.send("POST", PURCHASE, payment, key=KEY)
        moved = await claimed(shop, signature_of(answer), world.buyer)
        assert moved.json()["data"]["credits"] == 10
        late = await shop.send("POST", PURCHASE, payment, key=KEY)
        assert refusal(late) == (409, "PAYMENT_ALREADY_USED")
    assert sum(world.ledger().values()) == 10
    assert await world.audit(full=True) == []


async def test_claims_of_invented_purchases_have_a_budget_of_calls_to_the_chain(
    world: World,
) -> None:
    stranger = world.fund("stranger")
    made_up = [str(stranger.sign_message(bytes([number]))) for number in range(4)]
    trials = Trials(MemoryLimits(world.clock), 2, buyers=MemoryPaymentStore())
    async with opened(world, trials=trials) as shop:
        answers = [refusal(await claimed(shop, each, stranger)) for each in made_up]
        assert answers[:2] == [(401, "INVALID_PROOF")] * 2
        assert answers[2:] == [(503, "PAYMENT_UNAVAILABLE")] * 2
        world.seconds(60)
        assert refusal(await claimed(shop, made_up[3], stranger)) == (401, "INVALID_PROOF")


async def test_a_claim_is_503_while_the_chain_does_not_answer(world: World) -> None:
    _, answer, copy = await sold_and_lost(world)

    async with restored(world, copy) as shop:
        world.go_wrong(calls={"*": {"kind": "http"}})
        unknown = await claimed(shop, signature_of(answer), world.buyer)
        assert refusal(unknown) == (503, "PAYMENT_UNAVAILABLE")
        world.go_wrong()
        assert (await claimed(shop, signature_of(answer), world.buyer)).status_code == 201


async def test_others_can_rotate_while_a_claim_waits_for_the_chain(world: World) -> None:
    _, answer, copy = await sold_and_lost(world)

    async with restored(world, copy) as shop:
        bought = await shop.buy(key=OTHER_KEY)
        world.go_wrong(calls={"getTransaction": {"kind": "hang"}})
        world.was_called["getTransaction"].clear()
        claiming = asyncio.create_task(claimed(shop, signature_of(answer), world.buyer))
        await world.until_called("getTransaction")
        rotated = await shop.client.post(
            "/v1/credits/rotate", headers=bearer(bought.json()["data"]["token"])
        )
        assert rotated.status_code == 201
        assert not claiming.done()
        claiming.cancel()


@pytest.mark.parametrize("is_still_taken", [True, False])
@pytest.mark.parametrize(("method", "path"), SOLD)
async def test_a_lost_payment_in_either_asset_is_recognised(
    world: World, method: str, path: str, *, is_still_taken: bool
) -> None:
    """If USDC is no longer accepted, the operator can still adopt a payment in USDC."""
    world.fund("buyer", usdc_atoms=10**9)
    sent: dict[str, str] = {}
    async with opened(world, also=[world.usdc_terms]) as shop:
        copy = back_up(world)
        asked = await shop.client.request(method, path, headers={"Idempotency-Key": KEY})
        demand = decoded(asked, "payment-required")
        for offer in demand["accepts"]:
            key = KEY if offer["asset"] == USDC else OTHER_KEY
            again = await shop.client.request(method, path, headers={"Idempotency-Key": key})
            offers = decoded(again, "payment-required")["accepts"]
            chosen = [each for each in offers if each["asset"] == offer["asset"]]
            sent[key] = shop.pay(demand | {"accepts": chosen})
            assert (await shop.send(method, path, sent[key], key=key)).is_success

    also = [world.usdc_terms] if is_still_taken else []
    async with restored(world, copy, also=also) as shop:
        assert await world.audit(full=True, is_usdc_taken=is_still_taken) == []
        async with money_in(world.path.parent, clock=world.clock) as money:
            found = {each.asset: each.bought for each in await money.books.orphans()}
        known = [world.terms.asset, USDC] if is_still_taken else [world.terms.asset]
        assert found == dict.fromkeys(known, path)
        assert (await shop.send(method, path, sent[OTHER_KEY], key=OTHER_KEY)).is_success
        in_usdc = await shop.send(method, path, sent[KEY], key=KEY)
        assert in_usdc.status_code == (
            402 if not is_still_taken else 201 if method == "POST" else 200
        )
        (paid,) = await signatures_in(world, world.usdc_terms)
        adopted = await world.adopter().adopt(paid, by=SERVICE)
        assert isinstance(adopted, Payment)
        assert adopted.asset == USDC
    assert world.calls.count("sendTransaction") == 2


async def signatures_in(world: World, terms: Terms) -> list[Signature]:
    """Return the successful transactions that touched the treasury of *terms*."""
    page = await world.chains[-1].arrivals(terms.asset, after=None, before=None)
    return list(page.succeeded)
