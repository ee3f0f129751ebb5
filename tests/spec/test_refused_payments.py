"""The answers to attacks on payments: nothing is served, and nothing is sent to the chain."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Final

import httpx
import pytest
from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.hash import Hash
from solders.instruction import Instruction
from solders.message import MessageV0
from solders.pubkey import Pubkey
from x402.mechanisms.svm import constants as svm_constants

from mintscope.api.failures import REASONS
from mintscope.payments.protocol.envelope import RefusalReason
from support.fakes.reports import TOO_YOUNG, TRACKED
from support.scenes.payments.payment_build import LIGHTHOUSE, MEMO, Recipe, keypair, meta, sign
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import (
    KEY,
    OTHER_KEY,
    PURCHASE,
    SellingApi,
    decoded,
    demanded,
    encoded,
    opened,
    signature_header,
)
from support.scenes.service import refusal

OTHER: Final = keypair("someone else").pubkey()
OF_TYPESCRIPT: Final = {"amount_mismatch", "unknown_optional_instruction"}  # @x402/svm 2.27
Attack = Callable[[Recipe], bytes]


def expect_refused(response: httpx.Response, reason: str) -> None:
    assert refusal(response) == (402, "PAYMENT_FAILED")
    result = decoded(response, "payment-response")
    assert (result["success"], result["errorReason"]) == (False, reason)
    assert result["errorMessage"] == RefusalReason(reason).official
    assert result["errorMessage"] in response.json()["error"]["message"]
    assert reason in response.json()["error"]["message"]
    assert REASONS[RefusalReason(reason)] in response.json()["error"]["message"]
    assert demanded(response)["error"] == reason
    assert response.headers["cache-control"] == "no-store"


def transfer(**changes: Any) -> Attack:
    def build(recipe: Recipe) -> bytes:
        listed = recipe.instructions()
        return recipe.build([*listed[:2], recipe.transfer(**changes), listed[3]])

    return build


def altered(**changes: Any) -> Attack:
    return lambda recipe: replace(recipe, **changes).build()


def memo_signed_by(*signers: Pubkey) -> Attack:
    def build(recipe: Recipe) -> bytes:
        accounts = [meta(each, signer=True) for each in signers]
        return recipe.build([*recipe.instructions()[:3], Instruction(MEMO, recipe.memo, accounts)])

    return build


def fee_payer_in(program: Pubkey) -> Attack:
    def build(recipe: Recipe) -> bytes:
        fee_payer = Pubkey.from_string(recipe.terms.fee_payer)
        guard = Instruction(program, b"\0", [meta(fee_payer, signer=True, writable=True)])
        return recipe.build([*recipe.instructions(), guard])

    return build


def fee_payer_pays(recipe: Recipe) -> bytes:
    """Return a transaction that pays with the fee payer's own tokens."""
    fee_payer = Pubkey.from_string(recipe.terms.fee_payer)
    listed = recipe.instructions()
    own = recipe.transfer(source=recipe.terms.token_account(fee_payer), authority=fee_payer)
    signer = Instruction(MEMO, recipe.memo, [meta(recipe.payer.pubkey(), signer=True)])
    return recipe.build([*listed[:2], own, signer])


def paid_by_payer(recipe: Recipe) -> bytes:
    payer = recipe.payer.pubkey()
    return sign(
        MessageV0.try_compile(payer, recipe.instructions(), [], recipe.blockhash), recipe.payer
    )


def other_fee_payer(recipe: Recipe) -> bytes:
    return sign(
        MessageV0.try_compile(OTHER, recipe.instructions(), [], recipe.blockhash), recipe.payer
    )


def lookup_table(recipe: Recipe) -> bytes:
    table = AddressLookupTableAccount(OTHER, [recipe.terms.treasury])
    fee_payer = Pubkey.from_string(recipe.terms.fee_payer)
    message = MessageV0.try_compile(fee_payer, recipe.instructions(), [table], recipe.blockhash)
    return sign(message, recipe.payer)


def flipped_signature(recipe: Recipe) -> bytes:
    built = bytearray(recipe.build())
    built[1 + 64] ^= 1
    return bytes(built)


def priced(units: int, micro_lamports: int) -> Attack:
    return altered(
        units=b"\x02" + units.to_bytes(4, "little"),
        price=b"\x03" + micro_lamports.to_bytes(8, "little"),
    )


ATTACKS: Final[dict[str, tuple[Attack, str]]] = {
    "another payee": (transfer(destination=OTHER), "recipient_mismatch"),
    "another mint": (transfer(mint=OTHER), "mint_mismatch"),
    "one atom less": (altered(amount=24_999), "amount_mismatch"),
    "one atom more": (altered(amount=25_001), "amount_mismatch"),
    "no funds": (altered(payer=keypair("no funds")), "insufficient_funds"),
    "flipped signature": (flipped_signature, "invalid_signature"),
    "the payer pays the fee": (paid_by_payer, "signers"),
    "another fee payer": (other_fee_payer, "fee_payer"),
    "the fee payer's own tokens": (fee_payer_pays, "fee_payer_not_isolated"),
    "1.4 M units at 5 lamports": (priced(1_400_000, 5_000_000), "compute_limit_too_high"),
    "5 lamports a unit": (priced(20_000, 5_000_000), "priority_fee_too_high"),
    "7 extra signers": (
        memo_signed_by(*(keypair(f"signer {n}").pubkey() for n in range(7))),
        "signers",
    ),
    "the fee payer in a memo": (fee_payer_in(MEMO), "fee_payer_not_isolated"),
    "the fee payer in a wallet guard": (fee_payer_in(LIGHTHOUSE), "fee_payer_not_isolated"),
    "a lookup table": (lookup_table, "lookup_tables_not_allowed"),
    "a memo that is not UTF-8": (altered(memo=b"\xff" * 32), "quote_invalid"),
    "no bytes": (lambda _: b"", "transaction_undecodable"),
}


@pytest.mark.parametrize("name", ATTACKS)
async def test_an_attack_is_402_with_its_reason(shop: SellingApi, world: World, name: str) -> None:
    build, reason = ATTACKS[name]
    demand = await shop.demand("POST", PURCHASE)
    response = await shop.send(
        "POST", PURCHASE, signature_header(demand, build(shop.recipe(demand))), key=KEY
    )

    expect_refused(response, reason)
    assert demanded(response)["accepts"][0]["extra"]["memo"] != memo_of(demand)
    assert "sendTransaction" not in world.calls
    assert reason == "insufficient_funds" or world.calls == []  # the node is not called in vain
    assert world.ledger() == {}
    honest = await shop.send("POST", PURCHASE, shop.pay(demand), key=KEY)
    assert honest.status_code == 201


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("one atom less", "Expected 25000 atoms; there were 24999."),
        ("another payee", f"; was {OTHER}."),
        ("another mint", f"; was {OTHER}."),
        ("another fee payer", f"; was {OTHER}."),
        ("the payer pays the fee", "The number of signatures was 1."),
        ("7 extra signers", "The number of signatures was 9."),
        ("1.4 M units at 5 lamports", "The limit was 1400000."),
        ("5 lamports a unit", "The priority fee was 100000."),
        ("a lookup table", "Expected all accounts in the transaction itself"),
        ("a memo that is not UTF-8", "A quote of another request is not accepted."),
    ],
)
async def test_a_refusal_states_the_expected_and_the_actual_value(
    shop: SellingApi, name: str, values: str
) -> None:
    build, _ = ATTACKS[name]
    demand = await shop.demand("POST", PURCHASE)
    response = await shop.send(
        "POST", PURCHASE, signature_header(demand, build(shop.recipe(demand)))
    )

    assert values in response.json()["error"]["message"]


async def test_an_unknown_blockhash_is_402_unless_the_node_is_behind(
    shop: SellingApi, world: World
) -> None:
    """A node that is behind may not know the blockhash yet: the payer may try again."""
    demand = await shop.demand("POST", PURCHASE)
    old = shop.pay(demand, blockhash=Hash(b"old".ljust(32)))
    early = await shop.send("POST", PURCHASE, old, key=KEY)
    world.slots(40)  # so that there are blocks no fork can take back
    world.moving.add("simulateTransaction")
    late = await shop.send("POST", PURCHASE, old, key=KEY)

    assert refusal(early) == (503, "PAYMENT_UNAVAILABLE")
    assert early.headers["retry-after"] == "2"
    assert "Nothing was charged" in early.json()["error"]["message"]
    assert "payment-required" not in early.headers  # the payer must not sign a second payment
    expect_refused(late, "blockhash_not_found")
    assert "Its blockhash has expired" in late.json()["error"]["message"]
    assert "sendTransaction" not in world.calls


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"payTo": str(OTHER)}, "no_matching_requirement"),
        ({"asset": str(OTHER)}, "no_matching_requirement"),
        ({"network": "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"}, "no_matching_requirement"),
        ({"scheme": "upto"}, "no_matching_requirement"),
        ({"amount": "24999"}, "quote_invalid"),
    ],
)
async def test_changed_requirements_are_402(
    shop: SellingApi, world: World, changes: dict[str, str], reason: str
) -> None:
    demand = await shop.demand("POST", PURCHASE)
    amount = int(changes.get("amount", "25000"))
    payment = signature_header(demand, shop.transaction(demand, amount=amount), **changes)

    expect_refused(await shop.send("POST", PURCHASE, payment), reason)
    assert world.calls == []


@pytest.mark.parametrize(
    ("asked", "bought"),
    [
        (("GET", f"/v1/token/{TOO_YOUNG}"), ("GET", f"/v1/token/{TRACKED}")),
        (("GET", f"/v1/token/{TRACKED}"), ("POST", PURCHASE)),
        (("POST", PURCHASE), ("POST", "/v1/credits/purchase?bundle=500")),
    ],
)
async def test_a_quote_buys_only_the_resource_it_was_made_for(
    shop: SellingApi, world: World, asked: tuple[str, str], bought: tuple[str, str]
) -> None:
    payment = await shop.paid(*asked)

    expect_refused(await shop.send(*bought, payment), "quote_invalid")
    assert world.calls == []


@pytest.mark.parametrize(
    "written",
    [
        # SIMD-0385: the message first, then its signatures; up to 4,096 bytes.
        lambda wire: b"\x81" + wire[130:] + wire[1:129],
        lambda wire: b"\x81" + bytes(3_000) + wire[1:129],
        lambda wire: wire[:129] + b"\x81" + wire[130:],
    ],
    ids=["as it is on the wire", "a large one", "behind its signatures"],
)
async def test_a_transaction_of_version_1_is_refused_with_the_expected_version(
    shop: SellingApi, world: World, written: Callable[[bytes], bytes]
) -> None:
    demand = await shop.demand("POST", PURCHASE)
    assert demand["accepts"][0]["extra"]["transactionVersions"] == [0]
    payment = signature_header(demand, written(shop.transaction(demand)))
    response = await shop.send("POST", PURCHASE, payment, key=KEY)

    expect_refused(response, "transaction_version_not_supported")
    message = response.json()["error"]["message"]
    assert "Expected a transaction of version 0" in message
    assert "It was of version 1." in message
    assert world.calls == []
    bought = await shop.send("POST", PURCHASE, shop.pay(demanded(response)), key=KEY)
    assert bought.status_code == 201


VERSION_1: Final = {
    "x402Version": 1,
    "scheme": "exact",
    "network": "solana",
    "payload": {"transaction": "AA=="},
}


@pytest.mark.parametrize(
    "header",
    ["", "nonsense", "{}", "====", "e30", encoded({}), encoded([]), encoded("x402"), encoded(None),
     encoded({"x402Version": 2}), encoded(VERSION_1), "A" * 8_193, "A" * 1_000_000,
     "\u00e9" * 8, encoded({"x402Version": 2, "payload": {}, "accepted": {}})],
    ids=lambda header: header[:20],
)  # fmt: skip
async def test_an_invalid_payment_header_is_400(shop: SellingApi, header: str) -> None:
    headers = [(b"PAYMENT-SIGNATURE", header.encode("latin-1"))]
    for method, path in (("POST", PURCHASE), ("GET", f"/v1/token/{TRACKED}")):
        response = await shop.client.request(method, path, headers=headers)

        assert refusal(response) == (400, "INVALID_PAYMENT")
        assert "payment-required" not in response.headers


async def test_two_payment_headers_are_400(shop: SellingApi, world: World) -> None:
    payments = [await shop.paid("POST", PURCHASE) for _ in range(2)]
    headers = [("PAYMENT-SIGNATURE", each) for each in payments]

    response = await shop.client.post(PURCHASE, headers=headers)
    assert refusal(response) == (400, "INVALID_PAYMENT")
    assert world.received() == 0


async def test_a_client_of_x402_version_1_gets_a_402_that_names_version_2(shop: SellingApi) -> None:
    """`network` has the hint: `x402-fetch` 1 shows the name of a network that it does not know."""
    response = await shop.client.post(PURCHASE, headers={"X-PAYMENT": encoded(VERSION_1)})
    unpaid = await shop.client.post(PURCHASE)

    assert refusal(response) == (402, "PAYMENT_REQUIRED")
    assert "X-PAYMENT belongs to x402 version 1" in response.json()["error"]["message"]
    assert "version 1" not in unpaid.json()["error"]["message"]
    (offer,) = unpaid.json()["accepts"]
    assert (unpaid.json()["x402Version"], offer["scheme"]) == (2, "exact")
    assert "x402 version 2" in offer["network"]
    assert "@x402/fetch" in offer["network"]


async def test_errors_other_than_402_have_no_fields_for_x402_version_1(shop: SellingApi) -> None:
    for path in ("/v1/token/abc", "/v1/credits/balance"):
        assert set((await shop.client.get(path)).json()) == {"success", "error", "meta"}


def test_each_reason_has_a_code_of_x402_or_is_one_of_our_own() -> None:
    ours = {reason.value for reason in RefusalReason}
    theirs = {value for name, value in vars(svm_constants).items() if name.startswith("ERR_")}
    theirs |= {"invalid_payment_requirements", "insufficient_funds"}  # of the specification
    theirs |= {f"{svm_constants.ERR_INVALID_PAYLOAD}_{each}" for each in OF_TYPESCRIPT}
    assert {reason.official for reason in RefusalReason} <= theirs | ours
    assert {reason for reason in RefusalReason if reason.official == reason} == {
        *(RefusalReason.DEMO, RefusalReason.VERSION, RefusalReason.QUOTE_EXPIRED),
        *(RefusalReason.SIGNATURE, RefusalReason.INSUFFICIENT_FUNDS, RefusalReason.NETWORK_FEE),
        *(RefusalReason.TOO_MANY_FAILURES, RefusalReason.TOO_MANY_PENDING),
        *(RefusalReason.REVERTED, RefusalReason.EXPIRED, RefusalReason.VANISHED),
        RefusalReason.UNDERPAID,
    }


async def test_a_replay_is_409(shop: SellingApi, world: World) -> None:
    payment = await shop.paid("POST", PURCHASE)
    assert (await shop.send("POST", PURCHASE, payment)).status_code == 201

    for path in (PURCHASE, "/v1/credits/purchase?bundle=500"):
        response = await shop.send("POST", path, payment)
        assert refusal(response) == (409, "PAYMENT_ALREADY_USED")
        assert "payment-required" not in response.headers
    assert refusal(await shop.send("GET", f"/v1/token/{TRACKED}", payment))[0] == 409
    assert world.received() == 25_000


async def test_a_payment_copied_from_the_chain_is_409(shop: SellingApi, world: World) -> None:
    """A stranger copies the transaction from the chain and removes our signature."""
    demand = await shop.demand("POST", PURCHASE)
    bought = await shop.send("POST", PURCHASE, shop.pay(demand), key=KEY)
    landed = world.vm.landed(decoded(bought, "payment-response")["transaction"])
    assert landed is not None
    wire = bytes(landed.transaction)
    public = signature_header(demand, wire[:1] + bytes(64) + wire[65:])

    for header in (public, signature_header(demand, wire)):
        for key in (None, OTHER_KEY):
            response = await shop.send("POST", PURCHASE, header, key=key)
            assert refusal(response) == (409, "PAYMENT_ALREADY_USED")
            assert "svc_credit_" + "0" not in response.text


@pytest.mark.parametrize("processes", [1, 2, 4])
async def test_one_payment_sent_twenty_times_at_once_is_served_once(
    world: World, processes: int
) -> None:
    async with AsyncExitStack() as stack:
        shops = [await stack.enter_async_context(opened(world)) for _ in range(processes)]
        payment = await shops[0].paid("POST", PURCHASE)
        answers = await asyncio.gather(
            *(shops[n % processes].send("POST", PURCHASE, payment) for n in range(20))
        )

    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 19
    assert list(world.ledger().values()) == [10]
    assert world.fees() == 10_001


@pytest.mark.parametrize("processes", [1, 2])
async def test_only_one_of_twenty_payments_with_funds_for_one_is_served(
    world: World, processes: int
) -> None:
    poor = world.fund("poor", atoms=25_000)
    async with AsyncExitStack() as stack:
        shops = [await stack.enter_async_context(opened(world)) for _ in range(processes)]
        payments = [await shops[0].paid("POST", PURCHASE, payer=poor) for _ in range(20)]
        answers = await asyncio.gather(
            *(shops[n % processes].send("POST", PURCHASE, each) for n, each in enumerate(payments))
        )

    refused = [answer for answer in answers if answer.status_code == 402]
    assert len(refused) == 19
    assert [answer.status_code for answer in answers].count(201) == 1
    assert {decoded(answer, "payment-response")["errorReason"] for answer in refused} <= {
        "insufficient_funds_for_pending_payments",
        "insufficient_funds",
    }
    assert world.received() == 25_000
    assert world.fees() == 10_001


async def test_three_reverted_payments_are_402_and_stop_further_payments(
    shop: SellingApi, world: World
) -> None:
    world.go_wrong(landing={"kind": "failed"})
    for n in range(3):
        response = await shop.buy(key=f"{KEY}{n}")
        expect_refused(response, "transaction_failed")
        assert world.vm.landed(decoded(response, "payment-response")["transaction"]) is not None
    world.go_wrong()

    expect_refused(await shop.buy(), "too_many_failed_payments")
    assert world.ledger() == {}
    assert world.fees() == 3 * 10_001


async def test_a_chain_that_does_not_answer_is_503(shop: SellingApi, world: World) -> None:
    payment = await shop.paid("POST", PURCHASE)
    world.go_wrong(calls={"*": {"kind": "http", "status": 503}})
    response = await shop.send("POST", PURCHASE, payment, key=KEY)
    assert refusal(response) == (503, "PAYMENT_UNAVAILABLE")
    assert int(response.headers["retry-after"]) > 0
    world.go_wrong()

    assert (await shop.send("POST", PURCHASE, payment, key=KEY)).status_code == 201


async def test_a_payment_is_503_while_sales_are_closed(shop: SellingApi, world: World) -> None:
    world.sql("INSERT INTO sales_stop VALUES (1, 0, 'a test')")

    assert refusal(await shop.buy()) == (503, "PAYMENT_UNAVAILABLE")
    assert "sendTransaction" not in world.calls


def memo_of(demand: dict[str, Any]) -> str:
    return str(demand["accepts"][0]["extra"]["memo"])


async def test_a_closed_treasury_is_detected_at_the_first_rejected_payment(
    shop: SellingApi, world: World
) -> None:
    """The error does not blame the payer, and the price is read again at once."""
    demand = await shop.demand("POST", PURCHASE)
    reads = shop.price.reads
    world.vm.bank.put(world.vm.genesis.treasury_tokens, None)
    response = await shop.send("POST", PURCHASE, shop.pay(demand), key=KEY)

    assert refusal(response) == (503, "PAYMENT_UNAVAILABLE")
    assert "token account" in response.json()["error"]["message"]
    await shop.client.post(PURCHASE)
    assert shop.price.reads == reads + 1
    assert "sendTransaction" not in world.calls


async def test_a_payment_without_sufficient_funds_is_refused(
    shop: SellingApi, world: World
) -> None:
    poor = world.fund("poor", atoms=24_999)
    expect_refused(await shop.buy(payer=poor), "insufficient_funds")


async def test_a_quote_is_valid_for_one_payment(shop: SellingApi, world: World) -> None:
    """A second payment with the quote is refused, at the same time or later, by any payer."""
    demand = await shop.demand("POST", PURCHASE)
    payments = [shop.pay(demand, payer=world.fund(name)) for name in ("one", "two", "three")]
    answers = await asyncio.gather(
        *(shop.send("POST", PURCHASE, each, key=KEY) for each in payments[:2])
    )
    assert sorted(each.status_code for each in answers) == [201, 402]
    last = await shop.send("POST", PURCHASE, payments[2], key=KEY)

    expect_refused(last, "quote_used")
    assert world.received() == 25_000
