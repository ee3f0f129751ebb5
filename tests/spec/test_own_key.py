"""/v1/me/key: an agent rotates its key, revokes it, and asks for scopes."""

from functools import partial
from typing import Any

import httpx
import pytest

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.keys.scope import Scope
from mintscope.accounts.mail.email import EmailKind
from mintscope.accounts.rows import AccountRows
from mintscope.accounts.sessions import NotPossible
from mintscope.accounts.signups.application import ApplicationState, SignupId, subject_of
from mintscope.kit.audit import COMMAND_LINE, SERVICE
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import HOUR_MS
from support.scenes.accounts_service import EMAIL
from support.scenes.people.agent import Agent
from support.scenes.service import Service, bearer

ROTATE = "/v1/me/key/rotate"
KEY = "/v1/me/key"
SCOPES = "/v1/me/key/scopes"
ONCE = "the-rotation-of-this-agent"
OTHER = "another-key-of-a-rotation"


@pytest.fixture
async def agent(service: Service) -> Agent:
    return Agent(service)


async def me(service: Service, key: str) -> httpx.Response:
    return await service.client.get("/v1/me", headers=bearer(key))


async def rotate(service: Service, key: str, body: Any = None, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await service.client.post(ROTATE, json=body or {}, headers=bearer(key) | named)


def code(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


async def decide(service: Service, agent: Agent, *scopes: Scope, state: str = "approved") -> None:
    review = service.accounts.review
    signup_id = SignupId(agent.signup_id)
    if state == "approved":
        chosen = frozenset(scopes)
        await review.approve(signup_id, scopes=chosen, note="", actor=COMMAND_LINE)
    else:
        await review.reject(signup_id, note="no", actor=COMMAND_LINE)


async def test_a_new_key_has_the_scopes_of_the_old_key_which_ends_in_an_hour(
    service: Service, agent: Agent
) -> None:
    old = await agent.key(Scope.TRADE_WRITE)
    answer = await rotate(service, old)

    assert answer.status_code == 201, answer.text
    made = answer.json()["data"]
    assert made["apiKey"] != old
    before = (await me(service, old)).json()
    after = (await me(service, made["apiKey"])).json()
    for name in ("userId", "keyName", "scopes"):
        assert before["data"][name] == after["data"][name]
    assert "trade:write" in after["data"]["scopes"]
    assert after["data"]["expiresAt"] is None
    assert made["beforeEndsAt"] == service.clock.now() // 1000 + 3_600
    assert before["data"]["expiresAt"] == made["beforeEndsAt"]
    service.clock.advance(HOUR_MS - 1)
    assert (await me(service, old)).status_code == 200
    service.clock.advance(1)
    assert code(await me(service, old)) == (401, "INVALID_TOKEN")
    assert (await me(service, made["apiKey"])).status_code == 200


async def test_a_lost_new_key_is_sent_again_while_the_old_key_is_valid(
    service: Service, agent: Agent
) -> None:
    old = await agent.key()
    first, again = [await rotate(service, old, idempotency_key=ONCE) for _ in range(2)]
    other = await rotate(service, old, idempotency_key=OTHER)
    none = await rotate(service, old)

    assert first.json()["data"] == again.json()["data"]
    assert code(other) == code(none) == (409, "NOTHING_TO_ROTATE")
    ((keys,),) = service.accounts.rows("SELECT count(*) FROM api_key")
    assert keys == 2
    await service.client.delete(KEY, headers=bearer(first.json()["data"]["apiKey"]))
    assert code(await rotate(service, old, idempotency_key=ONCE)) == (409, "NOTHING_TO_ROTATE")
    service.clock.advance(HOUR_MS)
    assert code(await rotate(service, old, idempotency_key=ONCE)) == (401, "INVALID_TOKEN")


@pytest.mark.parametrize(("first", "then"), [("1h", "7d"), ("7d", "1h"), ("24h", "1h")])
async def test_a_rotation_with_the_same_idempotency_key_and_another_overlap_is_409(
    service: Service, agent: Agent, first: str, then: str
) -> None:
    old = await agent.key()
    made = await rotate(service, old, {"overlap": first}, idempotency_key=ONCE)
    service.clock.advance(HOUR_MS - 1)
    other = await rotate(service, old, {"overlap": then}, idempotency_key=ONCE)
    again = await rotate(service, old, {"overlap": first}, idempotency_key=ONCE)

    assert code(other) == (409, "IDEMPOTENCY_KEY_USED")
    assert again.json()["data"] == made.json()["data"]


async def test_a_rotation_is_repeated_if_the_old_key_ends_before_its_overlap(
    service: Service, agent: Agent
) -> None:
    old = await agent.key()
    service.accounts.change("UPDATE api_key SET expires_at = ?", service.clock.now() + 10 * HOUR_MS)
    made = await rotate(service, old, {"overlap": "24h"}, idempotency_key=ONCE)
    new = made.json()["data"]["apiKey"]
    await rotate(service, new, {"overlap": "1h"}, idempotency_key=OTHER)
    again = await rotate(service, old, {"overlap": "24h"}, idempotency_key=ONCE)
    other = await rotate(service, old, {"overlap": "1h"}, idempotency_key=ONCE)

    assert again.json()["data"]["apiKey"] == new
    assert code(other) == (409, "IDEMPOTENCY_KEY_USED")


async def test_a_new_key_ends_when_the_old_key_would_have_ended(
    service: Service, agent: Agent
) -> None:
    """Otherwise a thief could prolong a key that its owner has meant to end."""
    old = await agent.key()
    ends_at = service.clock.now() + 10 * HOUR_MS
    service.accounts.change("UPDATE api_key SET expires_at = ?", ends_at)
    made = (await rotate(service, old, {"overlap": "7d"})).json()["data"]

    assert made["expiresAt"] == made["beforeEndsAt"] == ends_at // 1000


async def test_a_new_key_has_the_cap_of_the_old_key(service: Service, agent: Agent) -> None:
    old = await agent.key()
    service.accounts.change("UPDATE api_key SET month_credits_max = 7")
    await rotate(service, old)

    caps = service.accounts.rows("SELECT month_credits_max FROM api_key")
    assert caps == [(7,), (7,)]


async def test_a_revoked_key_is_401_at_once(service: Service, agent: Agent) -> None:
    key = await agent.key()
    answer = await service.client.delete(KEY, headers=bearer(key))

    assert answer.status_code == 200
    assert set(answer.json()["data"]) == {"keyId"}
    assert code(await me(service, key)) == (401, "INVALID_TOKEN")
    assert code(await service.client.delete(KEY, headers=bearer(key))) == (401, "INVALID_TOKEN")


async def test_the_owner_of_the_mailbox_gets_an_e_mail_about_a_rotation(
    service: Service, agent: Agent
) -> None:
    await rotate(service, await agent.key())

    written = await service.accounts.store.read(
        lambda rows: rows.emails.written_to(EmailAddress(EMAIL), EmailKind.NEW_KEY, UnixMs(0))
    )
    # One e-mail is about the first key, the other about the rotation.
    assert len(written) == 2
    events = service.accounts.rows("SELECT action FROM account_event ORDER BY id DESC LIMIT 1")
    assert events == [("rotated",)]


async def test_requested_scopes_are_reviewed_and_granted(service: Service, agent: Agent) -> None:
    key = await agent.key()
    body = {"scopes": ["signals:write", "trade:read"], "motivation": "To be woken."}
    asked = await service.client.post(SCOPES, json=body, headers=bearer(key))
    waiting = await service.accounts.review.applications(
        ApplicationState.AWAITING_APPROVAL, limit=10
    )

    assert asked.json()["data"]["scopesAskedFor"] == ["signals:write"]
    (application,) = waiting
    assert application.form.asked_scopes == {Scope.SIGNALS_WRITE}
    assert application.asked_why == "To be woken."
    counts = await service.accounts.review.counts()
    assert counts[ApplicationState.AWAITING_APPROVAL] == 1
    assert sum(counts.values()) == 1
    owner = (await me(service, key)).json()["data"]
    assert owner["scopesAskedFor"] == ["signals:write"]
    assert "signals:write" not in owner["scopes"]
    rotated = (await rotate(service, key)).json()["data"]["apiKey"]
    await decide(service, agent, Scope.SIGNALS_WRITE)

    for each in (key, rotated):
        granted = (await me(service, each)).json()["data"]
        assert "signals:write" in granted["scopes"]
        assert "scopesAskedFor" not in granted
    assert not await service.accounts.review.applications(
        ApplicationState.AWAITING_APPROVAL, limit=10
    )


async def test_rejected_scopes_change_nothing(service: Service, agent: Agent) -> None:
    key = await agent.key()
    before = (await me(service, key)).json()["data"]
    await service.client.post(SCOPES, json={"scopes": ["trade:write"]}, headers=bearer(key))
    await decide(service, agent, state="rejected")

    assert (await me(service, key)).json()["data"] == before


def ask_again(rows: AccountRows, number: SignupId, at: UnixMs) -> None:
    for _ in range(150):
        rows.events.note(at, SERVICE, "asked", subject_of(number), scopes="trade:write")


async def test_a_decision_about_scopes_can_be_undone_within_a_minute(
    service: Service, agent: Agent
) -> None:
    """All keys get their former scopes back, also a key that was rotated after the decision.

    The request for scopes waits again, even if 150 more requests for scopes followed the decision.
    """
    key = await agent.key(Scope.SIGNALS_READ)
    service.clock.advance(1)
    number = SignupId(agent.signup_id)
    await service.client.post(SCOPES, json={"scopes": ["trade:write"]}, headers=bearer(key))
    first = await service.accounts.review.application(number)
    asked = (await me(service, key)).json()["data"]
    insistent = partial(ask_again, number=number, at=service.clock.now())

    for state in ("approved", "rejected", "approved"):
        service.clock.advance(1)
        await decide(service, agent, Scope.TRADE_WRITE, state=state)
        decided_at = service.clock.now()
        await service.accounts.review.store.transact(insistent)
        rotated = (await rotate(service, key)).json()["data"]["apiKey"]
        service.clock.advance(59_999)
        await service.accounts.review.undo(number, decided_at=decided_at, actor=COMMAND_LINE)

        assert await service.accounts.review.application(number) == first
        for each in (key, rotated):
            now = (await me(service, each)).json()["data"]
            assert now["scopes"] == asked["scopes"]
            assert now["scopesAskedFor"] == ["trade:write"]
        key = rotated

    await decide(service, agent, Scope.TRADE_WRITE)
    decided_at = service.clock.now()
    await service.client.post(SCOPES, json={"scopes": ["signals:write"]}, headers=bearer(key))
    await service.accounts.review.undo(number, decided_at=decided_at, actor=COMMAND_LINE)
    kept = (await me(service, key)).json()["data"]
    assert (kept["scopes"], kept["scopesAskedFor"]) == (asked["scopes"], ["signals:write"])

    service.clock.advance(1)
    await decide(service, agent, Scope.TRADE_WRITE)
    decided_at = service.clock.now()
    service.clock.advance(60_000)
    with pytest.raises(NotPossible, match="for a minute"):
        await service.accounts.review.undo(number, decided_at=decided_at, actor=COMMAND_LINE)
    assert "trade:write" in (await me(service, key)).json()["data"]["scopes"]


async def test_scopes_that_a_key_already_has_are_not_requested(
    service: Service, agent: Agent
) -> None:
    key = await agent.key(Scope.TRADE_WRITE)
    answer = await service.client.post(
        SCOPES, json={"scopes": ["trade:write"]}, headers=bearer(key)
    )

    assert answer.json()["data"]["scopesAskedFor"] == []
    assert "has all" in answer.json()["data"]["message"]
    assert "scopesAskedFor" not in (await me(service, key)).json()["data"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (ROTATE, {"overlap": "0"}),
        (ROTATE, {"overlaps": "1h"}),
        (SCOPES, {"scopes": ["trade:everything"]}),
        (SCOPES, {}),
        (SCOPES, {"scopes": [], "motivation": "x" * 1_001}),
    ],
)
async def test_the_message_of_a_400_names_the_expected_value(
    service: Service, agent: Agent, path: str, body: dict[str, Any]
) -> None:
    key = await agent.key()
    answer = await service.client.post(path, json=body, headers=bearer(key))

    assert code(answer) == (400, "BAD_REQUEST")
    assert "expected" in answer.json()["error"]["message"].lower()
    assert service.accounts.rows("SELECT asked_at FROM application") == [(None,)]


async def test_a_credit_token_is_401_at_the_routes_for_own_keys(service: Service) -> None:
    token = await service.issue(1)
    for method, path in (("POST", ROTATE), ("DELETE", KEY), ("POST", SCOPES)):
        answer = await service.client.request(method, path, headers=bearer(token))
        assert code(answer) == (401, "INVALID_TOKEN")
        assert code(await service.client.request(method, path)) == (401, "MISSING_TOKEN")
