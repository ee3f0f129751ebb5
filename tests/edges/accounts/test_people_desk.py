"""People sign up, sign in, stay, prove themselves and leave; over a real file."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from mintscope.core.accounts.people.password import WeakPassword, WrongPassword
from mintscope.core.accounts.people.person import EmailTaken
from mintscope.core.accounts.people.session import ABSOLUTE_MS, FRESH_MS, IDLE_MS
from mintscope.core.accounts.proof import Purpose
from mintscope.core.accounts.user import UserKind
from support.scenes.desks import (
    ALICE,
    HERE,
    MALLORY,
    OTHER_PASSWORD,
    PASSWORD,
    THERE,
    Desks,
    open_desks,
)

FIVE_MINUTES_MS = 300_000
QUARTER_MS = 900_000


@pytest.fixture
async def desks(tmp_path: Path) -> AsyncIterator[Desks]:
    async with open_desks(tmp_path) as desks:
        yield desks


async def test_whoever_signs_up_is_signed_in(desks: Desks) -> None:
    session = await desks.signed_up()

    assert session.user.kind is UserKind.PERSON
    assert session.user.email == ALICE
    assert session.user.username.startswith("alice-")
    assert session.user.verified_at is None
    assert not session.user.is_administrator
    assert (session.address, session.agent) == (HERE.address, HERE.agent)
    assert session.is_fresh(desks.clock.now())


async def test_an_address_has_one_account(desks: Desks) -> None:
    await desks.signed_up()

    with pytest.raises(EmailTaken):
        await desks.people.sign_up(ALICE, OTHER_PASSWORD, THERE)
    await desks.signed_in()


async def test_of_two_who_sign_up_at_once_one_gets_the_address(desks: Desks) -> None:
    async def sign_up_first() -> None:
        await desks.people.sign_up(ALICE, OTHER_PASSWORD, THERE)

    desks.hasher.meanwhile = sign_up_first
    with pytest.raises(EmailTaken):
        await desks.people.sign_up(ALICE, PASSWORD, HERE)

    assert desks.rows("SELECT count(*) FROM user") == [(1,)]
    assert desks.rows("SELECT count(*) FROM session") == [(1,)]


@pytest.mark.parametrize("password", ["short", "x" * 201, "alice@example.org", "aaaaaaaaaaaaa"])
async def test_a_password_must_be_hard_to_guess(desks: Desks, password: str) -> None:
    with pytest.raises(WeakPassword):
        await desks.people.sign_up(ALICE, password, HERE)
    session = await desks.signed_up()
    with pytest.raises(WeakPassword):
        await desks.people.change_password(session, password)


async def test_neither_cookie_nor_password_is_in_the_file(desks: Desks) -> None:
    cookie = await desks.people.sign_up(ALICE, PASSWORD, HERE)
    session = await desks.enter(cookie)
    await desks.people.request_reset(ALICE, HERE)
    link = desks.link(Purpose.RESET_PASSWORD).partition(".")[2]

    written = desks.bytes_on_disk()

    for secret in (cookie, session.csrf, link):
        assert len(secret) >= 43
        assert secret.encode() not in written
    assert b"quick:" in written  # what a hasher says, and nothing else


async def test_each_sign_in_is_a_session_of_its_own(desks: Desks) -> None:
    first = await desks.people.sign_up(ALICE, PASSWORD, HERE)
    second = await desks.people.sign_in(ALICE, PASSWORD, HERE)
    third = await desks.people.sign_in(ALICE, PASSWORD, HERE)

    sessions = [await desks.enter(cookie) for cookie in (first, second, third)]
    assert len({first, second, third}) == 3
    assert len({session.session_id for session in sessions}) == 3
    assert len({session.csrf for session in sessions}) == 3


@pytest.mark.parametrize("cookie", ["", "x", "x" * 42, "x" * 43, "x" * 44, "é" * 43, "\0" * 43])
async def test_a_cookie_of_ones_own_making_opens_nothing(desks: Desks, cookie: str) -> None:
    await desks.signed_up()

    assert await desks.people.session(cookie) is None


async def test_nobody_is_told_whether_the_address_or_the_password_is_wrong(desks: Desks) -> None:
    await desks.signed_up()
    told = []
    for email, password in ((ALICE, "wrong password"), (MALLORY, PASSWORD)):
        before = desks.hasher.count
        with pytest.raises(WrongPassword) as failure:
            await desks.people.sign_in(email, password, THERE)
        told.append((str(failure.value), desks.hasher.count - before))

    assert told[0] == told[1] == ("", 1)


async def test_an_unused_session_ends(desks: Desks) -> None:
    cookie = await desks.people.sign_up(ALICE, PASSWORD, HERE)
    desks.clock.advance(IDLE_MS - 1)
    assert await desks.people.session(cookie) is not None
    desks.clock.advance(IDLE_MS)
    assert await desks.people.session(cookie) is None


async def test_any_session_ends(desks: Desks) -> None:
    cookie = await desks.people.sign_up(ALICE, PASSWORD, HERE)
    for _ in range(ABSOLUTE_MS // QUARTER_MS - 1):
        desks.clock.advance(QUARTER_MS)
        assert await desks.people.session(cookie) is not None
    desks.clock.advance(QUARTER_MS)
    assert await desks.people.session(cookie) is None
    assert await desks.people.sessions((await desks.signed_in()).user.user_id) != []


async def test_the_use_of_a_session_is_noted_once_a_minute(desks: Desks) -> None:
    cookie = await desks.people.sign_up(ALICE, PASSWORD, HERE)
    writes = "SELECT seen_at FROM session"
    (began,) = desks.rows(writes)[0]
    for _ in range(5):
        desks.clock.advance(11_999)
        await desks.people.session(cookie)
    assert desks.rows(writes) == [(began,)]
    desks.clock.advance(5)
    assert (await desks.enter(cookie)).seen_at == desks.clock.now()
    assert desks.rows(writes) == [(desks.clock.now(),)]


async def test_a_full_disk_signs_nobody_out(desks: Desks) -> None:
    cookie = await desks.people.sign_up(ALICE, PASSWORD, HERE)
    desks.clock.advance(120_000)
    blocker = apsw.Connection(str(desks.path))
    blocker.execute(
        "CREATE TRIGGER full BEFORE UPDATE ON session BEGIN SELECT raise(FAIL, 'full'); END"
    )
    blocker.close()

    assert await desks.people.session(cookie) is not None


async def test_sessions_are_listed_by_their_last_use(desks: Desks) -> None:
    first = await desks.people.sign_up(ALICE, PASSWORD, HERE)
    desks.clock.advance(1_000)
    await desks.people.sign_in(ALICE, PASSWORD, THERE)
    desks.clock.advance(120_000)
    session = await desks.enter(first)

    listed = await desks.people.sessions(session.user.user_id)

    assert [each.agent for each in listed] == [HERE.agent, THERE.agent]
    assert {each.csrf for each in listed} == {""}
    assert listed[0] == replace(session, csrf="")


async def test_signing_out_ends_the_session_alone(desks: Desks) -> None:
    cookies = [await desks.people.sign_up(ALICE, PASSWORD, HERE)]
    cookies.append(await desks.people.sign_in(ALICE, PASSWORD, HERE))

    await desks.people.sign_out(await desks.enter(cookies[0]))

    assert await desks.people.session(cookies[0]) is None
    assert await desks.people.session(cookies[1]) is not None


async def test_only_ones_own_sessions_can_be_ended(desks: Desks) -> None:
    alice = await desks.signed_up()
    mallory = await desks.signed_up(MALLORY)

    assert not await desks.people.end_session(mallory.user.user_id, alice.session_id)
    assert await desks.people.end_session(alice.user.user_id, alice.session_id)
    assert not await desks.people.end_session(alice.user.user_id, alice.session_id)


async def test_all_other_sessions_end_at_once(desks: Desks) -> None:
    kept = await desks.signed_up()
    for _ in range(3):
        await desks.signed_in()
    stranger = await desks.signed_up(MALLORY)

    assert await desks.people.end_other_sessions(kept) == 3
    assert [s.session_id for s in await desks.people.sessions(kept.user.user_id)] == [
        kept.session_id
    ]
    assert len(await desks.people.sessions(stranger.user.user_id)) == 1


async def test_a_password_entered_again_counts_for_a_while(desks: Desks) -> None:
    cookie = await desks.people.sign_up(ALICE, PASSWORD, HERE)
    desks.clock.advance(FRESH_MS)
    session = await desks.enter(cookie)
    assert not session.is_fresh(desks.clock.now())

    with pytest.raises(WrongPassword):
        await desks.people.prove(session, "wrong password")
    assert not (await desks.enter(cookie)).is_fresh(desks.clock.now())
    await desks.people.prove(session, PASSWORD)

    assert (await desks.enter(cookie)).is_fresh(desks.clock.now())


async def test_a_new_password_ends_all_other_sessions_and_is_told(desks: Desks) -> None:
    session = await desks.signed_up()
    await desks.signed_in()
    await desks.people.request_reset(ALICE, HERE)
    link = desks.link(Purpose.RESET_PASSWORD)

    await desks.people.change_password(session, OTHER_PASSWORD)

    assert [s.session_id for s in await desks.people.sessions(session.user.user_id)] == [
        session.session_id
    ]
    with pytest.raises(WrongPassword):
        await desks.people.sign_in(ALICE, PASSWORD, HERE)
    await desks.people.sign_in(ALICE, OTHER_PASSWORD, HERE)
    assert await desks.people.find_reset(link) is None
    assert desks.letters()[-1] == ("password_changed", ALICE)


async def test_a_reset_sets_the_password_and_verifies_the_mailbox(desks: Desks) -> None:
    session = await desks.signed_up()
    await desks.people.request_reset(ALICE, HERE)
    link = desks.link(Purpose.RESET_PASSWORD)
    assert await desks.people.find_reset(link) == ALICE

    assert await desks.people.reset(link, OTHER_PASSWORD)

    assert await desks.people.sessions(session.user.user_id) == []
    entered = await desks.enter(await desks.people.sign_in(ALICE, OTHER_PASSWORD, HERE))
    assert entered.user.verified_at == desks.clock.now()
    assert [kind for kind, _ in desks.letters()] == ["reset_password", "password_changed"]


async def test_a_weak_password_does_not_use_up_the_link(desks: Desks) -> None:
    await desks.signed_up()
    await desks.people.request_reset(ALICE, HERE)
    link = desks.link(Purpose.RESET_PASSWORD)

    with pytest.raises(WeakPassword):
        await desks.people.reset(link, "short")

    assert await desks.people.reset(link, OTHER_PASSWORD)


async def test_whoever_reads_the_mailbox_verifies_it_in_the_own_session(desks: Desks) -> None:
    session = await desks.signed_up()
    await desks.people.request_verification(session)
    link = desks.link(Purpose.VERIFY_EMAIL)
    later = await desks.signed_in()  # another browser of the same person

    assert await desks.people.verify(later, link)

    assert (await desks.signed_in()).user.verified_at == desks.clock.now()
    assert not await desks.people.verify(later, link)


async def test_what_a_person_does_is_in_the_audit_log(desks: Desks) -> None:
    session = await desks.signed_up()
    await desks.people.request_verification(session)
    await desks.people.verify(session, desks.link(Purpose.VERIFY_EMAIL))
    await desks.people.change_password(session, OTHER_PASSWORD)
    await desks.people.request_reset(ALICE, HERE)
    await desks.people.reset(desks.link(Purpose.RESET_PASSWORD), PASSWORD)

    who = f"user:{session.user.user_id}"
    assert desks.rows("SELECT actor, action, subject FROM account_event ORDER BY id") == [
        (who, action, who)
        for action in ("signed up", "verified mailbox", "changed password", "reset password")
    ]
