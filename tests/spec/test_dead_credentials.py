"""A credential that is not valid gets INVALID_TOKEN at every operation, and takes nothing.

The states of invalid credentials are those in the table of docs/api/credits.md; the operations and
their credentials are those of the OpenAPI description.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from mintscope.accounts.keys.scope import Scope
from mintscope.kit.time import HOUR_MS
from support.deployment import ROOT
from support.fakes.reports import TRACKED
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import KEY, PURCHASE, SellingApi
from support.scenes.people.agent import Agent
from support.scenes.service import bearer

CREDIT_TOKEN, API_KEY = "creditToken", "apiKey"
PLACES: Final = {"tokenAddress": TRACKED, "mint": TRACKED, "wallet": TRACKED}
PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
SCOPES: Final = (
    Scope.TRADE_WRITE,
    Scope.WALLETS_WRITE,
    Scope.SIGNALS_WRITE,
    Scope.GROUPS_WRITE,
)
Make = Callable[[SellingApi], Awaitable[str]]


async def unknown_token(_shop: SellingApi) -> str:
    return "svc_credit_" + "0123456789abcdef" * 4


async def rotated_token(shop: SellingApi) -> str:
    token = (await shop.buy()).json()["data"]["token"]
    answer = await shop.client.post("/v1/credits/rotate", headers=bearer(token))
    assert answer.status_code == 201
    return str(token)


async def unknown_key(shop: SellingApi) -> str:
    key = await Agent(shop.service).key(*SCOPES)
    return key[:-1] + ("0" if key[-1] != "0" else "1")


async def revoked_key(shop: SellingApi) -> str:
    key = await Agent(shop.service).key(*SCOPES)
    answer = await shop.client.delete("/v1/me/key", headers=bearer(key))
    assert answer.is_success
    return key


async def rotated_key(shop: SellingApi) -> str:
    key = await Agent(shop.service).key(*SCOPES)
    body = {"overlap": "1h"}
    answer = await shop.client.post("/v1/me/key/rotate", json=body, headers=bearer(key))
    assert answer.status_code == 201
    shop.world.clock.advance(HOUR_MS)
    return key


async def key_of_a_removed_account(shop: SellingApi) -> str:
    key = await Agent(shop.service).key(*SCOPES)
    me = (await shop.client.get("/v1/me", headers=bearer(key))).json()["data"]
    await shop.service.accounts.remove_user(me["userId"])
    return key


STATES: Final[dict[str, tuple[str, Make]]] = {
    "a credit token that was never issued": (CREDIT_TOKEN, unknown_token),
    "a credit token that was rotated": (CREDIT_TOKEN, rotated_token),
    "an API key that was never issued": (API_KEY, unknown_key),
    "an API key that was revoked": (API_KEY, revoked_key),
    "an API key that has ended, by its date or after the `overlap` of its rotation: an hour, 24"
    " hours or 7 days": (API_KEY, rotated_key),
    "an API key of a removed account": (API_KEY, key_of_a_removed_account),
}


def listed(example: Any) -> list[str]:
    return [str(each) for each in (example if isinstance(example, list) else [example])]


def calls(document: dict[str, Any], kind: str) -> list[tuple[str, str, Any]]:
    """Return method, path and body of each operation that takes a credential of *kind*."""
    found = []
    for path, operations in document["paths"].items():
        for method, each in operations.items():
            if not any(kind in one for one in each.get("security", [])):
                continue
            asked = each.get("requestBody", {"required": False})
            body = asked["content"]["application/json"]["example"] if asked["required"] else None
            needed = [f"{one['name']}={','.join(listed(one['example']))}"
                      for one in each.get("parameters", [])
                      if one["in"] == "query" and one.get("required")]  # fmt: skip
            target = PLACEHOLDER.sub(lambda match: PLACES.get(match[1], "1"), path)
            found.append((method.upper(), f"{target}?{'&'.join(needed)}", body))
    return found


@pytest.mark.parametrize("state", STATES)
async def test_an_invalid_credential_is_401_at_every_operation_and_sends_no_payment(
    shop: SellingApi, world: World, state: str
) -> None:
    kind, make = STATES[state]
    dead = await make(shop)
    document = (await shop.client.get("/openapi.json")).json()
    asked = calls(document, kind)
    sent, received = world.calls.count("sendTransaction"), world.received()

    assert len(asked) > 8
    for method, target, body in asked:
        content: Any = {} if body is None else {"json": body}
        answer = await shop.client.request(method, target, headers=bearer(dead), **content)
        assert answer.status_code == 401, (method, target, answer.text)
        if not target.startswith("/v1/udf/"):  # its errors have no code
            assert answer.json()["error"]["code"] == "INVALID_TOKEN", (method, target)
        assert answer.headers["www-authenticate"].endswith('error="invalid_token"')
    paid = await shop.send("POST", PURCHASE, await shop.paid("POST", PURCHASE), key=KEY + "-again",
                           **bearer(dead))  # fmt: skip
    assert paid.json()["error"]["code"] == "INVALID_TOKEN"
    assert (world.calls.count("sendTransaction"), world.received()) == (sent, received)


def test_the_docs_list_each_state_of_an_invalid_credential() -> None:
    page = (ROOT / "docs" / "api" / "credits.md").read_text()
    for state in STATES:
        assert f"\n| {state} | 401 `INVALID_TOKEN` |" in page
