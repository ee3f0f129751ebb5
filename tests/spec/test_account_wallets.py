"""/v1/account/wallets and /v1/account/payments: linked wallets, and the payments of wallets."""

from typing import Any, Final

import httpx
import pytest
from solders.keypair import Keypair

from mintscope.accounts.keys.scope import Scope
from support.scenes.people.agent import Agent
from support.scenes.service import NOW, Service, bearer, refusal

WALLETS: Final = "/v1/account/wallets"
PAYMENTS: Final = "/v1/account/payments"
WALLET: Final = Keypair.from_seed(bytes(range(32)))
OTHER: Final = Keypair.from_seed(bytes(32))


@pytest.fixture
async def key(service: Service) -> str:
    return await Agent(service).key(Scope.WALLETS_WRITE)


async def post(service: Service, key: str, path: str, **body: str) -> httpx.Response:
    return await service.client.post(path, json=body, headers=bearer(key))


async def challenge(service: Service, key: str, wallet: Keypair = WALLET) -> str:
    response = await post(service, key, f"{WALLETS}/challenge", wallet=str(wallet.pubkey()))
    assert response.status_code == 200, response.text
    assert response.json()["data"]["expiresAt"] == NOW // 1000 + 300
    return str(response.json()["data"]["challenge"])


async def link(
    service: Service, key: str, wallet: Keypair = WALLET, signer: Keypair | None = None
) -> httpx.Response:
    text = await challenge(service, key, wallet)
    signature = str((signer or wallet).sign_message(text.encode()))
    named = str(wallet.pubkey())
    return await post(service, key, WALLETS, wallet=named, challenge=text, signature=signature)


async def listed(service: Service, key: str) -> list[dict[str, Any]]:
    response = await service.client.get(WALLETS, headers=bearer(key))
    wallets: list[dict[str, Any]] = response.json()["data"]["wallets"]
    return wallets


async def test_a_wallet_is_linked_by_its_signature_and_unlinked(service: Service, key: str) -> None:
    assert await listed(service, key) == []
    linked = await link(service, key)
    assert linked.status_code == 201
    ours = {"wallet": str(WALLET.pubkey()), "linkedAt": NOW // 1000}
    assert linked.json()["data"]["wallets"] == await listed(service, key) == [ours]
    assert (await link(service, key)).json()["data"]["wallets"] == [ours]  # again

    path = f"{WALLETS}/{WALLET.pubkey()}"
    left = await service.client.delete(path, headers=bearer(key))
    assert left.json()["data"]["wallets"] == await listed(service, key) == []
    again = await service.client.delete(path, headers=bearer(key))
    assert refusal(again) == (404, "NOT_FOUND")
    assert again.json()["error"]["message"] == "This wallet is not linked to the account."


async def test_an_invalid_proof_links_no_wallet(service: Service, key: str) -> None:
    assert refusal(await link(service, key, signer=OTHER)) == (401, "INVALID_PROOF")
    text, ours = await challenge(service, key), str(WALLET.pubkey())
    signed = str(WALLET.sign_message(text.encode()))
    for body in (
        {"wallet": ours, "challenge": text + " ", "signature": signed},
        {"wallet": ours, "challenge": "x", "signature": signed},
        {"wallet": str(OTHER.pubkey()), "challenge": text, "signature": signed},
    ):
        assert refusal(await post(service, key, WALLETS, **body)) == (401, "INVALID_PROOF")
    service.clock.advance(301_000)
    late = await post(service, key, WALLETS, wallet=ours, challenge=text, signature=signed)
    assert refusal(late) == (401, "INVALID_PROOF")
    assert "expired" in late.json()["error"]["message"]
    assert await listed(service, key) == []


async def test_a_challenge_of_one_account_links_no_wallet_to_another(
    service: Service, key: str
) -> None:
    other = await Agent(service, "other@example.org").key(Scope.WALLETS_WRITE)
    text = await challenge(service, key)
    signed, ours = str(WALLET.sign_message(text.encode())), str(WALLET.pubkey())
    stolen = await post(service, other, WALLETS, wallet=ours, challenge=text, signature=signed)
    assert refusal(stolen) == (401, "INVALID_PROOF")


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("POST", WALLETS, {"wallet": "x"}, (400, "BAD_REQUEST")),
        ("POST", f"{WALLETS}/challenge", {"wallet": "x"}, (400, "BAD_REQUEST")),
        ("DELETE", f"{WALLETS}/x", None, (400, "BAD_REQUEST")),
        ("GET", f"{PAYMENTS}?limit=0", None, (400, "BAD_REQUEST")),
        ("GET", f"{PAYMENTS}?limit=101", None, (400, "BAD_REQUEST")),
        ("GET", f"{PAYMENTS}?cursor=x", None, (400, "BAD_REQUEST")),
    ],
)
async def test_an_invalid_request_is_400(  # noqa: PLR0913, PLR0917 - fixtures and cases
    service: Service, key: str, method: str, path: str, body: Any, expected: tuple[int, str]
) -> None:
    sent = {} if body is None else {"json": body}
    response = await service.client.request(method, path, headers=bearer(key), **sent)
    assert refusal(response) == expected


async def test_each_route_needs_its_scope(service: Service) -> None:
    reader = await Agent(service).key()
    assert (await service.client.get(WALLETS, headers=bearer(reader))).status_code == 200
    for method, path in (
        ("POST", WALLETS),
        ("POST", f"{WALLETS}/challenge"),
        ("DELETE", f"{WALLETS}/{WALLET.pubkey()}"),
    ):
        response = await service.client.request(method, path, headers=bearer(reader))
        assert refusal(response) == (403, "INSUFFICIENT_SCOPE")
    service.accounts.change("UPDATE api_key SET scopes = ?", '["trade:read"]')
    for path in (WALLETS, PAYMENTS):
        response = await service.client.get(path, headers=bearer(reader))
        assert refusal(response) == (403, "INSUFFICIENT_SCOPE")


def paid(service: Service, number: int, payer: Keypair, begun_at: int) -> None:
    """Insert a pending payment of *payer*, with *number* in its identifiers."""
    service.accounts.change(
        "INSERT INTO payment (message_hash, signature, payer, address, resource, amount, credits,"
        " key_hash, fee_lamports, last_valid_height, begun_at, lease_until, state, paid, final)"
        " VALUES (?, ?, ?, '', '/v1/token/x', 7, 0, ?, 5000, 1, ?, 0, 'pending', 0, 0)",
        number.to_bytes(32),
        f"signature {number}",
        str(payer.pubkey()),
        number.to_bytes(32),
        begun_at,
    )


async def test_payments_of_linked_wallets_come_in_pages(service: Service, key: str) -> None:
    begun = [int(NOW) + (number // 2) * 1_000 for number in range(5)]  # two at each time
    for number, at in enumerate(begun):
        paid(service, number, WALLET, at)
    paid(service, 9, OTHER, int(NOW))
    assert (await service.client.get(PAYMENTS, headers=bearer(key))).json()["data"] == {
        "payments": [],
        "nextCursor": None,
    }
    await link(service, key)
    seen, cursor = [], ""
    while True:
        path = f"{PAYMENTS}?limit=2{cursor}"
        data = (await service.client.get(path, headers=bearer(key))).json()["data"]
        seen += data["payments"]
        if data["nextCursor"] is None:
            break
        cursor = f"&cursor={data['nextCursor']}"

    assert [each["signature"] for each in seen] == [f"signature {n}" for n in (4, 3, 2, 1, 0)]
    assert seen[0] == {
        "signature": "signature 4",
        "wallet": str(WALLET.pubkey()),
        "resource": "/v1/token/x",
        "amount": 7,
        "paid": 0,
        "credits": 0,
        "state": "pending",
        "reason": None,
        "begunAt": begun[4] // 1000,
        "settledAt": None,
        "asset": None,  # the row is from before assets were stored
    }
