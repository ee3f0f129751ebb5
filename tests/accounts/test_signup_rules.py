"""Links and codes of applications, used late, twice or at the same time; over a real file."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mintscope.accounts.session import Purpose
from mintscope.accounts.signups.application import Application, ApplicationState, parse_form
from mintscope.accounts.signups.signups import Signup
from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import InvalidFields
from mintscope.kit.time import HOUR_MS
from support.scenes.accounts_service import EMAIL, Accounts, open_accounts_service, signup_body
from support.scenes.service import NOW
from support.scenes.stores import PEPPER

FORM = parse_form(signup_body())


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
async def accounts(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Accounts]:
    async with open_accounts_service(tmp_path, pepper=PEPPER, clock=clock) as accounts:
        yield accounts


async def applied(accounts: Accounts) -> Signup:
    return await accounts.signup.apply(FORM, redelivery_key=None)


async def confirm_by_code(accounts: Accounts, made: Signup) -> None:
    await accounts.signup.confirm_by_code(FORM.email, made.secret, accounts.code(EMAIL))


async def kept(accounts: Accounts, made: Signup) -> Application | None:
    return await accounts.review.application(made.signup_id)


async def events(accounts: Accounts) -> list[tuple[str, str]]:
    found = await accounts.review.events(limit=50)
    return [(event.actor, event.action) for _, event in reversed(found)]


async def test_a_link_confirms_once_if_it_is_used_five_times_at_once(accounts: Accounts) -> None:
    made = await applied(accounts)
    link = accounts.link(EMAIL)
    found = await asyncio.gather(*(accounts.signup.confirm_by_link(link) for _ in range(5)))
    application = await kept(accounts, made)

    assert sorted(found) == [False] * 4 + [True]
    assert application is not None
    assert application.state is ApplicationState.AWAITING_APPROVAL
    assert application.confirmed_at == NOW
    assert await events(accounts) == [("applicant", "applied"), ("mailbox", "confirmed")]


async def test_a_confirmation_link_is_void_after_its_code_was_entered(accounts: Accounts) -> None:
    made = await applied(accounts)
    link = accounts.link(EMAIL)
    assert await accounts.signup.find_address(link, Purpose.CONFIRM_APPLICATION) == EMAIL
    await confirm_by_code(accounts, made)

    assert await accounts.signup.find_address(link, Purpose.CONFIRM_APPLICATION) is None
    assert not await accounts.signup.confirm_by_link(link)


async def test_a_code_is_good_for_72_hours(accounts: Accounts, clock: ManualClock) -> None:
    made = await applied(accounts)
    clock.advance(72 * HOUR_MS)
    with pytest.raises(InvalidFields):
        await confirm_by_code(accounts, made)
    clock.step(-1)
    await confirm_by_code(accounts, made)

    application = await kept(accounts, made)
    assert application is not None
    assert application.state is ApplicationState.AWAITING_APPROVAL


async def test_an_application_is_disowned_once(accounts: Accounts) -> None:
    made = await applied(accounts)
    link = accounts.link(EMAIL)
    found = await asyncio.gather(*(accounts.signup.disown(link) for _ in range(5)))

    assert sorted(found) == [False] * 4 + [True]
    assert await kept(accounts, made) is None
    assert await events(accounts) == [("applicant", "applied"), ("mailbox", "disowned")]


async def test_one_of_a_simultaneous_confirmation_and_disowning_counts(accounts: Accounts) -> None:
    await applied(accounts)
    link = accounts.link(EMAIL)
    answers = (accounts.signup.confirm_by_link(link), accounts.signup.disown(link))

    assert sorted(await asyncio.gather(*answers)) == [False, True]


async def test_a_lapsed_application_is_replaced_by_the_next(
    accounts: Accounts, clock: ManualClock
) -> None:
    made = await applied(accounts)
    clock.advance(72 * HOUR_MS)
    again = await applied(accounts)

    assert await kept(accounts, made) is None
    assert await kept(accounts, again) is not None
    assert await events(accounts) == [
        ("applicant", "applied"),
        ("service", "lapsed"),
        ("applicant", "applied"),
    ]
