"""GET /v1/me: the owner and the scopes of an API key; an invalid key is refused."""

import pytest

from mintscope.accounts.keys.scope import Scope
from support.scenes.people.agent import Agent
from support.scenes.service import NOW, Service, bearer

ME = "/v1/me"


@pytest.fixture
async def key(service: Service) -> str:
    return await Agent(service).key(Scope.TRADE_WRITE)


async def test_the_owner_and_the_scopes_of_the_key_are_returned(service: Service, key: str) -> None:
    service.clock.advance(7_000)
    response = await service.client.get(ME, headers=bearer(key))

    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    body = response.json()
    assert body.keys() == {"success", "data", "meta"}
    assert body["success"] is True
    assert body["meta"]["requestId"] == response.headers["x-request-id"]
    data = body["data"]
    assert set(data) == {
        *("userId", "username", "keyId", "keyName", "keyHint", "scopes"),
        *("createdAt", "expiresAt", "lastUsedAt"),
    }
    assert isinstance(data["userId"], int)
    assert isinstance(data["keyId"], int)
    assert data["username"].startswith("agent-")
    assert data["keyName"]
    assert data["keyHint"] == f"...{key[-8:]}"
    assert data["scopes"] == [
        "trade:read", "trade:write", "wallets:read", "signals:read", "groups:read",
    ]  # fmt: skip
    assert data["createdAt"] == NOW // 1000
    assert data["expiresAt"] is None
    assert data["lastUsedAt"] is None  # this request is not recorded yet


async def test_the_last_use_of_a_key_is_shown_after_it_is_written(
    service: Service, key: str
) -> None:
    await service.client.get(ME, headers=bearer(key))
    await service.accounts.keys.flush()

    data = (await service.client.get(ME, headers=bearer(key))).json()["data"]

    assert data["lastUsedAt"] == NOW // 1000


async def test_401_missing_token(service: Service) -> None:
    for headers in (
        {},
        {"authorization": ""},
        {"authorization": "Basic eDp5"},
        {"authorization": "Bearer"},
    ):
        response = await service.client.get(ME, headers=headers)

        assert response.status_code == 401
        assert response.json()["error"]["code"] == "MISSING_TOKEN"
        assert "svc_live_" in response.json()["error"]["message"]
        assert response.json()["success"] is False


async def test_401_invalid_token_for_an_unknown_or_malformed_key(service: Service) -> None:
    messages = set()
    for value in ("x", "svc_live_" + "0" * 80, "svc_live_", "svc_app_" + "0" * 64):
        response = await service.client.get(ME, headers=bearer(value))

        assert response.status_code == 401
        assert response.json()["error"]["code"] == "INVALID_TOKEN"
        messages.add(response.json()["error"]["message"])
    assert len(messages) == 1


async def test_the_error_for_a_credit_token_explains_credit_tokens(service: Service) -> None:
    token = await service.issue(1)

    response = await service.client.get(ME, headers=bearer(token))

    assert (response.status_code, response.json()["error"]["code"]) == (401, "INVALID_TOKEN")
    assert "a credit token (svc_credit_) pays for requests" in response.json()["error"]["message"]
    assert await service.left(token) == 1


async def test_a_key_altered_by_one_digit_is_unknown(service: Service, key: str) -> None:
    altered = key[:-1] + ("0" if key[-1] != "0" else "1")

    assert (await service.client.get(ME, headers=bearer(altered))).status_code == 401


async def test_a_revoked_key_is_invalid_at_once(service: Service, key: str) -> None:
    service.accounts.change("UPDATE api_key SET revoked_at = ?", int(NOW))

    response = await service.client.get(ME, headers=bearer(key))

    assert (response.status_code, response.json()["error"]["code"]) == (401, "INVALID_TOKEN")


async def test_an_expired_key_is_invalid_at_once(service: Service, key: str) -> None:
    service.accounts.change("UPDATE api_key SET expires_at = ?", int(NOW) + 1_000)
    service.clock.advance(999)
    good = await service.client.get(ME, headers=bearer(key))
    service.clock.advance(1)
    late = await service.client.get(ME, headers=bearer(key))

    assert (good.status_code, late.status_code) == (200, 401)
    assert good.json()["data"]["expiresAt"] == NOW // 1000 + 1


async def test_the_key_of_a_removed_account_is_invalid(service: Service, key: str) -> None:
    ((user_id,),) = service.accounts.rows('SELECT id FROM "user"')
    await service.accounts.remove_user(user_id)

    assert (await service.client.get(ME, headers=bearer(key))).status_code == 401


async def test_two_authorization_headers_are_400(service: Service, key: str) -> None:
    twice = [("authorization", f"Bearer {key}"), ("authorization", f"Bearer {key}")]
    response = await service.client.get(ME, headers=twice)

    assert (response.status_code, response.json()["error"]["code"]) == (400, "BAD_REQUEST")
