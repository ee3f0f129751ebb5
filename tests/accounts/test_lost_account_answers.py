"""A lost answer that contains a secret is redelivered to its sender for ten minutes."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from mintscope.accounts.signups.application import Application, SignupId, parse_form
from mintscope.accounts.signups.signups import IssuedKey, Signup
from mintscope.kit.audit import COMMAND_LINE
from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import AccountNotFound, DuplicateApplication, KeyAlreadyExists
from support.oracles.account_books import contradictions, dump
from support.scenes.accounts_service import Accounts, open_accounts_service, signup_body
from support.scenes.service import NOW
from support.scenes.stores import PEPPER

FORM: Final = parse_form(signup_body())
KEY, OTHER_KEY = "the-key-of-the-agent-0", "a-guess-of-a-stranger"
TEN_MINUTES_MS: Final = 600_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
async def accounts(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Accounts]:
    async with open_accounts_service(tmp_path, pepper=PEPPER, clock=clock) as accounts:
        yield accounts
        assert contradictions(accounts.path) == []


async def applicant_of(accounts: Accounts, made: Signup) -> Application:
    applicant = await accounts.exchange.recognise(FORM.email, made.secret)
    assert applicant is not None
    return applicant


async def approved(accounts: Accounts) -> Signup:
    made = await accounts.signup.apply(FORM, redelivery_key=KEY)
    await accounts.approve(made.signup_id)
    return made


async def exchange(accounts: Accounts, made: Signup, key: str | None) -> IssuedKey:
    applicant = await applicant_of(accounts, made)
    return await accounts.exchange.exchange(applicant, made.secret, redelivery_key=key)


async def test_the_answer_to_a_signup_is_redelivered_and_nothing_is_stored_twice(
    accounts: Accounts, clock: ManualClock
) -> None:
    made = await accounts.signup.apply(FORM, redelivery_key=KEY)
    before = dump(accounts.path)
    clock.advance(TEN_MINUTES_MS - 1)

    assert await accounts.signup.apply(FORM, redelivery_key=KEY) == made
    assert dump(accounts.path) == before


@pytest.mark.parametrize("key", [None, OTHER_KEY])
async def test_a_repeated_signup_without_the_same_key_is_a_duplicate(
    accounts: Accounts, key: str | None
) -> None:
    await accounts.signup.apply(FORM, redelivery_key=KEY)

    with pytest.raises(DuplicateApplication):
        await accounts.signup.apply(FORM, redelivery_key=key)


async def test_the_answer_to_a_signup_without_a_key_is_never_redelivered(
    accounts: Accounts,
) -> None:
    await accounts.signup.apply(FORM, redelivery_key=None)

    for key in (None, "", "None", KEY):
        with pytest.raises(DuplicateApplication):
            await accounts.signup.apply(FORM, redelivery_key=key)


async def test_a_different_form_with_the_same_key_is_a_duplicate(accounts: Accounts) -> None:
    await accounts.signup.apply(FORM, redelivery_key=KEY)
    other = parse_form(signup_body(motivation="To trade otherwise."))

    with pytest.raises(DuplicateApplication):
        await accounts.signup.apply(other, redelivery_key=KEY)


async def test_a_signup_that_is_repeated_after_ten_minutes_is_a_duplicate(
    accounts: Accounts, clock: ManualClock
) -> None:
    await accounts.signup.apply(FORM, redelivery_key=KEY)
    clock.advance(TEN_MINUTES_MS)

    with pytest.raises(DuplicateApplication):
        await accounts.signup.apply(FORM, redelivery_key=KEY)


async def test_signups_of_two_addresses_with_one_key_get_different_secrets(
    accounts: Accounts,
) -> None:
    first = await accounts.signup.apply(FORM, redelivery_key=KEY)
    other = parse_form(signup_body("other@example.org"))

    assert (await accounts.signup.apply(other, redelivery_key=KEY)).secret != first.secret


async def test_the_answer_to_an_exchange_is_redelivered_and_nothing_is_stored_twice(
    accounts: Accounts, clock: ManualClock
) -> None:
    made = await approved(accounts)
    issued = await exchange(accounts, made, KEY)
    before = dump(accounts.path)
    clock.advance(TEN_MINUTES_MS - 1)

    assert await exchange(accounts, made, KEY) == issued
    assert dump(accounts.path) == before


@pytest.mark.parametrize("key", [None, OTHER_KEY])
async def test_a_repeated_exchange_without_the_same_key_is_refused(
    accounts: Accounts, key: str | None
) -> None:
    made = await approved(accounts)
    await exchange(accounts, made, KEY)

    with pytest.raises(KeyAlreadyExists):
        await exchange(accounts, made, key)


async def test_the_answer_to_an_exchange_without_a_key_is_never_redelivered(
    accounts: Accounts,
) -> None:
    made = await approved(accounts)
    await exchange(accounts, made, None)

    for key in (None, "", "None", KEY):
        with pytest.raises(KeyAlreadyExists):
            await exchange(accounts, made, key)


async def test_an_exchange_that_is_repeated_after_ten_minutes_is_refused(
    accounts: Accounts, clock: ManualClock
) -> None:
    made = await approved(accounts)
    await exchange(accounts, made, KEY)
    clock.advance(TEN_MINUTES_MS)

    with pytest.raises(KeyAlreadyExists):
        await exchange(accounts, made, KEY)


async def test_a_revoked_key_is_not_redelivered(accounts: Accounts) -> None:
    made = await approved(accounts)
    await exchange(accounts, made, KEY)
    accounts.change("UPDATE api_key SET revoked_at = ?", NOW)

    with pytest.raises(KeyAlreadyExists):
        await exchange(accounts, made, KEY)


async def test_the_key_of_a_removed_account_is_not_redelivered(accounts: Accounts) -> None:
    made = await approved(accounts)
    issued = await exchange(accounts, made, KEY)
    seen_before = await applicant_of(accounts, made)
    await accounts.remove_user(issued.line.user_id)

    with pytest.raises(AccountNotFound):
        await accounts.exchange.exchange(seen_before, made.secret, redelivery_key=KEY)
    with pytest.raises(AccountNotFound):
        await exchange(accounts, made, KEY)


async def test_the_same_request_makes_a_new_key_after_a_reset(accounts: Accounts) -> None:
    made = await approved(accounts)
    first = await exchange(accounts, made, KEY)
    await accounts.review.reset(SignupId(made.signup_id), actor=COMMAND_LINE)

    second = await exchange(accounts, made, KEY)

    assert second.api_key != first.api_key
    assert await accounts.keys.find(first.api_key) is None
