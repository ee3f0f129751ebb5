"""POST /v1/credits/rotate, and the challenge that a wallet signs for it."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from mintscope.app.config.config import ApiConfig
from mintscope.credits.ledger import Debit, Debited, DebitLedger
from mintscope.kit.primitives import Signature
from mintscope.payments.payment import Sighting
from mintscope.payments.ports import Trial
from mintscope.payments.protocol.envelope import Envelope, RecentBlockhash, Signed
from mintscope.payments.settlement import RpcSettlement
from mintscope.payments.store.payments import SqlPaymentStore
from support.fakes.reports import TRACKED
from support.scenes.payments.payment_build import keypair
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import (
    KEY,
    ORIGIN,
    OTHER_KEY,
    PURCHASE,
    SellingApi,
    decoded,
    opened,
)
from support.scenes.service import Service, bearer, refusal

PATH: Final = "/v1/credits/rotate"
CHALLENGE: Final = "/v1/credits/rotate/challenge"
HASTY_S: Final = 0.05
SOME_SIGNATURE: Final = str(keypair("anyone").sign_message(b"anything"))


async def balance(shop: SellingApi, token: str) -> int:
    response = await shop.client.get("/v1/credits/balance", headers=bearer(token))
    return int(response.json()["data"]["balance"])


async def bought(shop: SellingApi, key: str = KEY) -> tuple[str, str]:
    """Buy ten credits; return the credit token, and the signature of the payment."""
    response = await shop.buy(key=key)
    return response.json()["data"]["token"], decoded(response, "payment-response")["transaction"]


async def proof(
    shop: SellingApi, purchase: str, wallet: Keypair, signer: Keypair | None = None
) -> dict[str, str]:
    claim = {"purchase": purchase, "wallet": str(wallet.pubkey())}
    response = await shop.client.post(CHALLENGE, json=claim)
    assert response.status_code == 200, response.text
    text = response.json()["data"]["challenge"]
    return claim | {
        "challenge": text,
        "signature": str((signer or wallet).sign_message(text.encode())),
    }


async def test_a_rotation_moves_the_credits_to_a_new_credit_token(shop: SellingApi) -> None:
    old, _ = await bought(shop)
    response = await shop.client.post(PATH, headers=bearer(old))

    assert response.status_code == 201
    assert response.headers["cache-control"] == "no-store"
    assert set(response.json()["meta"]) == {"timestamp"}
    new = response.json()["data"]["token"]
    assert response.json()["data"] == {"token": new, "credits": 10}
    assert new != old
    assert await balance(shop, new) == 10
    spent = await shop.client.get(f"/v1/token/{TRACKED}", headers=bearer(new))
    assert spent.headers["x-credits-remaining"] == "9"


async def test_a_rotated_token_is_invalid_everywhere_and_takes_nothing(
    shop: SellingApi, world: World
) -> None:
    """Every route refuses the rotated token with INVALID_TOKEN; not even a top-up is taken."""
    old, _ = await bought(shop)
    assert await balance(shop, old) == 10  # now this process has it in memory
    new = (await shop.client.post(PATH, headers=bearer(old))).json()["data"]["token"]
    sent = len(world.calls)
    payment = {"PAYMENT-SIGNATURE": await shop.paid("POST", PURCHASE)}
    asked = [
        ("GET", "/v1/credits/balance", {}),
        ("GET", "/v1/credits/history", {}),
        ("GET", f"/v1/token/{TRACKED}", {}),
        ("GET", f"/v1/token/{TRACKED}/candles?tf=m1", {}),
        ("GET", f"/v1/token/{TRACKED}/indicators?tf=m1", {}),
        ("GET", f"/v1/token/{TRACKED}/swaps", {}),
        ("POST", PURCHASE, {}),
        ("POST", PURCHASE, payment),
        ("POST", PATH, {"Idempotency-Key": OTHER_KEY}),
    ]
    for method, path, headers in asked:
        answer = await shop.client.request(method, path, headers=bearer(old) | headers)
        assert refusal(answer) == (401, "INVALID_TOKEN"), (method, path, answer.text)
    batch = {"mints": [TRACKED]}
    answer = await shop.client.post("/v1/tokens/batch", json=batch, headers=bearer(old))
    assert refusal(answer) == (401, "INVALID_TOKEN")
    assert "sendTransaction" not in [*world.calls][sent:]
    assert await balance(shop, new) == 10


BUYS: Final = [
    ("GET", f"/v1/token/{TRACKED}", None),
    ("GET", f"/v1/token/{TRACKED}?partial=true", None),
    ("GET", f"/v1/token/{TRACKED}/candles?tf=m1", None),
    ("GET", f"/v1/token/{TRACKED}/swaps", None),
    ("GET", "/v1/token/So11111111111111111111111111111111111111112", None),
    ("POST", "/v1/tokens/batch", {"mints": [TRACKED]}),
]


@pytest.mark.parametrize("rotates", ["this process", "another process"])
@pytest.mark.parametrize(("method", "path", "body"), BUYS)
async def test_a_rotated_token_in_memory_is_invalid(
    world: World, method: str, path: str, body: Any, rotates: str
) -> None:
    """It is refused even if an empty page would be free, or if another process has rotated it."""
    async with opened(world) as shop, opened(world) as other:
        old, _ = await bought(shop)
        for _ in range(2):  # the first request puts the account in memory
            bought_with = await shop.client.get(f"/v1/token/{TRACKED}", headers=bearer(old))
            assert bought_with.status_code == 200
        rotating = shop if rotates == "this process" else other
        new = (await rotating.client.post(PATH, headers=bearer(old))).json()["data"]["token"]
        for _ in range(2):
            answer = await shop.client.request(method, path, json=body, headers=bearer(old))
            assert refusal(answer) == (401, "INVALID_TOKEN")
        assert await balance(shop, new) == await balance(other, new) == 8


@dataclass
class Interrupted:
    """A chain that awaits *meanwhile* once, after it has simulated a payment."""

    chain: RpcSettlement
    meanwhile: Callable[[], Awaitable[object]] | None = None

    def offer(self) -> RecentBlockhash | None:
        return self.chain.offer()

    async def simulate(self, envelope: Envelope, source: Pubkey) -> Trial:
        trial = await self.chain.simulate(envelope, source)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return trial

    async def broadcast(self, signed: Signed) -> None:
        await self.chain.broadcast(signed)

    async def wait(self, signature: Signature, *, patience_s: float) -> Sighting:
        return await self.chain.wait(signature, patience_s=patience_s)

    async def look(self, signatures: Sequence[Signature]) -> Sequence[Sighting]:
        return await self.chain.look(signatures)


async def test_a_token_that_is_rotated_before_its_top_up_is_sent_takes_nothing(
    world: World,
) -> None:
    """The payment is not sent, and can be sent with the new token instead."""
    chain = Interrupted(world.chain())
    async with opened(world, chain=chain) as shop:
        old, _ = await bought(shop)
        new: list[str] = []

        async def rotate() -> None:
            world.clock.advance(1)
            rotated = await shop.client.post(PATH, headers=bearer(old))
            new.append(rotated.json()["data"]["token"])
            world.clock.advance(1)

        chain.meanwhile = rotate
        received = world.received()
        payment = await shop.paid("POST", PURCHASE)
        refused = await shop.send("POST", PURCHASE, payment, key=OTHER_KEY, **bearer(old))
        assert refusal(refused) == (401, "INVALID_TOKEN")
        assert world.received() == received

        taken = await shop.send("POST", PURCHASE, payment, key=OTHER_KEY, **bearer(new[0]))
        assert taken.status_code == 201, taken.text
        assert await balance(shop, new[0]) == 20
    await chain.chain.aclose()
    assert await world.audit(full=True) == []


async def test_a_payment_beside_a_rotated_token_in_memory_is_answered(shop: SellingApi) -> None:
    """Nothing is paid without an answer, whatever credential is sent beside the payment."""
    old, _ = await bought(shop)
    path = f"/v1/token/{TRACKED}"
    for _ in range(2):  # the first request puts the account in memory
        assert (await shop.client.get(path, headers=bearer(old))).status_code == 200
    await shop.client.post(PATH, headers=bearer(old))
    payment = {"PAYMENT-SIGNATURE": await shop.paid("GET", path)}

    answer = await shop.client.get(path, headers=bearer(old) | payment)

    assert answer.status_code == 200, answer.text
    assert "payment-response" in answer.headers


async def test_credits_given_back_after_a_rotation_go_to_the_new_credit_token(
    shop: SellingApi,
) -> None:
    """The credits were taken before the rotation, for an answer that could not be sent."""
    old, _ = await bought(shop)
    ledger = shop.service.ledger
    assert isinstance(ledger, DebitLedger)
    account = await ledger.find(old)
    assert account is not None
    taken = await ledger.debit(Debit(account, 3))
    assert isinstance(taken, Debited)
    middle = (await shop.client.post(PATH, headers=bearer(old))).json()["data"]["token"]
    new = (await shop.client.post(PATH, headers=bearer(middle))).json()["data"]["token"]
    await ledger.give_back(taken, 3)

    assert await balance(shop, new) == 10
    assert await shop.service.ledger.balance(account) == 0


async def test_a_lost_rotation_is_answered_again_with_its_key(shop: SellingApi) -> None:
    old, _ = await bought(shop)
    headers = bearer(old) | {"Idempotency-Key": OTHER_KEY}
    answers = await asyncio.gather(*(shop.client.post(PATH, headers=headers) for _ in range(5)))
    data = [answer.json()["data"] for answer in answers]

    assert [answer.status_code for answer in answers] == [201] * 5
    assert data == [data[0]] * 5
    assert await balance(shop, data[0]["token"]) == 10
    stolen = await shop.client.post(PATH, headers=bearer(old) | {"Idempotency-Key": "g" * 20})
    assert refusal(stolen) == (401, "INVALID_TOKEN")


@asynccontextmanager
async def stalling(store: SqlPaymentStore) -> AsyncIterator[None]:
    """Make *store* stall in the next rotation until the end, and refuse waiters soon."""
    inner: dict[str, Any] = vars(store)
    group = inner["_group"]
    group.patience_s = HASTY_S
    committed = asyncio.Event()
    group.delivered = lambda _: committed.set()
    purchase = inner["_table"].purchase
    rotate, thawed = purchase.rotate, threading.Event()

    def rotate_and_stall(*values: Any) -> Any:
        moved = rotate(*values)
        assert thawed.wait(10)
        return moved

    purchase.rotate = rotate_and_stall
    yield
    thawed.set()
    await committed.wait()


@pytest.mark.parametrize("key", [None, OTHER_KEY])
async def test_a_rotation_of_unknown_outcome_is_repeated_with_the_key_of_its_response(
    shop: SellingApi, world: World, key: str | None
) -> None:
    old, _ = await bought(shop)
    headers = bearer(old) | ({} if key is None else {"Idempotency-Key": key})
    async with stalling(world.stores[-1]):
        unknown = await shop.client.post(PATH, headers=headers)
        assert refusal(unknown) == (503, "SERVICE_UNAVAILABLE")
        assert "may have been moved" in unknown.json()["error"]["message"]
    given = unknown.headers["idempotency-key"]
    again = await shop.client.post(PATH, headers=bearer(old) | {"Idempotency-Key": given})

    assert key in {None, given}
    assert again.status_code == 201
    assert again.json()["data"]["credits"] == await balance(shop, again.json()["data"]["token"])
    assert again.json()["data"]["credits"] == 10


async def test_the_wallet_that_paid_moves_the_credits(shop: SellingApi, world: World) -> None:
    lost, purchase = await bought(shop)
    body = await proof(shop, purchase, world.buyer)
    response = await shop.client.post(PATH, json=body)

    assert response.status_code == 201
    new = response.json()["data"]["token"]
    assert (await balance(shop, new), await balance(shop, lost)) == (10, 0)
    again = await shop.client.post(PATH, json=body)
    assert again.json()["data"] == response.json()["data"]
    late = await shop.client.post(PATH, json=await proof(shop, purchase, world.buyer))
    assert refusal(late) == (409, "ROTATED_RECENTLY")


async def test_the_challenge_is_readable_and_expires(shop: SellingApi, world: World) -> None:
    _, purchase = await bought(shop)
    body = await proof(shop, purchase, world.buyer)
    assert body["challenge"].startswith(ORIGIN)
    assert purchase in body["challenge"]
    world.clock.advance(301_000)

    response = await shop.client.post(PATH, json=body)
    assert refusal(response) == (401, "INVALID_PROOF")
    assert "expired" in response.json()["error"]["message"]


async def test_only_the_wallet_that_paid_can_move_the_credits(
    shop: SellingApi, world: World
) -> None:
    token, purchase = await bought(shop)
    thief = world.fund("thief")
    theirs = await proof(shop, purchase, world.buyer)
    attempts: list[dict[str, str]] = [
        await proof(shop, purchase, thief),
        await proof(shop, purchase, world.buyer, signer=thief),
        await proof(shop, SOME_SIGNATURE, world.buyer),
        theirs | {"signature": SOME_SIGNATURE},
        theirs | {"challenge": theirs["challenge"].replace("move", "keep")},
        theirs | {"challenge": ""},
        theirs | {"purchase": SOME_SIGNATURE},
        theirs | {"wallet": str(thief.pubkey())},
    ]
    texts = set()
    for attempt in attempts:
        response = await shop.client.post(PATH, json=attempt)
        assert refusal(response) == (401, "INVALID_PROOF")
        texts.add(response.json()["error"]["message"])

    assert len(texts) == 1
    assert await balance(shop, token) == 10


async def test_the_payment_for_a_report_is_refused_as_a_proof(
    shop: SellingApi, world: World
) -> None:
    path = f"/v1/token/{TRACKED}"
    response = await shop.send("GET", path, await shop.paid("GET", path))
    purchase = decoded(response, "payment-response")["transaction"]

    refused = await shop.client.post(PATH, json=await proof(shop, purchase, world.buyer))
    assert refusal(refused) == (401, "INVALID_PROOF")


async def test_a_wallet_cannot_rotate_a_credit_token_that_was_just_used(
    shop: SellingApi, world: World
) -> None:
    token, purchase = await bought(shop)
    await shop.client.get(f"/v1/token/{TRACKED}", headers=bearer(token))

    refused = await shop.client.post(PATH, json=await proof(shop, purchase, world.buyer))
    assert refusal(refused) == (409, "ROTATED_RECENTLY")
    assert (await shop.client.post(PATH, headers=bearer(token))).json()["data"]["credits"] == 9


async def test_a_rotated_purchase_is_not_answered_again(shop: SellingApi) -> None:
    """The answer of the purchase is the old token, which has no credits."""
    payment = await shop.paid("POST", PURCHASE)
    first = await shop.send("POST", PURCHASE, payment, key=KEY)
    await shop.client.post(PATH, headers=bearer(first.json()["data"]["token"]))

    assert refusal(await shop.send("POST", PURCHASE, payment, key=KEY))[0] == 409


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, "MISSING_TOKEN"),
        (bearer(""), "MISSING_TOKEN"),
        (bearer("x"), "INVALID_TOKEN"),
        (bearer("svc_live_" + "0" * 80), "INVALID_TOKEN"),
    ],
)
async def test_a_rotation_without_a_proof_is_401(
    shop: SellingApi, headers: dict[str, str], code: str
) -> None:
    assert refusal(await shop.client.post(PATH, headers=headers)) == (401, code)


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b"null", b"{}", b'{"purchase":1,"wallet":""}', b'{"purchase":"","wallet":""}',
     b"\xff\xfe", b'{"purchase":"a","wallet":"b","more":1}', b"[" * 10_000],
)  # fmt: skip
@pytest.mark.parametrize("path", [PATH, CHALLENGE])
async def test_a_body_that_cannot_be_read_is_400(shop: SellingApi, path: str, body: bytes) -> None:
    assert refusal(await shop.client.post(path, content=body)) == (400, "BAD_REQUEST")


async def test_a_body_that_is_too_large_is_413(shop: SellingApi) -> None:
    response = await shop.client.post(CHALLENGE, content=b" " * 16_385)

    assert refusal(response) == (413, "PAYLOAD_TOO_LARGE")


async def test_a_credit_token_together_with_a_proof_is_400(shop: SellingApi, world: World) -> None:
    token, purchase = await bought(shop)
    body: Any = await proof(shop, purchase, world.buyer)

    response = await shop.client.post(PATH, json=body, headers=bearer(token))
    assert refusal(response) == (400, "BAD_REQUEST")
    assert await balance(shop, token) == 10


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "expected a JSON object; the body is not complete JSON"),
        (b"nope", "expected a JSON object; the body is not JSON: invalid character near byte 4"),
        (b"[]", "expected a JSON object; the body is another JSON value"),
        (b"[" * 10_000, "expected JSON at most 8 deep"),
        (b'{"wallet":"a","wallet":"b"}', "expected each field once; one is there twice"),
        (b'{"purchase":1,"wallet":""}',
         "expected the fields purchase, wallet, each a string, and no other field"),
    ],
)  # fmt: skip
async def test_the_error_for_an_unreadable_body_names_the_problem(
    shop: SellingApi, body: bytes, said: str
) -> None:
    headers = {"Content-Type": "application/json"}
    response = await shop.client.post(CHALLENGE, content=body, headers=headers)

    assert refusal(response) == (400, "BAD_REQUEST")
    assert response.json()["error"]["message"] == said


async def test_rotations_do_not_reset_the_rate_limit(world: World) -> None:
    """A credit token and all its successors share 30 requests in 60 s."""
    async with opened(world, api=ApiConfig()) as shop:
        token, _ = await bought(shop)
        statuses = []
        for _ in range(8):
            for _ in range(4):
                response = await shop.client.get("/v1/credits/balance", headers=bearer(token))
                statuses.append(response.status_code)
            response = await shop.client.post(PATH, headers=bearer(token))
            statuses.append(response.status_code)
            token = response.json().get("data", {"token": token})["token"]

    assert statuses == [200, 200, 200, 200, 201] * 6 + [429] * 10


async def test_rotations_are_limited_to_10_an_hour_over_successive_tokens(
    shop: SellingApi, world: World
) -> None:
    token, _ = await bought(shop)
    for _ in range(10):
        response = await shop.client.post(PATH, headers=bearer(token))
        assert response.status_code == 201
        token = response.json()["data"]["token"]
    world.clock.advance(61_000)  # only the limit of rotations is left

    refused = await shop.client.post(PATH, headers=bearer(token))
    assert refusal(refused) == (429, "RATE_LIMITED")
    assert 3_500 <= int(refused.headers["retry-after"]) <= 3_600
    assert await balance(shop, token) == 10
    world.clock.advance(3_600_000)
    assert (await shop.client.post(PATH, headers=bearer(token))).status_code == 201


async def test_an_empty_credit_token_is_not_rotated(shop: SellingApi) -> None:
    token, _ = await bought(shop)
    for _ in range(10):
        await shop.client.get(f"/v1/token/{TRACKED}", headers=bearer(token))

    response = await shop.client.post(PATH, headers=bearer(token))
    assert refusal(response) == (409, "NOTHING_TO_ROTATE")


async def test_a_rotated_credit_token_is_not_rotated_again(shop: SellingApi, world: World) -> None:
    token, _ = await bought(shop)
    await shop.client.post(PATH, headers=bearer(token))
    world.clock.advance(1)

    assert refusal(await shop.client.post(PATH, headers=bearer(token))) == (401, "INVALID_TOKEN")


async def test_no_wallet_can_move_credits_that_their_holder_has_rotated(
    shop: SellingApi, world: World
) -> None:
    """The receiver of a credit token has rotated it; the wallet that bought it is refused."""
    given, purchase = await bought(shop)
    kept = (await shop.client.post(PATH, headers=bearer(given))).json()["data"]["token"]
    world.clock.advance(86_400_000)

    refused = await shop.client.post(PATH, json=await proof(shop, purchase, world.buyer))
    assert refusal(refused) == (409, "NOTHING_TO_ROTATE")
    assert await balance(shop, kept) == 10


async def test_a_rotation_is_503_if_payments_are_off(service: Service) -> None:
    token = await service.issue(1)

    response = await service.client.post(PATH, headers=bearer(token))
    assert refusal(response) == (503, "PAYMENT_UNAVAILABLE")
