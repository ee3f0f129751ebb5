"""Attempts on another's account: nothing is gained by them.

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


async def test_the_first_to_register_a_strangers_address_is_shut_out(
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


async def test_a_key_made_while_the_password_is_reset_is_not_made(service: PeopleService) -> None:
    mallory = await service.signed_up(ALICE, THERE)
    await service.taken_back()  # between the look at the cookie and the making of the key

    with pytest.raises(SessionEnded):
        await service.keys.create(mallory, name="mine", scopes=READS, lifetime_ms=None)
    with pytest.raises(SessionEnded):
        await service.people.change_password(mallory, PASSWORD)
    with pytest.raises(SessionEnded):
        await service.people.request_verification(mallory)

    assert service.rows("SELECT count(*) FROM api_key") == [(0,)]
    await service.people.sign_in(ALICE, OTHER_PASSWORD, HERE)


async def test_a_sign_in_while_the_password_is_reset_opens_nothing(service: PeopleService) -> None:
    await service.signed_up(ALICE, THERE)
    service.hasher.meanwhile = service.taken_back

    with pytest.raises(WrongPassword):
        await service.people.sign_in(ALICE, PASSWORD, THERE)

    assert service.rows("SELECT count(*) FROM session") == [(0,)]


async def test_a_proof_of_the_old_password_while_it_is_reset_proves_nothing(
    service: PeopleService,
) -> None:
    mallory = await service.signed_up(ALICE, THERE)
    service.hasher.meanwhile = service.taken_back

    with pytest.raises(SessionEnded):
        await service.people.prove(mallory, PASSWORD)


async def test_the_keys_of_an_owner_outlive_a_forgotten_password(service: PeopleService) -> None:
    session = await service.owned()
    key = await service.keys.create(session, name="bot", scopes=READS, lifetime_ms=None)
    service.clock.advance(HOUR_MS)

    await service.taken_back()

    assert await service.keys.find(key.api_key) is not None


async def test_a_link_to_verify_does_nothing_in_another_account(service: PeopleService) -> None:
    """Mallory registers Alice's address; Alice, signed in elsewhere or nowhere, opens the link."""
    mallory = await service.signed_up(ALICE, THERE)
    await service.people.request_verification(mallory)
    link = service.link(Purpose.VERIFY_EMAIL)
    other = await service.signed_up(MALLORY)

    assert not await service.people.verify(other, link)

    assert service.rows("SELECT verified_at FROM user") == [(None,), (None,)]
    assert service.rows("SELECT used_at FROM proof") == [(None,)]


async def test_a_link_to_verify_is_void_once_the_owner_took_over(service: PeopleService) -> None:
    mallory = await service.signed_up(ALICE, THERE)
    await service.people.request_verification(mallory)
    link = service.link(Purpose.VERIFY_EMAIL)
    await service.taken_back()
    owner = await service.enter(await service.people.sign_in(ALICE, OTHER_PASSWORD, HERE))

    assert not await service.people.verify(owner, link)


async def test_a_link_to_reset_is_good_once(service: PeopleService) -> None:
    await service.signed_up()
    await service.people.request_reset(ALICE, HERE)
    link = service.link(Purpose.RESET_PASSWORD)
    assert await service.people.reset(link, OTHER_PASSWORD) == Ended(sessions=1)

    assert not await service.people.reset(link, PASSWORD)
    assert await service.people.find_address(link, Purpose.RESET_PASSWORD) is None
    await service.people.sign_in(ALICE, OTHER_PASSWORD, HERE)


async def test_of_two_uses_of_one_link_at_once_one_sets_the_password(
    service: PeopleService,
) -> None:
    await service.signed_up()
    await service.people.request_reset(ALICE, HERE)
    link = service.link(Purpose.RESET_PASSWORD)
    service.hasher.meanwhile = lambda: service.people.reset(link, OTHER_PASSWORD)

    assert not await service.people.reset(link, PASSWORD)

    await service.people.sign_in(ALICE, OTHER_PASSWORD, HERE)


async def test_a_reset_ends_every_other_link_to_reset(service: PeopleService) -> None:
    await service.signed_up()
    await service.people.request_reset(ALICE, HERE)
    earlier = service.link(Purpose.RESET_PASSWORD)
    service.clock.advance(HOUR_MS // 2)
    await service.taken_back()

    assert await service.people.find_address(earlier, Purpose.RESET_PASSWORD) is None


async def test_a_link_expires(service: PeopleService) -> None:
    await service.signed_up()
    await service.people.request_reset(ALICE, HERE)
    link = service.link(Purpose.RESET_PASSWORD)
    service.clock.advance(HOUR_MS)

    assert await service.people.find_address(link, Purpose.RESET_PASSWORD) is None
    assert not await service.people.reset(link, OTHER_PASSWORD)


async def test_a_link_is_good_for_its_purpose_alone(service: PeopleService) -> None:
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


async def test_no_session_is_taken_over_from_before_the_sign_in(service: PeopleService) -> None:
    planted = await service.people.sign_up(MALLORY, PASSWORD, THERE)
    await service.signed_up()

    cookie = await service.people.sign_in(ALICE, PASSWORD, HERE)

    assert cookie != planted
    assert (await service.enter(planted)).user.email == MALLORY
    assert (await service.enter(cookie)).user.email == ALICE


async def test_no_email_names_the_person_who_caused_it(service: PeopleService) -> None:
    spam = "You won! http://evil.example"
    session = await service.enter(
        await service.people.sign_up(ALICE, PASSWORD, replace(THERE, agent=spam))
    )
    key = await service.keys.create(session, name=spam, scopes=READS, lifetime_ms=None)
    await service.keys.rotate(session, key.line.key_id, overlap_ms=0)

    assert len(service.emails()) == 2
    assert "evil" not in str(service.rows("SELECT * FROM letter"))
