"""POST /api/auth/exchange-secret: an application secret is exchanged for an API key, once."""

import re
from typing import Any

import httpx
import pytest

from mintscope.accounts.keys.scope import READ_SCOPES, Scope
from mintscope.kit.credentials import CredentialKind, is_well_formed, make_application_secret
from mintscope.kit.errors import ServiceUnavailable
from support.scenes.accounts_service import EMAIL, EXCHANGE_PATH
from support.scenes.people.agent import Agent
from support.scenes.service import Service

STRANGER = make_application_secret(bytes(28))
WINDOW_MS = 5_000


@pytest.fixture
async def agent(service: Service) -> Agent:
    """An agent that has signed up."""
    agent = Agent(service)
    await agent.sign_up()
    return agent


async def approved(agent: Agent, *scopes: Scope) -> None:
    await agent.confirm()
    await agent.be_approved(*scopes)


def expect_refusal(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert (response.status_code, response.headers["x-error-code"]) == (status, code)
    assert response.headers["cache-control"] == "no-store"
    body = response.json()
    assert body["status"] == "error"
    assert body.keys() == {"status", "messages"} | ({"retryAfter"} if status == 429 else set())
    assert all(reported.keys() == {"field", "message"} for reported in body["messages"])
    return dict(body)


async def test_api_key_returned_once(agent: Agent) -> None:
    await approved(agent)

    response = await agent.exchange()

    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    body = response.json()
    assert body.keys() == {
        "status", "apiKey", "userId", "username", "keyHint", "scopes", "message",
    }  # fmt: skip
    assert body["status"] == "ok"
    assert re.fullmatch("svc_live_[0-9a-f]{80}", body["apiKey"])
    assert is_well_formed(CredentialKind.API_KEY, body["apiKey"])
    assert body["keyHint"] == f"...{body['apiKey'][-8:]}"
    assert isinstance(body["userId"], int)
    assert re.fullmatch("agent-[0-9a-f]+", body["username"])
    assert body["scopes"] == ["trade:read", "wallets:read", "signals:read", "groups:read"]
    for scope in ("trade:write", "wallets:write", "signals:write", "groups:write"):
        assert f"{scope} (" in body["message"]
    assert "cannot be shown again" in body["message"]


async def test_scopes_are_the_read_scopes_and_those_granted_at_approval(agent: Agent) -> None:
    await approved(agent, Scope.TRADE_WRITE, Scope.GROUPS_WRITE)

    scopes = (await agent.exchange()).json()["scopes"]

    assert set(scopes) == READ_SCOPES | {"trade:write", "groups:write"}
    assert scopes == [scope for scope in Scope if scope in scopes]


async def test_409_key_already_exists(agent: Agent) -> None:
    await approved(agent)
    await agent.exchange()
    agent.service.clock.advance(WINDOW_MS)

    body = expect_refusal(await agent.exchange(), 409, "KEY_ALREADY_EXISTS")

    assert body["messages"][0]["field"] == "general"


async def test_a_wrong_secret_is_401_after_the_key_was_issued(agent: Agent) -> None:
    await approved(agent)
    await agent.exchange()
    agent.service.clock.advance(WINDOW_MS)

    expect_refusal(await agent.exchange(STRANGER), 401, "INVALID_CREDENTIALS")


async def test_401_has_the_same_body_for_all_refused_credentials(agent: Agent) -> None:
    other = {"email": "no-one@example.org", "applicationSecret": agent.secret}
    answers = {
        "unknown e-mail": await agent.post(EXCHANGE_PATH, other),
        "wrong secret": await agent.exchange(STRANGER),
        "not confirmed": await agent.exchange(),
    }
    agent.service.clock.advance(WINDOW_MS)
    answers["malformed"] = await agent.exchange("svc_app_x")
    agent.service.clock.advance(WINDOW_MS)
    answers["wrong checksum"] = await agent.exchange("svc_app_" + "0" * 64)
    await agent.confirm()
    answers["not approved"] = await agent.exchange()

    assert {name: answer.status_code for name, answer in answers.items()} == dict.fromkeys(
        answers, 401
    )
    assert len({answer.content for answer in answers.values()}) == 1
    assert answers["wrong secret"].json() == {
        "status": "error",
        "messages": [
            {
                "field": "general",
                "message": "The e-mail address or the secret is wrong, or the application is not"
                " approved yet.",
            }
        ],
    }
    assert {name: answer.headers["x-error-code"] for name, answer in answers.items()} == {
        "unknown e-mail": "INVALID_CREDENTIALS",
        "wrong secret": "INVALID_CREDENTIALS",
        "not confirmed": "NOT_APPROVED",
        "malformed": "INVALID_SECRET_FORMAT",
        "wrong checksum": "INVALID_CREDENTIALS",
        "not approved": "NOT_APPROVED",
    }


async def test_an_unknown_email_and_a_wrong_secret_get_the_same_headers(agent: Agent) -> None:
    answers = [
        await agent.post(EXCHANGE_PATH, {"email": "x@example.org", "applicationSecret": STRANGER}),
        await agent.exchange(STRANGER),
    ]

    def seen(answer: httpx.Response) -> dict[str, str]:
        # Only the request id differs.
        differing = {"x-request-id"}
        return {name: value for name, value in answer.headers.items() if name not in differing}

    assert seen(answers[0]) == seen(answers[1])


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "svc_app_",
        "svc_app_" + "0" * 63,
        "svc_app_" + "0" * 65,
        "svc_app_" + "A" * 64,
        "svc_app_" + "0" * 64 + "\n",
        "svc_live_" + "0" * 64,
        "\u0660" * 72,
    ],
)
async def test_401_invalid_secret_format(service: Service, secret: str) -> None:
    response = await Agent(service).exchange(secret)

    expect_refusal(response, 401, "INVALID_SECRET_FORMAT")


async def test_404_account_not_found(agent: Agent) -> None:
    await approved(agent)
    user_id = (await agent.exchange()).json()["userId"]
    await agent.service.accounts.remove_user(user_id)
    agent.service.clock.advance(WINDOW_MS)

    wrong = await agent.exchange(STRANGER)
    body = expect_refusal(await agent.exchange(), 404, "ACCOUNT_NOT_FOUND")

    expect_refusal(wrong, 401, "INVALID_CREDENTIALS")
    assert body["messages"] == [
        {"field": "general", "message": "The account of this application was removed."}
    ]
    status = await agent.status()
    assert (status.status_code, status.json()["error"]["code"]) == (404, "ACCOUNT_NOT_FOUND")


async def test_429_with_retry_after_5(agent: Agent) -> None:
    await agent.exchange()
    agent.service.clock.advance(1_500)

    response = await agent.exchange()

    body = expect_refusal(response, 429, "RATE_LIMITED")
    assert body["retryAfter"] == 5
    assert response.headers["retry-after"] == "5"
    assert "wait 5 seconds" in body["messages"][0]["message"]


async def test_an_agent_that_waits_5_seconds_is_never_limited(agent: Agent) -> None:
    for _ in range(10):
        expect_refusal(await agent.exchange(), 401, "NOT_APPROVED")
        agent.service.clock.advance(WINDOW_MS)


@pytest.mark.parametrize("field", ["email", "applicationSecret"])
@pytest.mark.parametrize("value", [None, 7])
async def test_400_validation_error_names_the_field(
    agent: Agent, field: str, value: object
) -> None:
    response = await agent.post(EXCHANGE_PATH, agent.credentials() | {field: value})

    body = expect_refusal(response, 400, "VALIDATION_ERROR")
    assert [reported["field"] for reported in body["messages"]] == [field]


@pytest.mark.parametrize("content", [b"", b"[]", b'{"email":"a","email":"b"}', b"\x00"])
async def test_an_unreadable_body_is_400_with_the_field_general(
    service: Service, content: bytes
) -> None:
    response = await service.client.post(
        EXCHANGE_PATH, content=content, headers={"content-type": "application/json"}
    )

    body = expect_refusal(response, 400, "VALIDATION_ERROR")
    assert [reported["field"] for reported in body["messages"]] == ["general"]


async def test_413_405_and_400_have_the_error_shape_of_the_exchange(agent: Agent) -> None:
    too_large = await agent.post(EXCHANGE_PATH, agent.credentials() | {"x": "x" * 16_384})
    other_method = await agent.service.client.get(EXCHANGE_PATH)
    key = await agent.exchange(idempotency_key="short")

    expect_refusal(too_large, 413, "PAYLOAD_TOO_LARGE")
    expect_refusal(other_method, 405, "METHOD_NOT_ALLOWED")
    expect_refusal(key, 400, "VALIDATION_ERROR")


@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        (ServiceUnavailable("the disk is full"), 503, "SERVICE_UNAVAILABLE"),
        (RuntimeError("a bug, and its secret"), 500, "INTERNAL_ERROR"),
    ],
)
async def test_503_and_500_have_the_error_shape_of_the_exchange(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, failure: Exception, status: int, code: str
) -> None:
    async def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(agent.service.accounts.exchange, "recognise", fail)
    response = await agent.exchange()

    body = expect_refusal(response, status, code)
    assert "a bug" not in body["messages"][0]["message"]


async def test_the_same_idempotency_key_returns_the_same_api_key_for_ten_minutes(
    agent: Agent,
) -> None:
    await approved(agent)
    first = await agent.exchange(idempotency_key="a-key-that-is-hard-to-guess")
    agent.service.clock.advance(WINDOW_MS)
    again = await agent.exchange(idempotency_key="a-key-that-is-hard-to-guess")
    agent.service.clock.advance(WINDOW_MS)
    other = await agent.exchange(idempotency_key="another-that-is-hard-to-guess")
    agent.service.clock.advance(WINDOW_MS)
    none = await agent.exchange()
    agent.service.clock.advance(600_000)
    late = await agent.exchange(idempotency_key="a-key-that-is-hard-to-guess")

    assert first.status_code == again.status_code == 200
    assert first.json() == again.json()
    for refused in (other, none, late):
        expect_refusal(refused, 409, "KEY_ALREADY_EXISTS")
    assert len(agent.service.accounts.rows("SELECT id FROM api_key")) == 1


async def test_the_email_address_may_have_another_spelling(agent: Agent) -> None:
    await approved(agent)
    agent.email = f" {EMAIL.upper()}"

    assert (await agent.exchange()).status_code == 200


async def test_every_state_of_an_application_is_reported_in_turn(agent: Agent) -> None:
    async def state() -> str:
        return str((await agent.status()).json()["state"])

    states = [await state()]
    await agent.confirm()
    states.append(await state())
    await agent.be_approved()
    states.append(await state())
    await agent.exchange()
    states.append(await state())

    assert states == ["awaiting_confirmation", "awaiting_approval", "approved", "key_issued"]
