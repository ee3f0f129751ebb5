"""What somebody tries who wants another's account: nothing is gained by it.

Mallory is the attacker, Alice the owner of the mailbox alice@example.org.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from mintscope.base.time import HOUR_MS
from mintscope.core.accounts.keys.scope import Scope
from mintscope.core.accounts.people.password import WrongPassword
from mintscope.core.accounts.people.session import SessionEnded
from mintscope.core.accounts.proof import Purpose, link_text, parse_link
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

READS = frozenset({Scope.TRADE_READ})


@pytest.fixture
async def desks(tmp_path: Path) -> AsyncIterator[Desks]:
    async with open_desks(tmp_path) as desks:
        yield desks


async def test_whoever_registers_a_strangers_address_first_is_shut_out(desks: Desks) -> None:
    mallory = await desks.people.sign_up(ALICE, PASSWORD, THERE)
    session = await desks.enter(mallory)
    key = await desks.keys.create(session, name="mine", scopes=READS, lifetime_ms=None)
    successor = await desks.keys.rotate(session, key.line.key_id, overlap_ms=HOUR_MS)
    assert successor is not None

    await desks.taken_back()

    assert await desks.people.session(mallory) is None
    assert await desks.keys.find(key.api_key) is None
    assert await desks.keys.find(successor.api_key) is None
    with pytest.raises(WrongPassword):
        await desks.people.sign_in(ALICE, PASSWORD, THERE)


async def test_a_key_made_while_the_password_is_reset_is_not_made(desks: Desks) -> None:
    mallory = await desks.signed_up(ALICE, THERE)
    await desks.taken_back()  # between the look at the cookie and the making of the key

    with pytest.raises(SessionEnded):
        await desks.keys.create(mallory, name="mine", scopes=READS, lifetime_ms=None)
    with pytest.raises(SessionEnded):
        await desks.people.change_password(mallory, PASSWORD)
    with pytest.raises(SessionEnded):
        await desks.people.request_verification(mallory)

    assert desks.rows("SELECT count(*) FROM api_key") == [(0,)]
    await desks.people.sign_in(ALICE, OTHER_PASSWORD, HERE)


async def test_a_sign_in_while_the_password_is_reset_opens_nothing(desks: Desks) -> None:
    await desks.signed_up(ALICE, THERE)
    desks.hasher.meanwhile = desks.taken_back

    with pytest.raises(WrongPassword):
        await desks.people.sign_in(ALICE, PASSWORD, THERE)

    assert desks.rows("SELECT count(*) FROM session") == [(0,)]


async def test_a_proof_of_the_old_password_while_it_is_reset_proves_nothing(desks: Desks) -> None:
    mallory = await desks.signed_up(ALICE, THERE)
    desks.hasher.meanwhile = desks.taken_back

    with pytest.raises(SessionEnded):
        await desks.people.prove(mallory, PASSWORD)


async def test_the_keys_of_an_owner_outlive_a_forgotten_password(desks: Desks) -> None:
    session = await desks.owned()
    key = await desks.keys.create(session, name="bot", scopes=READS, lifetime_ms=None)
    desks.clock.advance(HOUR_MS)

    await desks.taken_back()

    assert await desks.keys.find(key.api_key) is not None


async def test_a_link_to_verify_does_nothing_in_another_account(desks: Desks) -> None:
    """Mallory registers Alice's address; Alice, signed in elsewhere or nowhere, opens the link."""
    mallory = await desks.signed_up(ALICE, THERE)
    await desks.people.request_verification(mallory)
    link = desks.link(Purpose.VERIFY_EMAIL)
    other = await desks.signed_up(MALLORY)

    assert not await desks.people.verify(other, link)

    assert desks.rows("SELECT verified_at FROM user") == [(None,), (None,)]
    assert desks.rows("SELECT used_at FROM proof") == [(None,)]


async def test_a_link_to_verify_is_void_once_the_owner_took_over(desks: Desks) -> None:
    mallory = await desks.signed_up(ALICE, THERE)
    await desks.people.request_verification(mallory)
    link = desks.link(Purpose.VERIFY_EMAIL)
    await desks.taken_back()
    owner = await desks.enter(await desks.people.sign_in(ALICE, OTHER_PASSWORD, HERE))

    assert not await desks.people.verify(owner, link)


async def test_a_link_to_reset_is_good_once(desks: Desks) -> None:
    await desks.signed_up()
    await desks.people.request_reset(ALICE, HERE)
    link = desks.link(Purpose.RESET_PASSWORD)
    assert await desks.people.reset(link, OTHER_PASSWORD)

    assert not await desks.people.reset(link, PASSWORD)
    assert await desks.people.find_reset(link) is None
    await desks.people.sign_in(ALICE, OTHER_PASSWORD, HERE)


async def test_of_two_who_use_one_link_at_once_one_sets_the_password(desks: Desks) -> None:
    await desks.signed_up()
    await desks.people.request_reset(ALICE, HERE)
    link = desks.link(Purpose.RESET_PASSWORD)
    desks.hasher.meanwhile = lambda: desks.people.reset(link, OTHER_PASSWORD)

    assert not await desks.people.reset(link, PASSWORD)

    await desks.people.sign_in(ALICE, OTHER_PASSWORD, HERE)


async def test_a_reset_ends_every_other_link_to_reset(desks: Desks) -> None:
    await desks.signed_up()
    await desks.people.request_reset(ALICE, HERE)
    earlier = desks.link(Purpose.RESET_PASSWORD)
    desks.clock.advance(HOUR_MS // 2)
    await desks.taken_back()

    assert await desks.people.find_reset(earlier) is None


async def test_a_link_expires(desks: Desks) -> None:
    await desks.signed_up()
    await desks.people.request_reset(ALICE, HERE)
    link = desks.link(Purpose.RESET_PASSWORD)
    desks.clock.advance(HOUR_MS)

    assert await desks.people.find_reset(link) is None
    assert not await desks.people.reset(link, OTHER_PASSWORD)


async def test_a_link_is_good_for_its_purpose_alone(desks: Desks) -> None:
    session = await desks.signed_up()
    await desks.people.request_verification(session)
    verifying = desks.link(Purpose.VERIFY_EMAIL)
    await desks.people.request_reset(ALICE, HERE)
    resetting = desks.link(Purpose.RESET_PASSWORD)

    assert not await desks.people.reset(verifying, OTHER_PASSWORD)
    assert await desks.people.find_reset(verifying) is None
    assert not await desks.people.verify(session, resetting)
    assert await desks.people.claim(session, resetting) is None


async def test_a_link_cannot_be_guessed_from_another(desks: Desks) -> None:
    await desks.signed_up()
    await desks.signed_up(MALLORY)
    await desks.people.request_reset(MALLORY, HERE)
    own = parse_link(desks.link(Purpose.RESET_PASSWORD))
    await desks.people.request_reset(ALICE, HERE)
    hers = parse_link(desks.link(Purpose.RESET_PASSWORD))
    assert own is not None
    assert hers is not None

    for guess in (own[1], hers[1][:-1], hers[1] + "x", hers[1].swapcase(), "", "é", "\ud800"):
        assert not await desks.people.reset(link_text(hers[0], guess), PASSWORD)
    for text in ("", ".", "1", "x.y", f"{hers[0]}", f"-1.{hers[1]}", f"{10**18}.{hers[1]}"):
        assert await desks.people.find_reset(text) is None


async def test_no_session_is_taken_over_from_before_the_sign_in(desks: Desks) -> None:
    planted = await desks.people.sign_up(MALLORY, PASSWORD, THERE)
    await desks.signed_up()

    cookie = await desks.people.sign_in(ALICE, PASSWORD, HERE)

    assert cookie != planted
    assert (await desks.enter(planted)).user.email == MALLORY
    assert (await desks.enter(cookie)).user.email == ALICE


async def test_no_letter_says_a_word_of_whoever_caused_it(desks: Desks) -> None:
    spam = "You won! http://evil.example"
    session = await desks.enter(
        await desks.people.sign_up(ALICE, PASSWORD, replace(THERE, agent=spam))
    )
    key = await desks.keys.create(session, name=spam, scopes=READS, lifetime_ms=None)
    await desks.keys.rotate(session, key.line.key_id, overlap_ms=0)

    assert len(desks.letters()) == 2
    assert "evil" not in str(desks.rows("SELECT * FROM letter"))
