"""/v1/account: the credits of a user, moves to and from credit tokens, and caps of keys."""

import asyncio
from typing import Any, Final

import httpx
import pytest

from mintscope.accounts.keys.scope import Scope
from mintscope.app.config.config import ApiConfig
from mintscope.app.web_api import limits_of
from mintscope.credits.ledger import NUMBERS
from mintscope.kit.credentials import CredentialKind, is_well_formed
from mintscope.kit.time import HOUR_MS, month_end, month_of
from support.fakes.reports import TRACKED
from support.scenes.people.agent import Agent
from support.scenes.service import NOW, Service, bearer, credit_token, refusal

ACCOUNT: Final = "/v1/account"
DEPOSIT: Final = "/v1/account/credits/deposit"
WITHDRAW: Final = "/v1/account/credits/withdraw"
IDEMPOTENCY_KEY: Final = "a-key-that-is-hard-to-guess"


@pytest.fixture
async def key(service: Service) -> str:
    return await Agent(service).key(Scope.TRADE_WRITE)


async def post(
    service: Service, key: str, path: str, body: Any, *, idempotency_key: str = ""
) -> httpx.Response:
    headers = bearer(key) | ({"idempotency-key": idempotency_key} if idempotency_key else {})
    return await service.client.post(path, json=body, headers=headers)


async def account(service: Service, key: str) -> dict[str, Any]:
    response = await service.client.get(ACCOUNT, headers=bearer(key))
    assert response.status_code == 200, response.text
    data: dict[str, Any] = response.json()["data"]
    return data


async def test_an_account_is_shown_with_the_credits_of_each_key(service: Service, key: str) -> None:
    before = await account(service, key)
    assert before["balance"] == 0
    assert before["monthEndsAt"] == month_end(month_of(NOW)) // 1000
    await post(service, key, DEPOSIT, {"creditToken": await service.issue(5)})
    await service.client.get(f"/v1/token/{TRACKED}", headers=bearer(key))

    after = await account(service, key)
    me = (await service.client.get("/v1/me", headers=bearer(key))).json()["data"]
    rows = service.accounts.rows("SELECT endpoint FROM credit_entry WHERE kind = 'spend'")
    assert rows == [(NUMBERS["GET /v1/token/{tokenAddress}"],)]
    assert after == before | {"balance": 4, "keys": after["keys"]}
    assert (after["userId"], after["username"]) == (me["userId"], me["username"])
    assert after["keys"] == [
        {
            "keyId": me["keyId"],
            "name": me["keyName"],
            "hint": me["keyHint"],
            "scopes": me["scopes"],
            "monthCredits": 1,
            "monthCreditsMax": None,
        }
    ]


async def test_a_credit_token_is_moved_into_the_account_in_part_or_whole(
    service: Service, key: str
) -> None:
    token = await service.issue(10)
    part = await post(service, key, DEPOSIT, {"creditToken": token, "credits": 3})
    rest = await post(service, key, DEPOSIT, {"creditToken": token})

    assert part.json()["data"] == {"credits": 3, "balance": 3, "tokenBalance": 7}
    assert rest.json()["data"] == {"credits": 7, "balance": 10, "tokenBalance": 0}
    assert await service.left(token) == 0
    history = await service.client.get("/v1/credits/history", headers=bearer(token))
    assert [(each["kind"], each["credits"]) for each in history.json()["data"]["entries"]] == [
        ("deposit", -7),
        ("deposit", -3),
        ("grant", 10),
    ]


async def test_a_withdrawal_issues_a_new_credit_token(service: Service, key: str) -> None:
    await post(service, key, DEPOSIT, {"creditToken": await service.issue(10)})
    drawn = await post(service, key, WITHDRAW, {"credits": 4})

    assert drawn.status_code == 201
    assert drawn.headers["cache-control"] == "no-store"
    data = drawn.json()["data"]
    token = data.pop("token")
    assert data == {"credits": 4, "balance": 6}
    assert is_well_formed(CredentialKind.CREDIT_TOKEN, token)
    response = await service.client.get(f"/v1/token/{TRACKED}", headers=bearer(token))
    assert response.headers["x-credits-remaining"] == "3"
    everything = await post(service, key, WITHDRAW, {})
    assert everything.json()["data"]["credits"] == 6
    assert (await account(service, key))["balance"] == 0


async def test_deposits_are_limited_to_60_an_hour(service: Service, key: str) -> None:
    """Deposits and withdrawals can be repeated for ever, and each deposit leaves three rows."""
    token = await service.issue(100)
    statuses = []
    for _ in range(61):
        moved = await post(service, key, DEPOSIT, {"creditToken": token, "credits": 1})
        statuses.append(moved.status_code)
        # Slow enough for the limit of 60 requests a minute of the key.
        service.clock.advance(1_000)

    assert statuses == [200] * 60 + [429]
    assert 3_500 <= int(moved.headers["retry-after"]) <= 3_600
    assert await service.left(token) == 40
    service.clock.advance(3_600_000)
    assert (await post(service, key, DEPOSIT, {"creditToken": token})).status_code == 200
    assert (await account(service, key))["balance"] == 100


async def test_a_reload_of_the_rotation_limit_changes_withdrawals_and_deposits_too(
    service: Service, key: str
) -> None:
    for limit in limits_of(ApiConfig(rotation_limit_requests=2, rotation_limit_window_s=90)):
        service.limits.change(limit)
    token = await service.issue(10)
    deposit = await post(service, key, DEPOSIT, {"creditToken": token})
    withdrawals = [await post(service, key, WITHDRAW, {"credits": 1}) for _ in range(3)]

    assert deposit.headers["ratelimit-policy"] == '"deposits";q=12;w=90'
    assert withdrawals[0].headers["ratelimit-policy"] == '"withdrawals";q=2;w=90'
    assert [each.status_code for each in withdrawals] == [201, 201, 429]


async def test_the_same_request_with_the_same_idempotency_key_moves_credits_once(
    service: Service, key: str
) -> None:
    token = await service.issue(10)
    body = {"creditToken": token, "credits": 4}
    deposits = await asyncio.gather(
        *(post(service, key, DEPOSIT, body, idempotency_key=IDEMPOTENCY_KEY) for _ in range(5))
    )
    assert {each.json()["data"]["credits"] for each in deposits} == {4}
    assert await service.left(token) == 6

    other = "another-key-that-is-hard-to-guess"
    drawn = await asyncio.gather(
        *(post(service, key, WITHDRAW, {"credits": 3}, idempotency_key=other) for _ in range(5))
    )
    assert len({each.json()["data"]["token"] for each in drawn}) == 1
    assert (await account(service, key))["balance"] == 1
    for path, changed in ((DEPOSIT, body | {"credits": 5}), (WITHDRAW, {"credits": 1})):
        again = await post(service, key, path, changed, idempotency_key=IDEMPOTENCY_KEY)
        assert refusal(again) == (409, "IDEMPOTENCY_KEY_USED")
    assert await service.left(token) == 6


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        (DEPOSIT, {"creditToken": credit_token(999)}, (401, "INVALID_TOKEN")),
        (DEPOSIT, {"creditToken": "svc_live_" + "0" * 80}, (401, "INVALID_TOKEN")),
        (DEPOSIT, {"credits": 3}, (400, "BAD_REQUEST")),
        (DEPOSIT, {"creditToken": 3}, (400, "BAD_REQUEST")),
        (WITHDRAW, {"credits": 0}, (400, "BAD_REQUEST")),
        (WITHDRAW, {"credits": -1}, (400, "BAD_REQUEST")),
        (WITHDRAW, {"credits": 1, "more": 1}, (400, "BAD_REQUEST")),
        (WITHDRAW, {"credits": 1.5}, (400, "BAD_REQUEST")),
        (WITHDRAW, {"credits": 2.0**53}, (400, "BAD_REQUEST")),
        (WITHDRAW, {"credits": 1.0}, (402, "INSUFFICIENT_CREDITS")),  # JSON's one is an integer
        (WITHDRAW, [], (400, "BAD_REQUEST")),
        (WITHDRAW, {"credits": 1}, (402, "INSUFFICIENT_CREDITS")),
        (WITHDRAW, {}, (402, "INSUFFICIENT_CREDITS")),
    ],
)
async def test_an_invalid_deposit_or_withdrawal_is_refused(
    service: Service, key: str, path: str, body: Any, expected: tuple[int, str]
) -> None:
    assert refusal(await post(service, key, path, body)) == expected
    assert service.accounts.rows("SELECT id FROM credit_move") == []


async def test_the_error_of_an_invalid_body_names_the_field(service: Service, key: str) -> None:
    token = await service.issue(2)
    for path, body, message in (
        (WITHDRAW, {"credits": 0}, "credits: expected an integer of at least 1; there was 0"),
        (WITHDRAW, {"more": 1}, "expected only the fields credits; there was more"),
        (
            DEPOSIT,
            {"creditToken": token, "credits": token},
            f"credits: expected an integer; there was text of {len(token)} characters",
        ),
    ):
        response = await post(service, key, path, body)
        assert refusal(response) == (400, "BAD_REQUEST")
        assert response.json()["error"]["message"] == message


async def test_a_deposit_of_more_credits_than_the_credit_token_has_is_refused(
    service: Service, key: str
) -> None:
    token = await service.issue(2)
    asked = {"creditToken": token, "credits": 3}
    refused = await post(service, key, DEPOSIT, asked)
    assert refusal(refused) == (402, "INSUFFICIENT_CREDITS")
    assert "the credit token has a balance of 2" in refused.json()["error"]["message"]
    assert await service.left(token) == 2


async def test_a_withdrawal_of_more_credits_than_the_account_has_is_refused(
    service: Service, key: str
) -> None:
    await post(service, key, DEPOSIT, {"creditToken": await service.issue(4)})
    refused = await post(service, key, WITHDRAW, {"credits": 5})
    assert refusal(refused) == (402, "INSUFFICIENT_CREDITS")
    assert "the account has a balance of 4" in refused.json()["error"]["message"]


async def test_moves_and_caps_need_the_scope_trade_write(service: Service) -> None:
    key = await Agent(service).key()
    for method, path in (
        ("POST", DEPOSIT),
        ("POST", WITHDRAW),
        ("PATCH", "/v1/account/keys/1"),
    ):
        response = await service.client.request(method, path, json={}, headers=bearer(key))
        assert refusal(response) == (403, "INSUFFICIENT_SCOPE")
    assert (await service.client.get(ACCOUNT)).status_code == 401


async def test_a_cap_can_be_lowered_by_a_key_and_not_raised(service: Service, key: str) -> None:
    key_id = (await account(service, key))["keys"][0]["keyId"]
    path = f"/v1/account/keys/{key_id}"

    async def cap(credits_max: Any, at: str = path) -> httpx.Response:
        body = {"monthCreditsMax": credits_max}
        return await service.client.patch(at, json=body, headers=bearer(key))

    first = {"keyId": key_id, "monthCreditsMax": 5, "networks": []}
    assert (await cap(5)).json()["data"] == first
    assert (await cap(5)).status_code == 200
    assert refusal(await cap(6)) == (403, "OWNER_ONLY")
    assert refusal(await cap(None)) == (400, "BAD_REQUEST")
    assert refusal(await cap(-1)) == (400, "BAD_REQUEST")
    assert (await cap(0)).status_code == 200
    for unknown in ("999", "x", "-1", "9" * 30):
        response = await cap(1, f"/v1/account/keys/{unknown}")
        assert refusal(response) == (404, "NOT_FOUND")
        assert "active API key with this number" in response.json()["error"]["message"]
    await post(service, key, DEPOSIT, {"creditToken": await service.issue(5)})
    response = await service.client.get(f"/v1/token/{TRACKED}", headers=bearer(key))
    assert refusal(response) == (402, "KEY_CAP_REACHED")
    assert (await account(service, key))["keys"][0]["monthCreditsMax"] == 0


async def test_the_networks_of_a_key_can_be_narrowed_by_a_key_and_not_widened(
    service: Service, key: str
) -> None:
    """A request with the key can narrow its networks; this applies from the next request on."""
    key_id = (await account(service, key))["keys"][0]["keyId"]
    path = f"/v1/account/keys/{key_id}"

    async def narrow(*networks: Any, **others: Any) -> httpx.Response:
        body = {"networks": networks} | others
        return await service.client.patch(path, json=body, headers=bearer(key))

    first = await narrow("127.0.0.0/8", "203.0.113.7", "2001:db8::/32")
    held = ["127.0.0.0/8", "203.0.113.7/32", "2001:db8::/32"]
    assert first.json()["data"] == {"keyId": key_id, "monthCreditsMax": None, "networks": held}
    for wider in ("0.0.0.0/0", "126.0.0.0/7", "203.0.113.0/24", "192.0.2.1", "::/0"):
        assert refusal(await narrow("127.0.0.1", wider)) == (403, "OWNER_ONLY")
    unusable = ("2001:db8::/65",), ("2001:db8::%eth0/64",), ("127.0.0.1",) * 21
    for wrong in (("here",), ("",), (), *unusable, (7,)):
        assert refusal(await narrow(*wrong)) == (400, "BAD_REQUEST"), wrong
    nothing = await service.client.patch(path, json={}, headers=bearer(key))
    assert refusal(nothing) == (400, "BAD_REQUEST")
    assert refusal(await narrow("127.0.0.1", monthCreditsMax=-1)) == (400, "BAD_REQUEST")
    both = await narrow("127.0.0.1", "2001:db8:7::/48", monthCreditsMax=9)
    held = ["127.0.0.1/32", "2001:db8:7::/48"]
    assert both.json()["data"] == {"keyId": key_id, "monthCreditsMax": 9, "networks": held}
    assert (await narrow("2001:db8:7::/48")).status_code == 200
    assert (await narrow("2001:db8:7::/48")).status_code == 401


async def test_a_key_cannot_get_around_its_cap_by_a_credit_token(
    service: Service, key: str
) -> None:
    await post(service, key, DEPOSIT, {"creditToken": await service.issue(5)})
    sent_key = {"idempotency_key": "a-key-that-is-hard-to-guess"}
    drawn = await post(service, key, WITHDRAW, {"credits": 1}, **sent_key)
    key_id = (await account(service, key))["keys"][0]["keyId"]
    cap, path = {"monthCreditsMax": 1_000}, f"/v1/account/keys/{key_id}"
    await service.client.patch(path, json=cap, headers=bearer(key))

    assert refusal(await post(service, key, WITHDRAW, {"credits": 1})) == (403, "OWNER_ONLY")
    assert (await account(service, key))["balance"] == 4
    again = await post(service, key, WITHDRAW, {"credits": 1}, **sent_key)
    assert again.json()["data"]["token"] == drawn.json()["data"]["token"]


async def test_the_cap_of_another_users_key_is_404(service: Service, key: str) -> None:
    service.clock.advance(HOUR_MS)
    other = await Agent(service, "other@example.org").key(Scope.TRADE_WRITE)
    key_id = (await account(service, other))["keys"][0]["keyId"]
    body = {"monthCreditsMax": 0}
    path = f"/v1/account/keys/{key_id}"
    response = await service.client.patch(path, json=body, headers=bearer(key))
    assert refusal(response) == (404, "NOT_FOUND")


async def test_the_eleventh_withdrawal_in_an_hour_is_429(service: Service, key: str) -> None:
    await post(service, key, DEPOSIT, {"creditToken": await service.issue(50)})
    drawn = [await post(service, key, WITHDRAW, {"credits": 1}) for _ in range(11)]
    assert [each.status_code for each in drawn] == [201] * 10 + [429]
    assert (await account(service, key))["balance"] == 40


async def test_an_api_key_cannot_be_rotated_like_a_credit_token(service: Service, key: str) -> None:
    response = await service.client.post("/v1/credits/rotate", headers=bearer(key))
    assert response.status_code in {401, 503}
    assert (await account(service, key))["balance"] == 0
