"""Limits of guessing passwords, over a real file."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.session import Browser
from mintscope.accounts.user import TooManyAttempts, WrongPassword
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.time import HOUR_MS
from support.scenes.people_service import (
    ALICE,
    HERE,
    MALLORY,
    PASSWORD,
    THERE,
    PeopleService,
    open_people_service,
)

FIVE_MINUTES_MS = 300_000
QUARTER_MS = 900_000


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[PeopleService]:
    async with open_people_service(tmp_path) as service:
        yield service


def network(number: int) -> Browser:
    """Return a browser in the /64 with this number of one IPv6 /48."""
    return Browser(f"2001:db8:0:{number:x}::/64", "")


async def test_wrong_passwords_are_limited_and_right_passwords_are_not(
    service: PeopleService,
) -> None:
    await service.signed_up()
    for _ in range(30):
        await service.people.sign_in(ALICE, PASSWORD, HERE)
    for _ in range(10):
        with pytest.raises(WrongPassword):
            await service.people.sign_in(ALICE, "wrong password", HERE)
    before = service.hasher.count

    with pytest.raises(TooManyAttempts) as failure:
        await service.people.sign_in(ALICE, PASSWORD, HERE)

    assert failure.value.retry_after_s == 900
    assert service.hasher.count == before
    service.clock.advance(QUARTER_MS)
    await service.people.sign_in(ALICE, PASSWORD, HERE)


async def test_strangers_cannot_lock_the_owner_out(service: PeopleService) -> None:
    await service.signed_up()
    for number in range(200):
        stranger = Browser(f"198.51.100.{number}", "")
        with pytest.raises(WrongPassword):
            await service.people.sign_in(ALICE, "wrong password", stranger)

    await service.people.sign_in(ALICE, PASSWORD, HERE)


async def test_the_guesses_of_a_client_are_limited_over_all_accounts(
    service: PeopleService,
) -> None:
    for number in range(50):
        with pytest.raises(WrongPassword):
            await service.people.sign_in(EmailAddress(f"p{number}@example.org"), PASSWORD, THERE)

    with pytest.raises(TooManyAttempts):
        await service.people.sign_in(EmailAddress("another@example.org"), PASSWORD, THERE)


async def test_refused_guesses_for_an_address_do_not_count_for_other_addresses(
    service: PeopleService,
) -> None:
    for _ in range(10):
        with pytest.raises(WrongPassword):
            await service.people.sign_in(ALICE, "wrong password", HERE)
    for _ in range(100):
        with pytest.raises(TooManyAttempts):
            await service.people.sign_in(ALICE, "wrong password", HERE)

    await service.signed_up(MALLORY)
    await service.people.sign_in(MALLORY, PASSWORD, HERE)


async def test_a_guess_that_was_not_checked_does_not_count(service: PeopleService) -> None:
    async def be_busy() -> None:
        raise ServiceUnavailable("busy")

    await service.signed_up()
    for _ in range(20):
        service.hasher.meanwhile = be_busy
        with pytest.raises(ServiceUnavailable):
            await service.people.sign_in(ALICE, PASSWORD, HERE)

    await service.people.sign_in(ALICE, PASSWORD, HERE)


async def test_the_guesses_of_each_session_are_limited_separately(service: PeopleService) -> None:
    stolen = await service.signed_up()
    for _ in range(10):
        with pytest.raises(WrongPassword):
            await service.people.prove(stolen, "wrong password")
    with pytest.raises(TooManyAttempts):
        await service.people.prove(stolen, PASSWORD)

    own = await service.signed_in()
    await service.people.prove(own, PASSWORD)


async def test_accounts_of_one_client_are_limited(service: PeopleService) -> None:
    for number in range(20):
        await service.people.sign_up(EmailAddress(f"p{number}@example.org"), PASSWORD, HERE)
    with pytest.raises(TooManyAttempts):
        await service.people.sign_up(ALICE, PASSWORD, HERE)

    await service.people.sign_up(ALICE, PASSWORD, THERE)


async def test_accounts_of_all_networks_of_a_site_are_limited_together(
    service: PeopleService,
) -> None:
    for number in range(80):
        email = EmailAddress(f"p{number}@example.org")
        await service.people.sign_up(email, PASSWORD, network(number))
    for number in range(80, 160):
        with pytest.raises(TooManyAttempts):
            await service.people.sign_up(ALICE, PASSWORD, network(number))

    await service.people.sign_up(ALICE, PASSWORD, Browser("2001:db8:1:1::/64", ""))


async def test_refused_sign_ups_of_a_client_do_not_count_for_its_site(
    service: PeopleService,
) -> None:
    for number in range(20):
        await service.people.sign_up(EmailAddress(f"p{number}@example.org"), PASSWORD, network(1))
    for _ in range(100):
        with pytest.raises(TooManyAttempts):
            await service.people.sign_up(ALICE, PASSWORD, network(1))

    await service.people.sign_up(ALICE, PASSWORD, network(2))


async def test_emails_of_one_kind_are_five_minutes_apart(service: PeopleService) -> None:
    session = await service.signed_up()
    for _ in range(3):
        await service.people.request_reset(ALICE, HERE)
        await service.people.request_verification(session)
    service.clock.advance(FIVE_MINUTES_MS)
    await service.people.request_reset(ALICE, HERE)

    assert [kind for kind, _ in service.emails()] == [
        "reset_password",
        "verify_email",
        "reset_password",
    ]


async def test_a_client_can_request_twenty_reset_links_an_hour(service: PeopleService) -> None:
    """The limit is needed because each request stores a row, even for an invented address."""
    for number in range(30):
        await service.people.request_reset(EmailAddress(f"p{number}@example.org"), HERE)
    assert service.rows("SELECT count(*) FROM proof") == [(20,)]
    await service.people.request_reset(EmailAddress("p30@example.org"), THERE)
    assert service.rows("SELECT count(*) FROM proof") == [(21,)]

    service.clock.advance(HOUR_MS)
    await service.people.request_reset(EmailAddress("p31@example.org"), HERE)
    assert service.rows("SELECT count(*) FROM proof") == [(22,)]


async def test_a_reset_request_for_an_unknown_address_stores_a_row_but_no_email(
    service: PeopleService,
) -> None:
    await service.signed_up()
    for email in (ALICE, MALLORY):
        await service.people.request_reset(email, HERE)

    assert service.rows("SELECT email, length(nonce) FROM proof") == [(ALICE, 32), (MALLORY, 32)]
    assert service.emails() == [("reset_password", ALICE)]


async def test_guesses_of_all_networks_of_a_site_for_an_address_are_limited_together(
    service: PeopleService,
) -> None:
    await service.signed_up()
    for number in range(40):
        with pytest.raises(WrongPassword):
            await service.people.sign_in(ALICE, "wrong password", network(number))

    with pytest.raises(TooManyAttempts):
        await service.people.sign_in(ALICE, "wrong password", network(40))
    await service.people.sign_in(ALICE, PASSWORD, HERE)
    await service.people.sign_in(ALICE, PASSWORD, Browser("2001:db8:1:1::/64", ""))


async def test_guesses_of_all_networks_of_a_site_are_limited_over_all_accounts(
    service: PeopleService,
) -> None:
    await service.signed_up()
    for number in range(200):
        email = EmailAddress(f"p{number}@example.org")
        with pytest.raises(WrongPassword):
            await service.people.sign_in(email, PASSWORD, network(number))

    with pytest.raises(TooManyAttempts):
        await service.people.sign_in(ALICE, PASSWORD, network(200))
    await service.people.sign_in(ALICE, PASSWORD, THERE)
