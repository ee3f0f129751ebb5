"""An API key is accepted in place of a credit token, and spends the credits of its user."""

import asyncio
from typing import Final

import pytest

from mintscope.accounts.wallets.credits import Deposited
from mintscope.kit.audit import UserId
from mintscope.kit.credentials import make_api_key
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS, iso_time, month_end, month_of
from support.fakes.reports import TRACKED, UNTRACKED
from support.scenes.people.agent import Agent
from support.scenes.service import NOW, Service, bearer, refusal

DATA: Final = f"/v1/token/{TRACKED}"
BALANCE: Final = "/v1/credits/balance"
HISTORY: Final = "/v1/credits/history"
OTHER: Final = make_api_key(bytes(36))


async def fill(service: Service, credit_count: int) -> None:
    """Move *credit_count* new credits into the account of the service's only user."""
    ((user_id,),) = service.accounts.rows('SELECT id FROM "user"')
    account = await service.ledger.find(await service.issue(credit_count))
    assert account is not None
    moved = await service.accounts.built.credits.deposit(UserId(user_id), account, None, None)
    assert isinstance(moved, Deposited)


async def balance(service: Service, key: str) -> int:
    response = await service.client.get(BALANCE, headers=bearer(key))
    assert response.status_code == 200
    return int(response.json()["data"]["balance"])


@pytest.fixture
async def key(service: Service) -> str:
    return await Agent(service).key()


def cap(service: Service, credit_count: int) -> None:
    service.accounts.change("UPDATE api_key SET month_credits_max = ?", credit_count)


async def test_a_key_spends_the_credits_of_its_user(service: Service, key: str) -> None:
    await fill(service, 2)
    answers = [await service.client.get(DATA, headers=bearer(key)) for _ in range(3)]

    assert [each.status_code for each in answers] == [200, 200, 402]
    assert [each.headers.get("x-credits-remaining") for each in answers] == ["1", "0", None]
    assert refusal(answers[2]) == (402, "INSUFFICIENT_CREDITS")
    assert await balance(service, key) == 0
    data = (await service.client.get(HISTORY, headers=bearer(key))).json()["data"]
    assert (data["balance"], data["spent"]) == (0, 2)
    assert [(each["kind"], each["credits"]) for each in data["entries"]] == [("deposit", 2)]


async def test_a_key_of_a_user_without_credits_is_402_and_creates_no_account(
    service: Service, key: str
) -> None:
    assert refusal(await service.client.get(DATA, headers=bearer(key))) == (
        402,
        "INSUFFICIENT_CREDITS",
    )
    assert await balance(service, key) == 0
    data = (await service.client.get(HISTORY, headers=bearer(key))).json()["data"]
    assert data == {"balance": 0, "spent": 0, "entries": [], "days": []}
    assert service.accounts.rows("SELECT id FROM credit_account") == []


async def test_errors_cost_nothing(service: Service, key: str) -> None:
    await fill(service, 1)
    response = await service.client.get(f"/v1/token/{UNTRACKED}", headers=bearer(key))
    assert refusal(response) == (404, "TOKEN_NOT_FOUND")
    assert await balance(service, key) == 1


@pytest.mark.parametrize("path", [DATA, BALANCE, HISTORY])
async def test_a_key_without_the_scope_is_403(service: Service, key: str, path: str) -> None:
    await fill(service, 1)
    service.accounts.change("UPDATE api_key SET scopes = ?", '["wallets:read"]')
    assert refusal(await service.client.get(path, headers=bearer(key))) == (
        403,
        "INSUFFICIENT_SCOPE",
    )
    service.accounts.change("UPDATE api_key SET scopes = ?", '["trade:read"]')
    assert await balance(service, key) == 1


@pytest.mark.parametrize("column", ["revoked_at", "expires_at"])
async def test_a_revoked_or_expired_key_is_401(service: Service, key: str, column: str) -> None:
    await fill(service, 1)
    service.accounts.change(f"UPDATE api_key SET {column} = ?", int(NOW))
    response = await service.client.get(DATA, headers=bearer(key))
    assert refusal(response) == (401, "INVALID_TOKEN")
    assert "neither expired nor been revoked" in response.json()["error"]["message"]


async def test_a_key_has_a_rate_limit_of_its_own(service: Service, key: str) -> None:
    await fill(service, 1)
    strangers = [await service.client.get(DATA) for _ in range(30)]
    assert {each.status_code for each in strangers} == {402}
    assert (await service.client.get(DATA)).status_code == 429
    ours = [await service.client.get(BALANCE, headers=bearer(key)) for _ in range(31)]
    assert [each.status_code for each in ours] == [200] * 30 + [429]


async def test_the_error_of_a_reached_cap_has_the_time_at_which_it_ends(
    service: Service, key: str
) -> None:
    await fill(service, 10)
    cap(service, 2)
    answers = [await service.client.get(DATA, headers=bearer(key)) for _ in range(3)]
    assert [each.status_code for each in answers] == [200, 200, 402]
    assert refusal(answers[2]) == (402, "KEY_CAP_REACHED")
    ends_at = month_end(month_of(NOW))
    assert iso_time(ends_at) in answers[2].json()["error"]["message"]
    assert await balance(service, key) == 8

    service.clock.advance(ends_at - NOW)
    assert (await service.client.get(DATA, headers=bearer(key))).status_code == 200


async def test_a_key_at_its_cap_gets_an_unchanged_report_for_free(
    service: Service, key: str
) -> None:
    await fill(service, 10)
    cap(service, 1)
    first = await service.client.get(DATA, headers=bearer(key))
    has_it = bearer(key) | {"if-none-match": first.headers["etag"]}
    again = await service.client.get(DATA, headers=has_it)
    service.reports.tag = b'W/"another"'
    changed = await service.client.get(DATA, headers=has_it)

    assert (first.status_code, again.status_code) == (200, 304)
    assert refusal(changed) == (402, "KEY_CAP_REACHED")
    assert await balance(service, key) == 9


async def test_concurrent_requests_do_not_exceed_the_cap(service: Service, key: str) -> None:
    await fill(service, 29)
    cap(service, 7)
    asked = [service.client.get(DATA, headers=bearer(key)) for _ in range(29)]
    statuses = [each.status_code for each in await asyncio.gather(*asked)]
    assert (statuses.count(200), statuses.count(402)) == (7, 22)
    assert await balance(service, key) == 22


async def test_several_keys_of_a_user_spend_from_one_account(service: Service, key: str) -> None:
    await fill(service, 3)
    service.clock.advance(DAY_MS)
    service.accounts.change(
        'INSERT INTO api_key ("user", key_hash, hint, name, scopes, created_at)'
        ' SELECT "user", ?, hint, name, scopes, created_at FROM api_key',
        service.accounts.secrets.hash(OTHER),
    )
    assert (await service.client.get(DATA, headers=bearer(OTHER))).status_code == 200
    assert (await service.client.get(DATA, headers=bearer(key))).status_code == 200
    assert await balance(service, key) == await balance(service, OTHER) == 1
    spent = service.accounts.rows("SELECT credits FROM key_month WHERE month = ?", int(month()))
    assert spent == [(1,), (1,)]


def month() -> int:
    return month_of(UnixMs(NOW + DAY_MS))
