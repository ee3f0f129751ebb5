"""sign-in-with-x: a wallet that has bought credits spends them by signing, without a credit token.

The text that the wallet signs is written by the extension of the official package.
"""

import asyncio
import json
from base64 import b64decode
from random import Random
from typing import Any, Final

import httpx
import pytest
from solders.keypair import Keypair
from x402.extensions.sign_in_with_x.message import create_siwx_message
from x402.extensions.sign_in_with_x.schema import build_siwx_schema
from x402.extensions.sign_in_with_x.types import SIWxExtension, SIWxPayload

from support.fakes.reports import TOO_YOUNG, TRACKED, UNTRACKED
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import (
    KEY,
    ORIGIN,
    OTHER_KEY,
    PURCHASE,
    SellingApi,
    demanded,
    encoded,
    opened,
)
from support.scenes.service import bearer

REPORT: Final = f"/v1/token/{TRACKED}"
CANDLES: Final = f"{REPORT}/candles?tf=m1&limit=3"
SIGN_IN: Final = "sign-in-with-x"


def challenge_of(answer: httpx.Response) -> dict[str, Any]:
    """Return the challenge of a 402, from its header, or from its body if it has no such header."""
    if "payment-required" in answer.headers:
        return dict(demanded(answer)["extensions"][SIGN_IN])
    return dict(answer.json()["error"]["details"]["extensions"][SIGN_IN])


def signed(challenge: dict[str, Any], wallet: Keypair, **changes: Any) -> str:
    """Return SIGN-IN-WITH-X as the official client makes it; *changes* are made before signing."""
    extension = SIWxExtension.model_validate(challenge)
    chain = extension.supported_chains[0]
    reported = extension.info.model_dump(by_alias=True, exclude_none=True)
    info = reported | {"chainId": chain.chain_id, "type": chain.type} | changes
    address = str(wallet.pubkey())
    text = create_siwx_message(info, address)
    signature = str(wallet.sign_message(text.encode()))
    payload = SIWxPayload.model_validate(info | {"address": address, "signature": signature})
    return encoded(payload.model_dump(by_alias=True, exclude_none=True))


async def sign_in(shop: SellingApi, path: str = REPORT, wallet: Keypair | None = None) -> str:
    """Return the header that answers the challenge of *path*."""
    unpaid = await shop.client.get(path)
    return signed(challenge_of(unpaid), wallet or shop.world.buyer)


async def get(shop: SellingApi, path: str, header: str, **headers: str) -> httpx.Response:
    return await shop.client.get(path, headers={SIGN_IN: header, **headers})


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def expect_refused(answer: httpx.Response, why: str) -> None:
    assert refusal(answer) == (402, "PAYMENT_REQUIRED")
    assert f"The sign-in is refused: {why}." in answer.json()["error"]["message"]
    assert SIGN_IN in demanded(answer)["extensions"]


@pytest.mark.parametrize("path", [REPORT, CANDLES])
async def test_a_wallet_spends_the_credits_that_it_has_bought(
    shop: SellingApi, world: World, path: str
) -> None:
    token = (await shop.buy()).json()["data"]["token"]
    answers = [await get(shop, path, await sign_in(shop, path)) for _ in range(10)]
    broke = await get(shop, path, await sign_in(shop, path))

    assert [answer.status_code for answer in answers] == [200] * 10
    assert [answer.headers["x-credits-remaining"] for answer in answers] == [
        str(left) for left in range(9, -1, -1)
    ]
    assert refusal(broke) == (402, "INSUFFICIENT_CREDITS")
    assert demanded(broke)["accepts"]
    assert (await shop.client.get("/v1/credits/balance", headers=bearer(token))).json()["data"][
        "balance"
    ] == 0
    assert world.received() == 25_000
    assert await world.audit(full=True) == []


async def test_a_sign_in_pays_for_a_batch_with_the_challenge_of_its_402(shop: SellingApi) -> None:
    await shop.buy()
    asked = {"mints": [TRACKED]}
    unpaid = await shop.client.post("/v1/tokens/batch", json=asked)
    header = signed(challenge_of(unpaid), shop.world.buyer)
    answer = await shop.client.post("/v1/tokens/batch", json=asked, headers={SIGN_IN: header})

    assert unpaid.status_code == 402
    assert answer.status_code == 200
    assert answer.headers["x-credits-remaining"] == "9"


async def test_a_signature_is_accepted_once(shop: SellingApi, world: World) -> None:
    """The signature is sent several times at once, to two replicas, and again later."""
    await shop.buy()
    header = await sign_in(shop)
    async with opened(world) as replica:
        at_once = await asyncio.gather(
            *(get(each, REPORT, header) for each in (shop, replica) for _ in range(5))
        )
    later = await get(shop, REPORT, header)

    assert sorted(answer.status_code for answer in at_once) == [200] + [402] * 9
    expect_refused(later, "invalid_siwx_nonce")
    left = (await get(shop, REPORT, await sign_in(shop))).headers["x-credits-remaining"]
    assert left == "8"


async def test_a_sign_in_gets_a_lost_answer_again_with_its_idempotency_key(
    shop: SellingApi,
) -> None:
    await shop.buy()
    header = await sign_in(shop)
    first = await get(shop, REPORT, header, **{"idempotency-key": KEY})
    again = await get(shop, REPORT, header, **{"idempotency-key": KEY})
    other = await get(shop, REPORT, header, **{"idempotency-key": OTHER_KEY})

    assert again.json()["data"] == first.json()["data"]
    assert again.headers["idempotent-replayed"] == "true"
    assert again.headers["x-credits-remaining"] == first.headers["x-credits-remaining"] == "9"
    expect_refused(other, "invalid_siwx_nonce")


async def test_a_new_report_is_made_if_the_first_answer_could_not_be_sent(
    shop: SellingApi,
) -> None:
    """The credit was given back, so the next request buys a report of that moment."""
    await shop.buy()
    header = await sign_in(shop)
    asked = {SIGN_IN: header, "idempotency-key": KEY}

    async def cut_off(scope: Any, receive: Any, _send: Any) -> None:
        async def send(_message: Any) -> None:
            raise ConnectionResetError

        await shop.service.app(scope, receive, send)

    transport = httpx.ASGITransport(cut_off, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as unlucky:
        assert (await unlucky.get(REPORT, headers=asked)).status_code == 500
    shop.service.reports.body = b'{"token":"another"}'
    again = await shop.client.get(REPORT, headers=asked)

    assert again.json()["data"] == {"token": "another"}
    assert "idempotent-replayed" not in again.headers
    assert again.headers["x-credits-remaining"] == "9"


async def test_a_refused_repeat_of_a_sign_in_does_not_keep_its_credit(shop: SellingApi) -> None:
    """A stranger repeats the signature before the first answer fails to be sent."""
    await shop.buy()
    header = await sign_in(shop)
    asked = {SIGN_IN: header, "idempotency-key": KEY}
    stolen: list[httpx.Response] = []

    async def cut_off(scope: Any, receive: Any, _send: Any) -> None:
        async def send(_message: Any) -> None:
            stolen.append(await get(shop, REPORT, header))
            raise ConnectionResetError

        await shop.service.app(scope, receive, send)

    transport = httpx.ASGITransport(cut_off, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as unlucky:
        assert (await unlucky.get(REPORT, headers=asked)).status_code == 500
    again = await shop.client.get(REPORT, headers=asked)

    expect_refused(stolen[0], "invalid_siwx_nonce")
    assert again.status_code == 200
    assert "idempotent-replayed" not in again.headers
    assert again.headers["x-credits-remaining"] == "9"


async def test_errors_cost_nothing_and_do_not_use_up_the_signature(shop: SellingApi) -> None:
    await shop.buy()
    path = f"/v1/token/{TOO_YOUNG}"
    header = await sign_in(shop, path)
    for _ in range(2):
        assert refusal(await get(shop, path, header)) == (404, "INSUFFICIENT_DATA")

    left = (await get(shop, REPORT, await sign_in(shop))).headers["x-credits-remaining"]
    assert left == "9"


async def test_a_sign_in_is_valid_for_five_minutes_and_one_path(
    shop: SellingApi, world: World
) -> None:
    await shop.buy()
    header = await sign_in(shop)
    other = await get(shop, f"{REPORT}/swaps", header)
    world.clock.advance(301_000)
    late = await get(shop, REPORT, header)

    expect_refused(other, "invalid_siwx_uri_mismatch")
    expect_refused(late, "invalid_siwx_issued_at_too_old")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"domain": "evil.example"}, "invalid_siwx_domain_mismatch"),
        ({"uri": f"https://evil.example{REPORT}"}, "invalid_siwx_uri_mismatch"),
        ({"chainId": "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"}, "invalid_siwx_unsupported_chain"),
        ({"nonce": "00" * 16}, "invalid_siwx_nonce"),
        ({"nonce": "not hexadecimal"}, "invalid_siwx_nonce"),
        ({"issuedAt": "2030-01-01T00:00:00Z"}, "invalid_siwx_nonce"),
        ({"issuedAt": "never"}, "invalid_siwx_nonce"),
        ({"statement": "Sell everything"}, "invalid_siwx_nonce"),
        ({"resources": ["https://evil.example"]}, "invalid_siwx_nonce"),
        ({"requestId": "7"}, "invalid_siwx_nonce"),
    ],
)
async def test_a_changed_challenge_is_refused(
    shop: SellingApi, changes: dict[str, Any], why: str
) -> None:
    await shop.buy()
    challenge = challenge_of(await shop.client.get(REPORT))

    expect_refused(await get(shop, REPORT, signed(challenge, shop.world.buyer, **changes)), why)


async def test_a_signature_of_another_wallet_spends_nothing(shop: SellingApi) -> None:
    await shop.buy()
    stranger = Keypair()
    header = await sign_in(shop, wallet=stranger)
    forged = json.loads(b64decode(header)) | {"address": str(shop.world.buyer.pubkey())}

    assert refusal(await get(shop, REPORT, header)) == (402, "INSUFFICIENT_CREDITS")
    expect_refused(await get(shop, REPORT, encoded(forged)), "invalid_siwx_signature")


async def test_a_wallet_cannot_spend_credits_that_are_not_its_alone(shop: SellingApi) -> None:
    """Credits that were moved by a rotation, or mixed with granted ones, are not its alone."""
    token = (await shop.buy()).json()["data"]["token"]
    rotated = await shop.client.post("/v1/credits/rotate", headers=bearer(token))
    assert rotated.status_code == 201

    assert refusal(await get(shop, REPORT, await sign_in(shop))) == (402, "INSUFFICIENT_CREDITS")
    granted = await shop.service.issue(5)
    payment = await shop.paid("POST", PURCHASE)
    topped_up = await shop.send("POST", PURCHASE, payment, **bearer(granted))
    assert topped_up.is_success
    assert refusal(await get(shop, REPORT, await sign_in(shop))) == (402, "INSUFFICIENT_CREDITS")
    for _ in range(5):  # the oldest credits are spent first: those of the grant
        await shop.client.get(REPORT, headers=bearer(granted))
    assert (await get(shop, REPORT, await sign_in(shop))).status_code == 200


async def test_credits_are_taken_from_the_account_with_the_most_credits(shop: SellingApi) -> None:
    await shop.buy()
    bundle = "/v1/credits/purchase?bundle=50"
    await shop.send("POST", bundle, await shop.paid("POST", bundle), key=OTHER_KEY)

    answer = await get(shop, REPORT, await sign_in(shop))
    assert answer.headers["x-credits-remaining"] == "49"


@pytest.mark.parametrize("header", ["", "no base64!", encoded([]), encoded({"domain": 1}),
                                    encoded({"domain": "x" * 5_000})])  # fmt: skip
async def test_an_invalid_sign_in_header_is_400(shop: SellingApi, header: str) -> None:
    assert refusal(await get(shop, REPORT, header)) == (400, "BAD_REQUEST")


async def test_a_sign_in_is_400_beside_a_credit_token_and_ignored_beside_a_payment(
    shop: SellingApi,
) -> None:
    token = (await shop.buy()).json()["data"]["token"]
    header = await sign_in(shop)
    both = await get(shop, REPORT, header, **bearer(token))
    payment = await shop.paid("GET", REPORT)
    paid = await shop.send("GET", REPORT, payment, **{SIGN_IN: header})

    assert refusal(both) == (400, "BAD_REQUEST")
    assert paid.status_code == 200
    assert "payment-response" in paid.headers


async def test_a_purchase_has_no_challenge(shop: SellingApi) -> None:
    unpaid = await shop.client.post(PURCHASE)

    assert SIGN_IN not in demanded(unpaid)["extensions"]
    assert unpaid.json()["error"]["details"]["buy"].startswith(ORIGIN)


async def test_each_challenge_has_a_nonce_of_its_own(shop: SellingApi) -> None:
    nonces = {challenge_of(await shop.client.get(REPORT))["info"]["nonce"] for _ in range(20)}

    assert len(nonces) == 20
    assert all(len(bytes.fromhex(nonce)) == 16 for nonce in nonces)


async def test_a_header_changed_after_signing_spends_no_credit(shop: SellingApi) -> None:
    """The field and its new value are chosen at random."""
    random, token = Random(7), (await shop.buy()).json()["data"]["token"]
    fields = sorted(build_siwx_schema()["properties"])
    for _ in range(60):
        content = json.loads(b64decode(await sign_in(shop)))
        name = random.choice(fields)
        was = content.get(name)
        content[name] = random.choice(["", "x", was[:-1] if isinstance(was, str) else "y", 7, None])
        if content[name] == was or (content[name] is None and was is None):
            continue
        answer = await get(shop, REPORT, encoded(content))
        assert answer.status_code in {400, 402}, content
    balance = await shop.client.get("/v1/credits/balance", headers=bearer(token))
    assert balance.json()["data"]["balance"] == 10


async def test_an_unknown_token_is_404_to_a_wallet_with_credits(shop: SellingApi) -> None:
    await shop.buy()
    path = f"/v1/token/{UNTRACKED}"
    answer = await get(shop, path, await sign_in(shop, path))

    assert refusal(answer) == (404, "TOKEN_NOT_FOUND")
