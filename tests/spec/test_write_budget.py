"""The budget of an account for requests that make rows which it cannot delete."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from prometheus_client import REGISTRY

from mintscope.accounts.keys.scope import Scope
from mintscope.accounts.mail.email import EmailKind
from mintscope.alerts.alert import SignalId
from mintscope.alerts.alerts import AlertBounds
from mintscope.alerts.emails import EmailBounds
from mintscope.app.config.config import AccountsConfig
from mintscope.app.config.groups import SignalsConfig
from mintscope.kit.errors import RateLimited
from mintscope.kit.http.rate_limit import WRITES, WRITES_OF_ALL, WriteBudget
from mintscope.kit.limits import Limit, MemoryLimits
from mintscope.kit.primitives import Wallet
from mintscope.kit.time import DAY_MS
from mintscope.solana.blocks import WSOL
from support.scenes.people.agent import Agent
from support.scenes.service import Service, bearer, service_by

# Tests use up the budget of a day.  It is counted in memory, so one engine is enough.
pytestmark = [pytest.mark.storm, pytest.mark.engine("sqlite")]

GROUPS: Final = "/v1/groups"
ROWS: Final = "SELECT (SELECT count(*) FROM made_thing) + (SELECT count(*) FROM account_event)"
BUDGET: Final = 40


@pytest.fixture
def budget() -> int:
    """Return the daily limit of writes; one test overrides this with the far higher default."""
    return BUDGET


@pytest.fixture
async def service(
    request: pytest.FixtureRequest, tmp_path: Path, budget: int
) -> AsyncIterator[Service]:
    """Yield the API, which accepts *budget* writes of an account a day."""
    config = AccountsConfig(writes_per_day_max=budget)
    async with service_by(request.param, tmp_path, accounts=config) as service:
        yield service


async def call(
    service: Service, key: str, method: str, path: str, body: Any = None, **headers: str
) -> Any:
    sent: Any = {} if body is None else {"json": body}
    answer = await service.client.request(method, path, headers=bearer(key) | headers, **sent)
    service.clock.advance(1_000)  # as fast as the limit of a key allows
    return answer


def counted(by: str, outcome: str) -> float:
    """Return the number of writes that the metric counts for *by* and *outcome*."""
    labels = {"by": by, "outcome": outcome}
    return REGISTRY.get_sample_value("mintscope_account_writes_total", labels) or 0.0


async def test_watchlists_made_and_deleted_leave_rows_within_the_budget(service: Service) -> None:
    key = await Agent(service).key(Scope.GROUPS_WRITE)
    ((before,),) = service.accounts.rows(ROWS)
    statuses = []
    for number in range(BUDGET):
        made = await call(
            service,
            key,
            "POST",
            GROUPS,
            {"name": "g"},
            **{"idempotency-key": f"a-key-{number:012}"},
        )
        statuses.append(made.status_code)
        if made.status_code != 201:
            break
        path = f"{GROUPS}/{made.json()['data']['groupId']}"
        statuses.append((await call(service, key, "DELETE", path)).status_code)
    assert statuses[-1] == 429
    assert len(statuses) == BUDGET + 1
    ((after,),) = service.accounts.rows(ROWS)
    assert after - before <= BUDGET
    assert made.json()["error"]["code"] == "RATE_LIMITED"
    assert int(made.headers["retry-after"]) > 3_600
    assert (await call(service, key, "GET", GROUPS)).status_code == 200, "reading goes on"


async def test_all_accounts_share_a_budget_and_one_account_cannot_use_it_up(
    service: Service,
) -> None:
    limits = MemoryLimits(service.clock)
    budget = WriteBudget(
        limits,
        of_account=Limit(name="one", count=3, window_s=86_400),
        of_all=Limit(name="all", count=5, window_s=60),
    )
    before = [counted("key", outcome) for outcome in ("made", "refused")]
    for user_id, expected in ((1, 3), (2, 2), (3, 0)):
        made = 0
        for _ in range(4):
            try:
                await budget.spend(user_id, "key")
            except RateLimited:
                continue
            made += 1
        assert made == expected
    after = [counted("key", outcome) for outcome in ("made", "refused")]
    assert [new - old for old, new in zip(before, after, strict=True)] == [5, 7]
    service.clock.advance(60_000)
    await budget.spend(3, "page")
    with pytest.raises(RateLimited):
        await budget.spend(1, "page")
    assert WRITES_OF_ALL.count == AccountsConfig().writes_per_minute_max


async def test_an_account_gets_a_limited_number_of_alert_emails_a_day(service: Service) -> None:
    key = await Agent(service).key(Scope.SIGNALS_WRITE)
    asked = {"name": "up", "mint": WSOL, "field": "price.usd", "kind": "above", "level": 9.5}
    made = await call(service, key, "POST", "/v1/signals", asked | {"email": True})
    signal_id = SignalId(made.json()["data"]["signalId"])
    holder = await service.accounts.keys.find(key, "192.0.2.1")
    assert holder is not None
    bounds = AlertBounds(of_emails=EmailBounds(day_max=3))
    signals = replace(service.accounts.built.signals, bounds=bounds)

    async def written() -> int:
        emails = await service.accounts.store.read(lambda rows: rows.emails.newest(99))
        return [each.kind for each in emails].count(EmailKind.SIGNAL_FIRED)

    for _ in range(5):
        assert await signals.test(holder.key.user_id, signal_id) is not None
    assert await written() == 3
    service.clock.advance(DAY_MS + 1)
    assert await signals.test(holder.key.user_id, signal_id) is not None
    assert await written() == 4
    assert SignalsConfig().emails_per_day_max == EmailBounds().day_max == 50


@pytest.mark.parametrize("budget", [AccountsConfig().writes_per_day_max])
async def test_a_challenge_counts_against_the_budget_and_leaves_no_row(service: Service) -> None:
    key = await Agent(service).key(Scope.WALLETS_WRITE)
    holder = await service.accounts.keys.find(key, "192.0.2.1")
    assert holder is not None
    before = service.accounts.rows(ROWS)
    path = "/v1/account/wallets/challenge"
    answers = [
        (await call(service, key, "POST", path, {"wallet": WSOL})).status_code
        for _ in range(WRITES.count + 1)
    ]
    assert answers == [200] * WRITES.count + [429]
    assert service.accounts.rows(ROWS) == before


async def test_each_change_of_a_cap_counts_against_the_budget(service: Service) -> None:
    """Each lower cap adds a row to the audit log; an equal cap adds none."""
    key = await Agent(service).key(Scope.TRADE_WRITE)
    ((key_id,),) = service.accounts.rows("SELECT id FROM api_key")
    ((before,),) = service.accounts.rows(ROWS)
    path = f"/v1/account/keys/{key_id}"
    first = 2 * BUDGET
    caps = [first, first, *range(first - 1, first - BUDGET, -1)]
    statuses = [
        (await call(service, key, "PATCH", path, {"monthCreditsMax": cap})).status_code
        for cap in caps
    ]
    assert statuses == [200] * BUDGET + [429]
    ((after,),) = service.accounts.rows(ROWS)
    assert after - before == BUDGET - 1


async def test_a_key_can_be_revoked_after_the_budget_is_used_up(service: Service) -> None:
    """Otherwise a thief of the key could prevent its revocation by using up the budget."""
    key = await Agent(service).key(Scope.WALLETS_WRITE)
    path = "/v1/account/wallets/challenge"
    body = {"wallet": WSOL}
    for _ in range(BUDGET):
        await call(service, key, "POST", path, body)

    assert (await call(service, key, "POST", path, body)).status_code == 429
    assert (await call(service, key, "DELETE", "/v1/me/key")).status_code == 200
    assert (await call(service, key, "GET", "/v1/me")).status_code == 401


async def test_a_wallet_linked_and_unlinked_repeatedly_makes_rows_within_the_budget(
    service: Service,
) -> None:
    """Each link and each unlink stays in the audit log."""
    agent = Agent(service)
    key = await agent.key(Scope.WALLETS_WRITE)
    wallet, statuses = Wallet(WSOL), []
    wallets = service.accounts.built.wallets
    holder = await service.accounts.keys.find(key, "192.0.2.1")
    assert holder is not None
    ((before,),) = service.accounts.rows(ROWS)
    for _ in range(BUDGET):
        await wallets.link(holder, wallet)
        statuses.append(
            (await call(service, key, "DELETE", f"/v1/account/wallets/{wallet}")).status_code
        )
        if statuses[-1] == 429:
            break
    else:
        answer = await call(service, key, "DELETE", f"/v1/account/wallets/{wallet}")
        assert answer.status_code == 429
    ((after,),) = service.accounts.rows(ROWS)
    assert after - before <= 2 * BUDGET
