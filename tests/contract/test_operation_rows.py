"""The contract of each engine for administration: hourly values, audit log filters, searches."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.rows import AccountRows, AccountStore
from mintscope.accounts.secrets import AccountSecrets
from mintscope.accounts.signups.application import ApplicationState, Form, NewApplication, UserType
from mintscope.kit.audit import (
    COMMAND_LINE,
    Event,
    EventFilter,
    HourSeries,
    Series,
    UserId,
    requests_of,
    user_actor,
)
from mintscope.kit.primitives import UnixMs
from support.scenes.account_stores import ENGINES

SECRETS = AccountSecrets.derive(bytes(32))


@pytest.fixture(params=ENGINES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AccountStore]:
    async with ENGINES[request.param](tmp_path) as store:
        yield store


async def test_an_hour_has_sums_but_the_highest_lag_and_the_last_fund(
    store: AccountStore,
) -> None:
    def work(rows: AccountRows) -> Mapping[Series, Mapping[int, int]]:
        rows.hours.add(7, {HourSeries.PAID: 2, HourSeries.LAG_MS: 900, HourSeries.FUND: 9})
        rows.hours.add(7, {HourSeries.PAID: 3, HourSeries.LAG_MS: 400, HourSeries.FUND: 4})
        rows.hours.add(8, {HourSeries.PAID: 1, requests_of(402): 2})
        rows.hours.add(5, {requests_of(500): 1})
        rows.hours.purge(6)
        return rows.hours.since(0)

    assert await store.transact(work) == {
        HourSeries.PAID: {7: 5, 8: 1},
        HourSeries.LAG_MS: {7: 900},
        HourSeries.FUND: {7: 4},
        requests_of(402): {8: 2},
    }
    assert await store.read(lambda rows: rows.hours.since(8)) == {
        HourSeries.PAID: {8: 1},
        requests_of(402): {8: 2},
    }


async def test_the_audit_log_is_filtered(store: AccountStore) -> None:
    def work(rows: AccountRows) -> None:
        for at, (actor, action, subject) in enumerate(
            [
                (COMMAND_LINE, "created", "user:1"),
                (user_actor(1), "revoked", "key:1"),
                (user_actor(11), "revoked", "key:2"),
                (user_actor(11), "renamed", "user:1"),
            ]
        ):
            rows.events.insert(Event(at=UnixMs(at), actor=actor, action=action, subject=subject))

    await store.transact(work)

    async def shown(wanted: EventFilter, limit: int = 9) -> list[int]:
        found = await store.read(lambda rows: rows.events.newest(None, limit, wanted))
        return [event.at for _, event in found]

    assert await shown(EventFilter()) == [3, 2, 1, 0]
    assert await shown(EventFilter(who="user:1")) == [3, 1, 0]
    assert await shown(EventFilter(who="user:1", owner=UserId(1))) == [3, 1, 0]  # has no key
    assert await shown(EventFilter(who="user:1"), limit=2) == [3, 1]
    assert await shown(EventFilter(action="re")) == [3, 2, 1]
    assert await shown(EventFilter(who="user:11", action="revoked")) == [2]
    assert await shown(EventFilter(action="%")) == []


async def test_applications_are_searched(store: AccountStore) -> None:
    def work(rows: AccountRows) -> None:
        for number, motivation in enumerate(["I follow 100% of ALL_tokens!", "Something else"]):
            form = Form(
                email=EmailAddress(f"n{number}@example.org"),
                telegram="@Agent" if number else None,
                twitter=None,
                user_type=UserType.BOTH,
                motivation=motivation,
            )
            rows.applications.insert(
                NewApplication(
                    form=form,
                    secret_hash=SECRETS.hash(f"{number}"),
                    secret_nonce=bytes(32),
                    signup_redeem=None,
                    at=UnixMs(number),
                )
            )

    await store.transact(work)

    async def found(text: str, state: ApplicationState | None = None) -> list[str]:
        page = await store.read(lambda rows: rows.applications.page(state, None, 9, text))
        return [application.form.email.partition("@")[0] for application in page]

    assert await found("N0@") == ["n0"]
    assert await found("100%") == await found("all_t") == await found("tokens!") == ["n0"]
    assert await found("1%0") == await found("all.t") == []
    assert await found("@agent") == ["n1"]
    assert await found("e") == ["n1", "n0"]
    assert await found("e", ApplicationState.AWAITING_CONFIRMATION) == ["n0", "n1"]
    assert await found("e", ApplicationState.APPROVED) == []
