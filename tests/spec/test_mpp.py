"""The `charge` of MPP: another form of the same payment, in the same 402.

Challenges are parsed and credentials written here by hand, as `@solana/mpp` 0.6 does; `make
interop` runs that client itself.
"""

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any, Final

import httpx
import pytest
from solders.hash import Hash

from mintscope.kit.primitives import Mint
from support.fakes.reports import TRACKED, UNTRACKED
from support.scenes.payments.payment_build import as_base64
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import (
    KEY,
    ORIGIN,
    OTHER_KEY,
    PURCHASE,
    SellingApi,
    as_base64url,
    decoded,
    demanded,
    opened,
    signature_header,
)
from support.scenes.service import bearer

REPORT: Final = f"/v1/token/{TRACKED}"
ASKING: Final = {"Accept-Payment": "tempo/charge, solana/charge;q=0.8", "Origin": ORIGIN}
HEADER_BYTES_MAX: Final = 3_500
CREDENTIAL_BYTES_MAX: Final = 8 * 1024
UNITS: Final = b"\x02" + (200_000).to_bytes(4, "little")
PARAMETER: Final = re.compile(r'(\w+)="([^"]*)"')
Challenge = dict[str, str]


@pytest.fixture
async def two_assets(world: World) -> AsyncIterator[SellingApi]:
    async with opened(world, also=[world.usdc_terms]) as shop:
        await world.chains[-1].refresh_offer()  # so that its terms name a blockhash
        yield shop


def plain(text: str) -> Any:
    """Return the JSON in *text*, which must be canonical (RFC 8785)."""
    written = urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    value = json.loads(written)
    assert written == json.dumps(value, sort_keys=True, separators=(",", ":"))
    return value


def challenges(answer: httpx.Response) -> list[Challenge]:
    values = answer.headers.get_list("www-authenticate")
    assert all(value.startswith("Payment ") for value in values)
    return [dict(PARAMETER.findall(value)) for value in values]


async def challenge(shop: SellingApi, method: str, path: str, **headers: str) -> Challenge:
    answer = await shop.client.request(method, path, headers=ASKING | headers)
    assert answer.status_code == 402
    first, *_ = challenges(answer)
    return first


def transaction(shop: SellingApi, one: Challenge, **changes: Any) -> bytes:
    """Return a transaction as MPP clients build it: the unit price comes before the unit limit."""
    request = plain(one["request"])
    blockhash = request["methodDetails"].get("recentBlockhash")
    accepted = (shop.facilitator.terms, *shop.facilitator.also)
    offer = {"amount": request["amount"], "asset": request["currency"],
             "extra": {"memo": request["externalId"]}}  # fmt: skip
    parts: dict[str, Any] = {
        "terms": next(each for each in accepted if each.asset == request["currency"]),
        "units": UNITS,
        "blockhash": Hash.from_string(blockhash) if blockhash else shop.world.blockhash(),
    } | changes
    recipe = shop.recipe({"accepts": [offer]}, **parts)
    limit, price, *rest = recipe.instructions()
    return recipe.build([price, limit, *rest])


def credential(one: Challenge, wire: bytes, **payload: Any) -> dict[str, str]:
    sent = {"type": "transaction", "transaction": as_base64(wire)} | payload
    return {"Authorization": f"Payment {as_base64url({'challenge': one, 'payload': sent})}"}


async def pay(
    shop: SellingApi, method: str, path: str, *, key: str = KEY, **changes: Any
) -> httpx.Response:
    one = await challenge(shop, method, path)
    headers = credential(one, transaction(shop, one, **changes)) | {"Idempotency-Key": key}
    return await shop.client.request(method, path, headers=headers)


async def test_an_mpp_payment_buys_a_report_and_a_bundle(shop: SellingApi, world: World) -> None:
    report = await pay(shop, "GET", REPORT)
    bundle = await pay(shop, "POST", PURCHASE, key=OTHER_KEY)
    token = bundle.json()["data"]["token"]
    balance = await shop.client.get("/v1/credits/balance", headers=bearer(token))

    assert (report.status_code, bundle.status_code) == (200, 201)
    assert balance.json()["data"]["balance"] == 10
    assert world.received() == 2_500 + 25_000
    for answer in (report, bundle):
        receipt = plain(answer.headers["payment-receipt"])
        settled = decoded(answer, "payment-response")
        assert receipt["reference"] == settled["transaction"]
        assert (receipt["method"], receipt["status"]) == ("solana", "success")
        assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", receipt["timestamp"])
        assert "Payment-Receipt" in answer.headers.get_list("access-control-expose-headers")
    assert await world.audit(full=True) == []


async def test_a_challenge_is_sent_only_to_clients_that_accept_it(shop: SellingApi) -> None:
    takes = ["solana/charge", "solana/*", "*/charge", "*/*", "tempo/charge,solana/charge;q=0.1"]
    takes += ["*/*;q=0, solana/charge", "solana/*;q=0, solana/charge", "*/*;q=0, solana/*"]
    does_not = ["", "tempo/charge", "solana/session", "solana/charge;q=0", "*/*;q=0.0"]
    does_not += ["*/*, solana/charge;q=0", "*/charge, solana/*;q=0"]
    for value in takes + does_not:
        answer = await shop.client.get(REPORT, headers={"Accept-Payment": value})
        assert bool(challenges(answer)) == (value in takes), value
        assert demanded(answer)["accepts"][0]["amount"] == "2500"  # x402 in the same 402
        assert answer.json()["error"]["details"]["accepts"]


async def test_a_challenge_has_the_terms_of_x402(two_assets: SellingApi) -> None:
    answer = await two_assets.client.post(PURCHASE, headers=ASKING)
    offers = demanded(answer)["accepts"]
    (recent, _) = demanded(await two_assets.client.post(PURCHASE))["accepts"]

    for one, offer in zip(challenges(answer), offers, strict=True):
        assert one.items() >= {"realm": "shop.example", "method": "solana", "intent": "charge",
                               "id": offer["extra"]["memo"]}.items()  # fmt: skip
        assert plain(one["request"]) == {
            "amount": offer["amount"],
            "currency": offer["asset"],
            "recipient": offer["payTo"],
            "externalId": offer["extra"]["memo"],
            "methodDetails": {
                "decimals": offer["extra"]["decimals"],
                "feePayer": True,
                "feePayerKey": offer["extra"]["feePayer"],
                "tokenProgram": "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
                "recentBlockhash": recent["extra"]["recentBlockhash"],
            },
        }


async def test_the_headers_of_a_402_with_two_assets_are_below_3500_bytes(
    two_assets: SellingApi,
) -> None:
    two_assets.price.usd = Decimal("0.5")  # longer amounts
    sold = (await two_assets.client.get("/.well-known/x402")).json()["endpoints"]
    for each in sold:
        path = each["url"].removeprefix(ORIGIN)
        answer = await two_assets.client.request(each["method"], path, headers=ASKING)
        assert len(challenges(answer)) == 2, path
        lines = [f"{name}: {value}\r\n" for name, value in answer.headers.multi_items()]
        assert sum(map(len, lines)) < HEADER_BYTES_MAX, path


async def test_a_payment_in_the_second_asset_is_accepted(
    two_assets: SellingApi, world: World
) -> None:
    world.buyer = world.fund("buyer", usdc_atoms=10**6)
    answer = await two_assets.client.get(REPORT, headers=ASKING)
    _, usdc = challenges(answer)
    paid = credential(usdc, transaction(two_assets, usdc))

    assert (await two_assets.client.get(REPORT, headers=paid)).status_code == 200
    assert world.received(world.usdc_terms) == int(plain(usdc["request"])["amount"])


@pytest.mark.parametrize(
    "change",
    [{"amount": "2499"}, {"amount": "1"}, {"currency": str(Mint(TRACKED))}, {"recipient": TRACKED},
     {"methodDetails": {"network": "devnet"}}],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
async def test_changed_terms_buy_nothing(
    shop: SellingApi, world: World, change: dict[str, Any]
) -> None:
    one = await challenge(shop, "GET", REPORT)
    wire = transaction(shop, one)
    changed = one | {"request": as_base64url(plain(one["request"]) | change)}
    answer = await shop.client.get(REPORT, headers=credential(changed, wire))

    assert answer.json()["error"]["code"] == "PAYMENT_FAILED"
    assert world.received() == 0


async def test_a_payment_buys_one_answer_on_one_route_and_in_one_form(
    shop: SellingApi, world: World
) -> None:
    one = await challenge(shop, "GET", REPORT)
    wire = transaction(shop, one)
    paid = credential(one, wire)
    elsewhere = await shop.client.get(f"{REPORT}/swaps", headers=paid)
    first = await shop.client.get(REPORT, headers=paid | {"Idempotency-Key": KEY})
    again = await shop.client.get(REPORT, headers=paid | {"Idempotency-Key": KEY})
    stranger = await shop.client.get(REPORT, headers=paid)
    other_form = signature_header(await shop.demand("GET", REPORT), wire)
    by_x402 = await shop.send("GET", REPORT, other_form, key=OTHER_KEY)

    assert elsewhere.json()["error"]["code"] == "PAYMENT_FAILED"
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.headers["payment-receipt"] == first.headers["payment-receipt"]
    for refused in (stranger, by_x402):
        assert refused.json()["error"]["code"] == "PAYMENT_ALREADY_USED"
    assert world.received() == 2_500


async def test_an_mpp_payment_with_a_memo_of_its_own_is_refused(
    shop: SellingApi, world: World
) -> None:
    answer = await pay(shop, "GET", REPORT, memo=b"9f3c5a7e1b2d4f608192a3b4c5d6e7f8")

    assert answer.json()["error"]["code"] == "PAYMENT_FAILED"
    assert world.received() == 0


async def test_a_payment_for_an_untracked_token_is_not_taken(
    shop: SellingApi, world: World
) -> None:
    answer = await pay(shop, "GET", f"/v1/token/{UNTRACKED}")

    assert answer.status_code == 404
    assert "payment-receipt" not in answer.headers
    assert world.received() == 0


async def test_an_invalid_credential_is_a_bad_request(shop: SellingApi) -> None:
    one = await challenge(shop, "GET", REPORT)
    wire = transaction(shop, one)
    request = plain(one["request"])
    demand = await shop.demand("GET", REPORT)
    wrong = [
        {"Authorization": "Payment "},
        {"Authorization": "Payment *"},
        {"Authorization": f"payment {as_base64url([1])}"},
        {"Authorization": f"Payment {'A' * 9_000}"},
        {"Authorization": "Payment " + as_base64(b'{"x":' + b"[" * 3_000)},
        credential(one, wire, more="x" * CREDENTIAL_BYTES_MAX),  # valid except for its length
        credential(one, wire, type="signature"),
        credential(one, wire, transaction="*"),
        credential(one | {"method": "tempo"}, wire),
        credential(one | {"intent": "session"}, wire),
        credential(one | {"id": "x" * 32}, wire),
        credential(one | {"request": as_base64url(request | {"amount": "-1"})}, wire),
        credential(one, wire) | {"PAYMENT-SIGNATURE": signature_header(demand, wire)},
    ]
    for headers in wrong:
        answer = await shop.client.get(REPORT, headers=headers)
        assert answer.status_code == 400, headers
        assert answer.json()["error"]["code"] == "INVALID_PAYMENT"


@pytest.mark.parametrize(
    ("changes", "payload", "expected"),
    [
        ({"amount": "-1"}, {}, "the amount of challenge.request to be an integer of atoms"),
        ({"amount": "0"}, {}, "the amount of challenge.request between 1 and"),
        ({}, {"transaction": "*"}, "payload.transaction to be standard base64"),
    ],
)
async def test_an_error_names_the_header_that_was_sent(
    shop: SellingApi, changes: dict[str, str], payload: dict[str, str], expected: str
) -> None:
    one = await challenge(shop, "GET", REPORT)
    request = as_base64url(plain(one["request"]) | changes)
    headers = credential(one | {"request": request}, transaction(shop, one), **payload)
    answer = await shop.client.get(REPORT, headers=headers)

    message = answer.json()["error"]["message"]
    assert message.startswith(f"Authorization: Payment: expected {expected}")
