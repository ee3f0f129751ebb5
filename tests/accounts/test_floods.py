"""Daily limits on one person's API keys, and on e-mails that one person can cause to strangers."""

import os
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from mintscope.accounts.keys.key import KEYS_PER_DAY_MAX, KEYS_SHOWN_MAX
from mintscope.accounts.keys.keys import TooManyKeys
from mintscope.accounts.keys.scope import Scope
from mintscope.accounts.mail.store import RESETS_MAX
from mintscope.accounts.people import People
from mintscope.accounts.session import (
    SESSIONS_PER_USER_MAX,
    Browser,
    Lifetimes,
    Purpose,
    Session,
)
from mintscope.accounts.user import LoginLimits
from mintscope.kit.audit import KeyId
from mintscope.kit.limits import MemoryLimits
from support.scenes.people_service import (
    ALICE,
    HERE,
    MALLORY,
    OTHER_PASSWORD,
    PASSWORD,
    SECRETS,
    THERE,
    PeopleService,
    open_people_service,
)

DAY_MS: Final = 86_400_000
TIMES: Final = 20
EMAIL_PAUSE_MS: Final = 300_000  # one in five minutes
HOUR_MS: Final = 3_600_000
A_DAY: Final = 5  # e-mails of a kind, to an address that is not verified


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[PeopleService]:
    async with open_people_service(tmp_path) as service:
        yield service


async def make_and_rotate(service: PeopleService, session: Session, times: int) -> KeyId:
    """Create an API key, and rotate it until there are *times* keys; return the ID of the last."""
    issued = await service.keys.create(
        session, name="bot", scopes=frozenset({Scope.TRADE_READ}), lifetime_ms=None
    )
    for _ in range(times - 1):
        rotated = await service.keys.rotate(session, issued.line.key_id, overlap_ms=0)
        assert rotated is not None
        issued = rotated
    return issued.line.key_id


def written(service: PeopleService) -> Counter[str]:
    return Counter(kind for kind, _ in service.emails())


async def count_waiting(service: PeopleService) -> int:
    """Return the number of written e-mails, none of which is sent in these tests.

    It opens no file, as `written` does, so that a test can count after each of many actions.
    """
    return await service.store.read(lambda rows: rows.emails.count_waiting())


async def test_an_unverified_address_gets_five_emails_of_a_kind_in_a_day(
    service: PeopleService,
) -> None:
    mallory = await service.signed_up()

    await make_and_rotate(service, mallory, TIMES)
    for _ in range(TIMES):
        await service.people.change_password(mallory, OTHER_PASSWORD)

    assert written(service) == {"new_key": A_DAY, "password_changed": A_DAY}
    service.clock.advance(DAY_MS)
    mallory = await service.enter(
        await service.people.sign_in(mallory.user.email, OTHER_PASSWORD, HERE)
    )
    await make_and_rotate(service, mallory, 1)
    assert written(service)["new_key"] == A_DAY + 1


async def test_verification_links_are_limited_to_five_a_day(service: PeopleService) -> None:
    session = await service.signed_up()
    for _ in range(TIMES):
        await service.people.request_verification(session)
        service.clock.advance(EMAIL_PAUSE_MS)

    assert written(service) == {"verify_email": A_DAY}
    assert await service.people.verify(session, service.link(Purpose.VERIFY_EMAIL))


async def test_a_reset_is_announced_even_after_the_emails_of_a_day_are_used_up(
    service: PeopleService,
) -> None:
    mallory = await service.signed_up()
    for _ in range(TIMES):
        await service.people.change_password(mallory, OTHER_PASSWORD)

    await service.taken_back()

    assert service.emails()[-1][0] == "password_changed"
    assert written(service)["password_changed"] == A_DAY + 1


async def test_a_person_with_a_verified_address_gets_an_email_about_every_key(
    service: PeopleService,
) -> None:
    await make_and_rotate(service, await service.owned(), TIMES)

    assert written(service)["new_key"] == TIMES


async def test_the_keys_made_in_a_day_are_limited(service: PeopleService) -> None:
    session = await service.owned()
    last = await make_and_rotate(service, session, KEYS_PER_DAY_MAX)

    with pytest.raises(TooManyKeys):
        await service.keys.rotate(session, last, overlap_ms=0)
    with pytest.raises(TooManyKeys):
        await make_and_rotate(service, session, 1)
    assert service.rows("SELECT count(*) FROM api_key") == [(KEYS_PER_DAY_MAX,)]
    service.clock.advance(DAY_MS)
    session = await service.enter(
        await service.people.sign_in(session.user.email, OTHER_PASSWORD, HERE)
    )
    assert await service.keys.rotate(session, last, overlap_ms=0) is not None


async def test_all_working_keys_and_the_newest_ended_keys_are_shown(service: PeopleService) -> None:
    session = await service.owned()
    first = await make_and_rotate(service, session, 1)
    service.change(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
        " INSERT INTO api_key (user, key_hash, hint, name, scopes, created_at, expires_at)"
        " SELECT ?, randomblob(32), '', 'bot', '[]', 1, ? FROM n",
        KEYS_SHOWN_MAX,
        session.user.user_id,
        service.clock.now(),
    )

    shown = await service.keys.of_user(session.user.user_id)

    assert len(shown) == KEYS_SHOWN_MAX
    assert shown[0].key_id == first
    assert shown[1].key_id == first + KEYS_SHOWN_MAX


async def test_the_oldest_session_ends_if_a_user_has_too_many_sessions(
    service: PeopleService,
) -> None:
    other = await service.signed_up(MALLORY)
    first = await service.people.sign_up(ALICE, PASSWORD, HERE)
    second, *_, last = [
        await service.people.sign_in(ALICE, PASSWORD, HERE) for _ in range(SESSIONS_PER_USER_MAX)
    ]

    assert await service.people.session(first) is None
    session = await service.enter(second)
    assert await service.people.session(last) is not None
    assert len(await service.people.sessions(session.user.user_id)) == SESSIONS_PER_USER_MAX
    assert len(await service.people.sessions(other.user.user_id)) == 1


@pytest.mark.storm
async def test_the_pause_between_reset_links_grows_with_each_link(service: PeopleService) -> None:
    await service.signed_up()
    written_at_min = []
    count = await count_waiting(service)
    for minute in range(25 * 60):
        before = count
        await service.people.request_reset(ALICE, THERE)
        count = await count_waiting(service)
        if count > before:
            written_at_min.append(minute)
        service.clock.advance(60_000)

    # One in five minutes, three in an hour, five in a day.
    assert written_at_min == [0, 5, 10, 60, 65, 1440, 1445, 1450]


async def test_all_ipv6_networks_of_a_site_share_one_limit_of_reset_links(
    service: PeopleService,
) -> None:
    await service.signed_up()
    for number in range(TIMES):
        await service.people.request_reset(ALICE, Browser(f"2001:db8:0:{number:x}::/64", ""))

    assert written(service) == {"reset_password": 1}


async def test_a_stranger_cannot_use_up_the_reset_links_of_the_owner(
    service: PeopleService,
) -> None:
    await service.signed_up()
    for _ in range(100):
        await service.people.request_reset(ALICE, THERE)
    await service.people.request_reset(ALICE, HERE)

    assert written(service) == {"reset_password": 2}


async def test_the_owner_always_has_a_valid_reset_link_while_strangers_request_links(
    service: PeopleService,
) -> None:
    await service.signed_up()
    for number in range(24 * 6):  # three other clients every ten minutes
        for part in range(3):
            await service.people.request_reset(ALICE, Browser(f"198.51.{part}.{number}", ""))
        assert (
            await service.people.find_address(
                service.link(Purpose.RESET_PASSWORD), Purpose.RESET_PASSWORD
            )
            == ALICE
        )
        service.clock.advance(HOUR_MS // 6)

    assert written(service)["reset_password"] <= RESETS_MAX + 48

    assert await service.people.reset(service.link(Purpose.RESET_PASSWORD), OTHER_PASSWORD)
    await service.people.request_reset(ALICE, HERE)
    assert (
        await service.people.find_address(
            service.link(Purpose.RESET_PASSWORD), Purpose.RESET_PASSWORD
        )
        == ALICE
    )


async def test_the_limit_of_reset_emails_to_an_address_holds_over_all_processes(
    service: PeopleService,
) -> None:
    await service.signed_up()
    for _ in range(RESETS_MAX + 5):
        people = People(  # of a new process, which has seen no requests
            store=service.store,
            hasher=service.hasher,
            secrets=SECRETS,
            limits=MemoryLimits(service.clock),
            clock=service.clock,
            entropy=os.urandom,
            lifetimes=Lifetimes(),
            guesses=LoginLimits(),
        )
        await people.request_reset(ALICE, HERE)

    assert written(service) == {"reset_password": RESETS_MAX}
    assert service.rows("SELECT count(*) FROM proof") == [
        (RESETS_MAX + 5,)
    ]  # stored even without an e-mail: all requests take equally long
