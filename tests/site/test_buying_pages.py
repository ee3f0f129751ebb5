"""Answers of /pricing and /buy: every outcome of a payment, as people and the script read it."""

import asyncio
import re
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from solders.keypair import Keypair
from solders.message import MessageV0, to_bytes_versioned
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from mintscope.api.discovery.operation import Operation
from mintscope.solana.blocks import USDC
from support.scenes.payments.shopfront import Shopfront, shopfront
from support.scenes.people.web_person import ALICE, MALLORY, Person, where, words
from support.scenes.service import credit_token
from support.scenes.website import Website

KEY: Final = "a-key-that-was-made-in-the-browser"
OTHER_KEY: Final = "another-key-of-another-browser"
PRICE: Final = 25_000
SECRET: Final = re.compile("svc_credit_[0-9a-f]{64}")
FOREIGN: Final = Keypair.from_seed(b"a wallet that was not connected.")


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shopfront]:
    async with shopfront(tmp_path, served=False) as shop:
        yield shop


@pytest.fixture
async def person(shop: Shopfront) -> AsyncIterator[Person]:
    async with Person(shop.site) as person:
        yield person


def state_of(response: httpx.Response) -> str:
    found = re.search(r'id="purchase"[^>]* data-state="([^"]*)"', response.text)
    assert found, words(response)
    return found[1]


async def propose(person: Person, wallet: Keypair, **fields: str) -> httpx.Response:
    sent = {"wallet": str(wallet.pubkey()), "key": KEY} | fields
    return await person.send("/buy/10/terms", sent)


async def unsigned(person: Person, wallet: Keypair) -> VersionedTransaction:
    response = await propose(person, wallet)
    assert state_of(response) == "approve"
    found = re.search(r'data-transaction="([^"]*)"', response.text)
    assert found
    return VersionedTransaction.from_bytes(b64decode(found[1]))


def signed(asked: VersionedTransaction, wallet: Keypair) -> str:
    ours = wallet.sign_message(to_bytes_versioned(asked.message))
    both = VersionedTransaction.populate(asked.message, [Signature.default(), ours])
    return b64encode(bytes(both)).decode()


async def pay(person: Person, transaction: str, **fields: str) -> httpx.Response:
    return await person.send("/buy/10", {"transaction": transaction, "key": KEY} | fields)


async def test_a_proposed_payment_is_settled_once_and_redelivered_to_its_key_holder(
    shop: Shopfront, person: Person
) -> None:
    wallet = shop.world.buyer
    asked = await unsigned(person, wallet)
    accounts = asked.message.account_keys
    assert accounts[0] == shop.world.vm.genesis.fee_payer.pubkey()
    assert accounts[1] == wallet.pubkey()
    assert not any(map(bytes(64).__ne__, map(bytes, asked.signatures)))

    payment = signed(asked, wallet)
    first = await pay(person, payment)
    assert (first.status_code, state_of(first)) == (200, "bought")
    token = SECRET.search(first.text)
    assert token
    again = await pay(person, payment)
    assert SECRET.findall(again.text) == SECRET.findall(first.text)
    stranger = await pay(person, payment, key=OTHER_KEY)
    assert (stranger.status_code, state_of(stranger)) == (409, "used")
    assert token[0] not in stranger.text
    assert shop.world.received() == PRICE
    assert shop.payments() == [("issued", PRICE)]
    assert shop.credits_issued() == 10
    assert await shop.world.audit() == []


async def test_a_payment_sent_four_times_at_once_is_settled_once(
    shop: Shopfront, person: Person
) -> None:
    payment = signed(await unsigned(person, shop.world.buyer), shop.world.buyer)
    answers = await asyncio.gather(*(pay(person, payment) for _ in range(4)))
    assert {state_of(each) for each in answers} <= {"bought", "waiting"}
    last = await pay(person, payment)
    assert {token for each in answers for token in SECRET.findall(each.text)} <= {
        *SECRET.findall(last.text)
    }
    assert shop.payments() == [("issued", PRICE)]
    assert (shop.world.received(), shop.credits_issued()) == (PRICE, 10)


def with_another_memo(asked: VersionedTransaction) -> VersionedTransaction:
    """Return *asked* with a memo that is not a quote, as a wallet might change it."""
    message = asked.message
    assert isinstance(message, MessageV0)
    spoiled = bytes(message).replace(bytes(message.instructions[3].data), b"\0" * 32)
    return VersionedTransaction.populate(MessageV0.from_bytes(spoiled), asked.signatures)


async def test_a_refusal_is_shown_in_words_and_nothing_is_paid(
    shop: Shopfront, person: Person
) -> None:
    wallet = shop.world.buyer
    asked = await unsigned(person, wallet)
    for payment, title in (
        (signed(asked, FOREIGN), "Another wallet has signed"),
        (signed(with_another_memo(asked), wallet), "Your wallet has changed the payment"),
        (b64encode(b"no transaction").decode(), "Your wallet has changed the payment"),
    ):
        response = await pay(person, payment)
        assert (response.status_code, state_of(response)) == (402, "refused")
        assert title in words(response)
        assert "Nothing was paid." in words(response)
    shop.world.seconds(125)
    late = await pay(person, signed(asked, wallet))
    assert (late.status_code, state_of(late)) == (402, "refused")
    assert "That took too long" in words(late)
    assert shop.world.received() == 0
    assert shop.payments() == []


async def test_a_payment_that_cannot_be_made_is_not_proposed(
    shop: Shopfront, person: Person
) -> None:
    world, genesis = shop.world, shop.world.vm.genesis
    poor = world.fund("poor", atoms=PRICE - 1)
    for wallet, title in (
        (poor, "This wallet has too little SCOPE"),
        (FOREIGN, "This wallet has too little SCOPE"),
        (genesis.treasury, "This wallet belongs to the seller"),
        (genesis.fee_payer, "This wallet belongs to the seller"),
    ):
        response = await propose(person, wallet)
        assert (response.status_code, state_of(response)) == (422, "again")
        assert title in words(response)
    assert "The payment needs 0.025 SCOPE" in words(await propose(person, poor))


async def test_payment_proposals_are_limited_by_the_trials_of_a_minute(tmp_path: Path) -> None:
    async with (
        shopfront(tmp_path, served=False, trials_max=2) as shop,
        Person(shop.site) as person,
    ):
        wallets = [shop.world.buyer, FOREIGN, shop.world.buyer]
        statuses = [(await propose(person, wallet)).status_code for wallet in wallets]
        assert statuses == [200, 422, 503]
        shop.world.seconds(60)
        assert (await propose(person, shop.world.buyer)).status_code == 200


async def test_an_obstacle_to_sales_is_reported_before_a_payment_is_signed(
    shop: Shopfront, person: Person
) -> None:
    async def expect(title: str) -> None:
        response = await propose(person, shop.world.buyer)
        assert (response.status_code, state_of(response)) == (503, "again")
        assert title in words(response)

    shop.is_paused = True
    await expect("Sales are paused")
    assert "Sales are paused" in words(await person.open("/buy/10"))
    shop.is_paused = False
    shop.world.go_wrong(calls={"getLatestBlockhash": {"kind": "http"}})
    await expect("The network does not answer")
    shop.world.go_wrong()
    shop.price.usd = None
    shop.world.seconds(80)  # the last price is used for less than 75 s
    await expect("There is no reliable price right now")
    page = await person.open("/buy/10")
    assert state_of(page) == "again"
    assert "There is no reliable price right now" in words(page)
    assert "$0.025" in words(page)
    assert "no price in SCOPE now" in words(await person.open("/pricing"))


async def test_credits_go_to_the_signed_in_account_and_are_hidden_from_others(
    shop: Shopfront, person: Person
) -> None:
    await person.sign_up(ALICE)
    asked = await unsigned(person, shop.world.buyer)
    payment = signed(asked, shop.world.buyer)
    async with Person(shop.site) as other:
        out = await pay(other, payment, into="account")
        assert (out.status_code, state_of(out)) == (403, "signed-out")
        assert shop.world.received() == 0
        first = await pay(person, payment, into="account")
        assert state_of(first) == "deposited"
        assert "10 credits are in your account" in words(first)
        assert state_of(await pay(person, payment, into="account")) == "deposited"
        await other.sign_up(MALLORY)
        theirs = await pay(other, payment, into="account")
        assert (theirs.status_code, state_of(theirs)) == (409, "used")
    assert shop.world.received() == PRICE
    assert shop.site.rows("SELECT balance FROM credit_account WHERE owner IS NOT NULL") == [(10,)]


async def test_a_credit_token_is_topped_up_once_and_only_its_holder_sees_the_balance(
    shop: Shopfront, person: Person
) -> None:
    token, other = credit_token(1), credit_token(2)
    for each in (token, other):
        await shop.site.ledger.issue(each, 3, "")
    payment = signed(await unsigned(person, shop.world.buyer), shop.world.buyer)

    async def top_up(shown: str) -> httpx.Response:
        sent = {"transaction": payment, "key": KEY, "into": "top-up"}
        return await person.send("/buy/10", sent, authorization=f"Bearer {shown}")

    for shown in ("", "svc_credit_unknown"):
        early = await top_up(shown)
        assert (early.status_code, state_of(early)) == (403, "not-shown")
    assert shop.payments() == []
    for _ in range(2):
        response = await top_up(token)
        assert (response.status_code, state_of(response)) == (200, "topped-up")
        assert "13 credits are on it now" in words(response)
        assert token not in response.text
    for shown in ("", other):
        late = await top_up(shown)
        assert (late.status_code, state_of(late)) == (200, "arrived")
        assert "13" not in words(late).partition("Your order")[0]
    assert state_of(await pay(person, payment)) == "used"
    assert (shop.world.received(), shop.credits_issued()) == (PRICE, 16)
    assert await shop.world.audit() == []


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/buy/10/terms", {"key": "short"}),
        ("/buy/10/terms", {"wallet": "no wallet"}),
        ("/buy/10", {"key": "short"}),
        ("/buy/10", {"transaction": "not base64!"}),
    ],
)
async def test_an_invalid_field_of_a_purchase_is_a_400(
    shop: Shopfront, person: Person, path: str, fields: dict[str, str]
) -> None:
    usual: dict[str, Any] = {
        "wallet": str(shop.world.buyer.pubkey()),
        "key": KEY,
        "transaction": "",
    }
    assert (await person.send(path, usual | fields)).status_code == 400


async def test_a_purchase_from_another_site_or_of_another_size_is_refused(person: Person) -> None:
    response = await person.send("/buy/10/terms", {"key": KEY}, origin="https://evil.example")
    assert response.status_code == 403
    for size in ("11", "010", "many"):
        assert (await person.open(f"/buy/{size}")).status_code == 404


async def test_prices_equal_those_of_the_api_in_every_payment_token(tmp_path: Path) -> None:
    async with shopfront(tmp_path, served=False, takes_usdc=True) as shop, Person(shop.site) as one:
        shop.price.usd = Decimal("0.5")
        page, api = words(await one.open("/pricing")), httpx.ASGITransport(shop.site.api)
        chosen = words(await one.open(f"/buy/10?asset={USDC}"))
        async with httpx.AsyncClient(transport=api, base_url="http://shop.example") as client:
            data = (await client.get("/v1/credits/bundles")).json()["data"]
    for own, usdc in zip(data["bundles"], data["also"][0]["bundles"], strict=True):
        assert own["price"] == 2 * usdc["price"]
        in_own, in_usdc = (f"{each['price'] / 10**6:f}".rstrip("0") for each in (own, usdc))
        assert f"${float(own['priceUsd']):.2f}"[:4] in page
        assert f"{own['credits']} credits" in page
        assert f"{in_own} SCOPE {in_usdc} USDC" in page
    assert "$0.0025 or 0.005 SCOPE or 0.0025 USDC" in page
    assert "SCOPE 0.05 USDC 0.025" in chosen
    assert f"--asset {USDC}" in chosen


async def test_the_pricing_page_shows_the_cost_of_each_charged_call(
    shop: Shopfront, person: Person
) -> None:
    page = words(await person.open("/pricing"))
    operations = [each for each in shop.site.api.router if isinstance(each, Operation)]
    charged = [each for each in operations if each.is_charged]
    unreported = [each for each in operations if not each.is_charged and each.tag != "Market data"]

    assert {"/v1/token/{tokenAddress}", "/v1/credits/purchase"} < {each.path for each in charged}
    for each in charged:
        assert f"{each.method} {each.path} {each.cost}" in page
    assert f"{len(unreported)} more calls" in page


async def test_the_purchase_page_is_a_404_if_nothing_is_for_sale(site: Website) -> None:
    async with Person(site) as person:
        assert "Credits are not for sale here" in words(await person.open("/pricing"))
        assert (await person.open("/buy/10")).status_code == 404


async def test_the_statement_requires_a_sign_in(alice: Person, site: Website) -> None:
    async with Person(site) as stranger:
        assert where(await stranger.open("/credits/statement.csv")).startswith("/sign-in")
    response = await alice.open("/credits/statement.csv")
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    assert response.headers["content-disposition"].startswith("attachment")
    assert response.text == "at,kind,credits,balance\n"
