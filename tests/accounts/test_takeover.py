"""Attacks on the account of another person gain nothing.

Mallory is the attacker, Alice the owner of the e-mail address alice@example.org.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from mintscope.accounts.keys.scope import Scope
from mintscope.accounts.session import Purpose, SessionEnded, link_text, parse_link
from mintscope.accounts.sessions import Ended
from mintscope.accounts.user import WrongPassword
from mintscope.alerts.alert import TelegramChat
from mintscope.kit.time import HOUR_MS
from support.scenes.people_service import (
    ALICE,
    HERE,
    MALLORY,
    OTHER_PASSWORD,
    PASSWORD,
    THERE,
    PeopleService,
    open_people_service,
)
from support.scenes.service import NOW

READS = frozenset({Scope.TRADE_READ})


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[PeopleService]:
    async with open_people_service(tmp_path) as service:
        yield service


async def test_a_stranger_who_registered_the_address_is_locked_out_by_a_reset(
    service: PeopleService,
) -> None:
    mallory = await service.people.sign_up(ALICE, PASSWORD, THERE)
    session = await service.enter(mallory)
    key = await service.keys.create(session, name="mine", scopes=READS, lifetime_ms=None)
    successor = await service.keys.rotate(session, key.line.key_id, overlap_ms=HOUR_MS)
    assert successor is not None
    chat = TelegramChat(user_id=session.user.user_id, chat_id=7, name="@mallory", linked_at=NOW)
    await service.store.transact(lambda rows: rows.chats.link(chat))

    await service.taken_back()

    assert await service.people.session(mallory) is None
    assert await service.keys.find(key.api_key) is None
    assert await service.keys.find(successor.api_key) is None
    assert service.rows("SELECT count(*) FROM telegram_chat") == [(0,)]
    with pytest.raises(WrongPassword):
        await service.people.sign_in(ALICE, PASSWORD, THERE)


async def test_a_session_from_before_a_reset_creates_no_key_and_changes_nothing(
    service: PeopleService,
) -> None:
    mallory = await service.signed_up(ALICE, THERE)
    await service.taken_back()  # after the session was read, before the key is created

    with pytest.raises(SessionEnded):
        await service.keys.create(mallory, name="mine", scopes=READS, lifetime_ms=None)
    with pytest.raises(SessionEnded):
        await service.people.change_password(mallory, PASSWORD)
    with pytest.raises(SessionEnded):
        await service.people.request_verification(mallory)

    assert service.rows("SELECT count(*) FROM api_key") == [(0,)]
    await service.people.sign_in(ALICE, OTHER_PASSWORD, HERE)


async def test_a_sign_in_with_the_old_password_fails_if_a_reset_happens_meanwhile(
    service: PeopleService,
) -> None:
    await service.signed_up(ALICE, THERE)
    service.hasher.meanwhile = service.taken_back

    with pytest.raises(WrongPassword):
        await service.people.sign_in(ALICE, PASSWORD, THERE)

    assert service.rows("SELECT count(*) FROM session") == [(0,)]


async def test_a_proof_of_the_old_password_fails_if_a_reset_happens_meanwhile(
    service: PeopleService,
) -> None:
    mallory = await service.signed_up(ALICE, THERE)
    service.hasher.meanwhile = service.taken_back

    with pytest.raises(SessionEnded):
        await service.people.prove(mallory, PASSWORD)


async def test_api_keys_of_a_verified_owner_survive_a_password_reset(
    service: PeopleService,
) -> None:
    session = await service.owned()
    key = await service.keys.create(session, name="bot", scopes=READS, lifetime_ms=None)
    service.clock.advance(HOUR_MS)

    await service.taken_back()

    assert await service.keys.find(key.api_key) is not None


async def test_a_verification_link_does_nothing_in_another_account(service: PeopleService) -> None:
    """Mallory signs up with the address of Alice, and opens the link in another account."""
    mallory = await service.signed_up(ALICE, THERE)
    await service.people.request_verification(mallory)
    link = service.link(Purpose.VERIFY_EMAIL)
    other = await service.signed_up(MALLORY)

    assert not await service.people.verify(other, link)

    assert service.rows("SELECT verified_at FROM user") == [(None,), (None,)]
    assert service.rows("SELECT used_at FROM proof") == [(None,)]


async def test_a_verification_link_is_void_after_the_owner_reset_the_password(
    service: PeopleService,
) -> None:
    mallory = await service.signed_up(ALICE, THERE)
    await service.people.request_verification(mallory)
    link = service.link(Purpose.VERIFY_EMAIL)
    await service.taken_back()
    owner = await service.enter(await service.people.sign_in(ALICE, OTHER_PASSWORD, HERE))

    assert not await service.people.verify(owner, link)


async def test_a_reset_link_works_once(service: PeopleService) -> None:
    await service.signed_up()
    await service.people.request_reset(ALICE, HERE)
    link = service.link(Purpose.RESET_PASSWORD)
    assert await service.people.reset(link, OTHER_PASSWORD) == Ended(sessions=1)

    assert not await service.people.reset(link, PASSWORD)
    assert await service.people.find_address(link, Purpose.RESET_PASSWORD) is None
    await service.people.sign_in(ALICE, OTHER_PASSWORD, HERE)


async def test_one_of_two_simultaneous_uses_of_a_reset_link_sets_the_password(
    service: PeopleService,
) -> None:
    await service.signed_up()
    await service.people.request_reset(ALICE, HERE)
    link = service.link(Purpose.RESET_PASSWORD)
    service.hasher.meanwhile = lambda: service.people.reset(link, OTHER_PASSWORD)

    assert not await service.people.reset(link, PASSWORD)

    await service.people.sign_in(ALICE, OTHER_PASSWORD, HERE)


async def test_a_reset_voids_earlier_reset_links(service: PeopleService) -> None:
    await service.signed_up()
    await service.people.request_reset(ALICE, HERE)
    earlier = service.link(Purpose.RESET_PASSWORD)
    service.clock.advance(HOUR_MS // 2)
    await service.taken_back()

    assert await service.people.find_address(earlier, Purpose.RESET_PASSWORD) is None


async def test_a_reset_link_expires_after_an_hour(service: PeopleService) -> None:
    await service.signed_up()
    await service.people.request_reset(ALICE, HERE)
    link = service.link(Purpose.RESET_PASSWORD)
    service.clock.advance(HOUR_MS)

    assert await service.people.find_address(link, Purpose.RESET_PASSWORD) is None
    assert not await service.people.reset(link, OTHER_PASSWORD)


async def test_a_link_works_only_for_its_purpose(service: PeopleService) -> None:
    session = await service.signed_up()
    await service.people.request_verification(session)
    verifying = service.link(Purpose.VERIFY_EMAIL)
    await service.people.request_reset(ALICE, HERE)
    resetting = service.link(Purpose.RESET_PASSWORD)

    assert not await service.people.reset(verifying, OTHER_PASSWORD)
    assert await service.people.find_address(verifying, Purpose.RESET_PASSWORD) is None
    assert not await service.people.verify(session, resetting)
    assert await service.people.claim(session, resetting) is None


async def test_a_link_cannot_be_guessed_from_another(service: PeopleService) -> None:
    await service.signed_up()
    await service.signed_up(MALLORY)
    await service.people.request_reset(MALLORY, HERE)
    own = parse_link(service.link(Purpose.RESET_PASSWORD))
    await service.people.request_reset(ALICE, HERE)
    hers = parse_link(service.link(Purpose.RESET_PASSWORD))
    assert own is not None
    assert hers is not None

    for guess in (own[1], hers[1][:-1], hers[1] + "x", hers[1].swapcase(), "", "é", "\ud800"):
        assert not await service.people.reset(link_text(hers[0], guess), PASSWORD)
    for text in ("", ".", "1", "x.y", f"{hers[0]}", f"-1.{hers[1]}", f"{10**18}.{hers[1]}"):
        assert await service.people.find_address(text, Purpose.RESET_PASSWORD) is None


async def test_emails_contain_neither_the_user_agent_nor_the_name_of_a_key(
    service: PeopleService,
) -> None:
    spam = "You won! http://evil.example"
    session = await service.enter(
        await service.people.sign_up(ALICE, PASSWORD, replace(THERE, agent=spam))
    )
    key = await service.keys.create(session, name=spam, scopes=READS, lifetime_ms=None)
    await service.keys.rotate(session, key.line.key_id, overlap_ms=0)

    assert len(service.emails()) == 2
    assert "evil" not in str(service.rows("SELECT * FROM letter"))
