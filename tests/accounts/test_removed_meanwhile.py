"""A request that was admitted before its user was removed adds nothing to the removed account."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from json import dumps
from typing import Any, Final
from urllib.parse import urlencode

import pytest

from mintscope.accounts.keys.scope import Scope
from mintscope.kit.audit import COMMAND_LINE, UserId
from mintscope.solana.blocks import WSOL
from support.scenes.people.agent import Agent
from support.scenes.people.web_person import Person, where
from support.scenes.service import Service, bearer, credit_token, refusal
from support.scenes.website import Website

ALERT: Final = {"name": "up", "mint": WSOL, "field": "price.usd", "kind": "above", "level": 9.5}
USER: Final = UserId(1)


async def late(body: str, work: Callable[[], Awaitable[None]]) -> AsyncIterator[bytes]:
    """Run *work*, then yield *body*: by then the service has admitted the request."""
    await work()
    yield body.encode()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/account/credits/deposit", {}),
        ("/v1/signals", ALERT),
        ("/v1/groups", {"name": "Stables"}),
    ],
)
async def test_a_request_of_a_key_adds_nothing_to_a_removed_account(
    service: Service, path: str, body: Mapping[str, Any]
) -> None:
    key = await Agent(service).key(Scope.TRADE_WRITE, Scope.SIGNALS_WRITE, Scope.GROUPS_WRITE)
    token = await service.issue(5)

    async def remove() -> None:
        await service.accounts.remove_user(USER)

    refused = await service.client.post(
        path,
        content=late(dumps(body or {"creditToken": token}), remove),
        headers=bearer(key) | {"content-type": "application/json"},
    )

    assert refusal(refused) == (401, "INVALID_TOKEN")
    assert "expected a credential of an account that exists" in refused.text
    assert await service.left(token) == 5
    for table in ("signal", "watchlist"):
        assert service.accounts.rows(f"SELECT count(*) FROM {table}") == [(0,)]


@pytest.mark.parametrize(
    ("path", "form"),
    [("/credits/deposit", {"deposited": credit_token(1)}), ("/watchlists", {"name": "Stables"})],
)
async def test_a_form_adds_nothing_to_a_removed_account(
    site: Website, alice: Person, path: str, form: Mapping[str, str]
) -> None:
    account = await site.ledger.issue(credit_token(1), 5, "")
    fields = dict(form) | {"csrf": await alice.csrf()}

    async def remove() -> None:
        await site.accounts.review.remove_user(USER, actor=COMMAND_LINE)

    headers = {"origin": site.origin, "content-type": "application/x-www-form-urlencoded"}
    refused = await alice.client.post(
        path, content=late(urlencode(fields), remove), headers=headers
    )

    assert where(refused).startswith("/sign-in")
    assert await site.ledger.balance(account) == 5
    assert site.rows("SELECT count(*) FROM watchlist") == [(0,)]
