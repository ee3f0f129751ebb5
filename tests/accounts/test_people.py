"""People sign up, sign in, stay, prove themselves and leave; over a real file."""

from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from mintscope.accounts.factor_rows import UserKind
from mintscope.accounts.session import ABSOLUTE_MS, FRESH_MS, IDLE_MS, Purpose
from mintscope.accounts.user import EmailTaken, WeakPassword, WrongPassword
from mintscope.kit.clock import ManualClock
from support.scenes.accounts_service import open_accounts_service
from support.scenes.people_service import (
    ALICE,
    HERE,
    MALLORY,
    NOW,
    OTHER_PASSWORD,
    PASSWORD,
    THERE,
    PeopleService,
    open_people_service,
)
from support.scenes.stores import PEPPER

FIVE_MINUTES_MS = 300_000
QUARTER_MS = 900_000
WRONG_PASSWORD = "wrong horse battery"


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[PeopleService]:
    async with open_people_service(tmp_path) as service:
        yield service


async def test_signing_up_signs_in(service: PeopleService) -> None:
    session = await service.signed_up()

    assert session.user.kind is UserKind.PERSON
    assert session.user.email == ALICE
    assert session.user.username.startswith("alice-")
    assert session.user.verified_at is None
    assert not session.user.is_administrator
    assert (session.address, session.agent) == (HERE.address, HERE.agent)
    assert session.is_fresh(service.clock.now())


async def test_an_address_has_one_account(service: PeopleService) -> None:
    await service.signed_up()

    with pytest.raises(EmailTaken):
        await service.people.sign_up(ALICE, OTHER_PASSWORD, THERE)
    await service.signed_in()


async def test_one_of_two_simultaneous_sign_ups_gets_the_address(service: PeopleService) -> None:
    async def sign_up_first() -> None:
        await service.people.sign_up(ALICE, OTHER_PASSWORD, THERE)

    service.hasher.meanwhile = sign_up_first
    with pytest.raises(EmailTaken):
        await service.people.sign_up(ALICE, PASSWORD, HERE)

    assert service.rows("SELECT count(*) FROM user") == [(1,)]
    assert service.rows("SELECT count(*) FROM session") == [(1,)]


@pytest.mark.parametrize(
    "password",
    [
        *("short", "x" * 201, "alice@example.org", "aaaaaaaaaaaaa"),
        *(
            "password12",
            "1234567890",
            "Qwerty12345!",
            "P@ssw0rd2024",
            "solanasolana",
            "!!Welcome2026",
        ),
    ],
)
async def test_a_password_must_be_hard_to_guess(service: PeopleService, password: str) -> None:
    with pytest.raises(WeakPassword):
        await service.people.sign_up(ALICE, password, HERE)
    session = await service.signed_up()
    with pytest.raises(WeakPassword):
        await service.people.change_password(session, password)


@pytest.mark.parametrize(
    "password", ["passwordless entry", "your password 12", "welcome to 1999", "dragon monkey 1"]
)
async def test_a_common_word_among_others_is_allowed(service: PeopleService, password: str) -> None:
    await service.people.sign_up(ALICE, password, HERE)


async def test_no_cookie_csrf_token_or_reset_link_is_in_the_file(service: PeopleService) -> None:
    cookie = await service.people.sign_up(ALICE, PASSWORD, HERE)
    session = await service.enter(cookie)
    await service.people.request_reset(ALICE, HERE)
    link = service.link(Purpose.RESET_PASSWORD).partition(".")[2]

    written = service.bytes_on_disk()

    for secret in (cookie, session.csrf, link):
        assert len(secret) >= 43
        assert secret.encode() not in written
    assert b"quick:" in written  # the stored hash: the file was really read


async def test_no_password_is_in_the_file(tmp_path: Path) -> None:
    """This uses the real hasher: the hashes of the other tests' hasher show the passwords."""
    clock = ManualClock(NOW)
    async with open_accounts_service(tmp_path, pepper=PEPPER, clock=clock) as accounts:
        people = accounts.built.people
        session = await people.session(await people.sign_up(ALICE, PASSWORD, HERE))
        assert session is not None
        with pytest.raises(WrongPassword):
            await people.sign_in(ALICE, WRONG_PASSWORD, HERE)
        await people.change_password(session, OTHER_PASSWORD)
        path = accounts.path
        written = path.read_bytes() + path.with_name(f"{path.name}-wal").read_bytes()

    for password in (PASSWORD, OTHER_PASSWORD, WRONG_PASSWORD):
        for form in (password, b64encode(password.encode()).decode(), password.encode().hex()):
            assert form.encode() not in written
    assert written.count(b"$argon2id$") >= 2, "both stored hashes: the file was really read"


async def test_each_sign_in_is_a_session_of_its_own(service: PeopleService) -> None:
    first = await service.people.sign_up(ALICE, PASSWORD, HERE)
    second = await service.people.sign_in(ALICE, PASSWORD, HERE)
    third = await service.people.sign_in(ALICE, PASSWORD, HERE)

    sessions = [await service.enter(cookie) for cookie in (first, second, third)]
    assert len({first, second, third}) == 3
    assert len({session.session_id for session in sessions}) == 3
    assert len({session.csrf for session in sessions}) == 3


@pytest.mark.parametrize("cookie", ["", "x", "x" * 42, "x" * 43, "x" * 44, "é" * 43, "\0" * 43])
async def test_an_invented_cookie_opens_no_session(service: PeopleService, cookie: str) -> None:
    await service.signed_up()

    assert await service.people.session(cookie) is None


async def test_a_wrong_address_and_a_wrong_password_fail_equally_at_equal_cost(
    service: PeopleService,
) -> None:
    await service.signed_up()
    reported = []
    for email, password in ((ALICE, "wrong password"), (MALLORY, PASSWORD)):
        before = service.hasher.count
        with pytest.raises(WrongPassword) as failure:
            await service.people.sign_in(email, password, THERE)
        reported.append((str(failure.value), service.hasher.count - before))

    assert reported[0] == reported[1] == ("", 1)


async def test_an_unused_session_ends_after_its_idle_time(service: PeopleService) -> None:
    cookie = await service.people.sign_up(ALICE, PASSWORD, HERE)
    service.clock.advance(IDLE_MS - 1)
    assert await service.people.session(cookie) is not None
    service.clock.advance(IDLE_MS)
    assert await service.people.session(cookie) is None


async def test_a_used_session_ends_after_its_absolute_time(service: PeopleService) -> None:
    cookie = await service.people.sign_up(ALICE, PASSWORD, HERE)
    for _ in range(ABSOLUTE_MS // QUARTER_MS - 1):
        service.clock.advance(QUARTER_MS)
        assert await service.people.session(cookie) is not None
    service.clock.advance(QUARTER_MS)
    assert await service.people.session(cookie) is None
    assert await service.people.sessions((await service.signed_in()).user.user_id) != []


async def test_the_use_of_a_session_is_noted_once_a_minute(service: PeopleService) -> None:
    cookie = await service.people.sign_up(ALICE, PASSWORD, HERE)
    writes = "SELECT seen_at FROM session"
    (began,) = service.rows(writes)[0]
    for _ in range(5):
        service.clock.advance(11_999)
        await service.people.session(cookie)
    assert service.rows(writes) == [(began,)]
    service.clock.advance(5)
    assert (await service.enter(cookie)).seen_at == service.clock.now()
    assert service.rows(writes) == [(service.clock.now(),)]


async def test_a_full_disk_ends_no_session(service: PeopleService) -> None:
    cookie = await service.people.sign_up(ALICE, PASSWORD, HERE)
    service.clock.advance(120_000)
    blocker = apsw.Connection(str(service.path))
    blocker.execute(
        "CREATE TRIGGER full BEFORE UPDATE ON session BEGIN SELECT raise(FAIL, 'full'); END"
    )
    blocker.close()

    assert await service.people.session(cookie) is not None


async def test_sessions_are_listed_by_their_last_use(service: PeopleService) -> None:
    first = await service.people.sign_up(ALICE, PASSWORD, HERE)
    service.clock.advance(1_000)
    await service.people.sign_in(ALICE, PASSWORD, THERE)
    service.clock.advance(120_000)
    session = await service.enter(first)

    listed = await service.people.sessions(session.user.user_id)

    assert [each.agent for each in listed] == [HERE.agent, THERE.agent]
    assert {each.csrf for each in listed} == {""}
    assert listed[0] == replace(session, csrf="")


async def test_signing_out_ends_only_its_own_session(service: PeopleService) -> None:
    cookies = [await service.people.sign_up(ALICE, PASSWORD, HERE)]
    cookies.append(await service.people.sign_in(ALICE, PASSWORD, HERE))

    await service.people.sign_out(await service.enter(cookies[0]))

    assert await service.people.session(cookies[0]) is None
    assert await service.people.session(cookies[1]) is not None


async def test_a_person_can_end_only_their_own_sessions(service: PeopleService) -> None:
    alice = await service.signed_up()
    mallory = await service.signed_up(MALLORY)

    assert not await service.people.end_session(mallory.user.user_id, alice.session_id)
    assert await service.people.end_session(alice.user.user_id, alice.session_id)
    assert not await service.people.end_session(alice.user.user_id, alice.session_id)


async def test_ending_all_other_sessions_keeps_only_the_current_session(
    service: PeopleService,
) -> None:
    kept = await service.signed_up()
    for _ in range(3):
        await service.signed_in()
    stranger = await service.signed_up(MALLORY)

    assert await service.people.end_other_sessions(kept) == 3
    assert [s.session_id for s in await service.people.sessions(kept.user.user_id)] == [
        kept.session_id
    ]
    assert len(await service.people.sessions(stranger.user.user_id)) == 1


async def test_a_session_is_fresh_after_the_password_is_entered_again(
    service: PeopleService,
) -> None:
    cookie = await service.people.sign_up(ALICE, PASSWORD, HERE)
    service.clock.advance(FRESH_MS)
    session = await service.enter(cookie)
    assert not session.is_fresh(service.clock.now())

    with pytest.raises(WrongPassword):
        await service.people.prove(session, "wrong password")
    assert not (await service.enter(cookie)).is_fresh(service.clock.now())
    await service.people.prove(session, PASSWORD)

    assert (await service.enter(cookie)).is_fresh(service.clock.now())


async def test_a_new_password_ends_all_other_sessions_and_sends_an_email(
    service: PeopleService,
) -> None:
    session = await service.signed_up()
    await service.signed_in()
    await service.people.request_reset(ALICE, HERE)
    link = service.link(Purpose.RESET_PASSWORD)

    await service.people.change_password(session, OTHER_PASSWORD)

    assert [s.session_id for s in await service.people.sessions(session.user.user_id)] == [
        session.session_id
    ]
    with pytest.raises(WrongPassword):
        await service.people.sign_in(ALICE, PASSWORD, HERE)
    await service.people.sign_in(ALICE, OTHER_PASSWORD, HERE)
    assert await service.people.find_address(link, Purpose.RESET_PASSWORD) is None
    assert service.emails()[-1] == ("password_changed", ALICE)


async def test_a_reset_sets_the_password_and_verifies_the_address(service: PeopleService) -> None:
    session = await service.signed_up()
    await service.people.request_reset(ALICE, HERE)
    link = service.link(Purpose.RESET_PASSWORD)
    assert await service.people.find_address(link, Purpose.RESET_PASSWORD) == ALICE

    assert await service.people.reset(link, OTHER_PASSWORD)

    assert await service.people.sessions(session.user.user_id) == []
    entered = await service.enter(await service.people.sign_in(ALICE, OTHER_PASSWORD, HERE))
    assert entered.user.verified_at == service.clock.now()
    assert [kind for kind, _ in service.emails()] == ["reset_password", "password_changed"]


async def test_a_weak_password_does_not_use_up_the_link(service: PeopleService) -> None:
    await service.signed_up()
    await service.people.request_reset(ALICE, HERE)
    link = service.link(Purpose.RESET_PASSWORD)

    with pytest.raises(WeakPassword):
        await service.people.reset(link, "short")

    assert await service.people.reset(link, OTHER_PASSWORD)


async def test_a_verification_link_works_once_in_any_session_of_the_person(
    service: PeopleService,
) -> None:
    session = await service.signed_up()
    await service.people.request_verification(session)
    link = service.link(Purpose.VERIFY_EMAIL)
    later = await service.signed_in()  # another browser of the same person

    assert await service.people.verify(later, link)

    assert (await service.signed_in()).user.verified_at == service.clock.now()
    assert not await service.people.verify(later, link)


async def test_actions_of_a_person_are_in_the_audit_log(service: PeopleService) -> None:
    session = await service.signed_up()
    await service.people.request_verification(session)
    await service.people.verify(session, service.link(Purpose.VERIFY_EMAIL))
    await service.people.change_password(session, OTHER_PASSWORD)
    await service.people.request_reset(ALICE, HERE)
    await service.people.reset(service.link(Purpose.RESET_PASSWORD), PASSWORD)

    who = f"user:{session.user.user_id}"
    assert service.rows("SELECT actor, action, subject FROM account_event ORDER BY id") == [
        (who, action, who)
        for action in ("signed up", "verified mailbox", "changed password", "reset password")
    ]
