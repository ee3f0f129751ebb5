"""What one person does all day is bounded: letters to a stranger's mailbox, and keys."""

import os
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from mintscope.base.limits import MemoryLimits
from mintscope.core.accounts.keys.api_key import KEYS_PER_DAY_MAX, KEYS_SHOWN_MAX, KeyId
from mintscope.core.accounts.keys.api_keys import TooManyKeys
from mintscope.core.accounts.keys.scope import Scope
from mintscope.core.accounts.mail.email_limit import RESETS_MAX
from mintscope.core.accounts.people.people import People
from mintscope.core.accounts.people.session import SESSIONS_PER_USER_MAX, Browser, Session
from mintscope.core.accounts.proof import Purpose
from support.scenes.desks import (
    ALICE,
    HERE,
    MALLORY,
    OTHER_PASSWORD,
    PASSWORD,
    SECRETS,
    THERE,
    Desks,
    open_desks,
)

DAY_MS: Final = 86_400_000
TIMES: Final = 20
LETTERS_MS: Final = 300_000  # one in five minutes
HOUR_MS: Final = 3_600_000
A_DAY: Final = 5  # letters of a kind, to a mailbox that nobody has verified


@pytest.fixture
async def desks(tmp_path: Path) -> AsyncIterator[Desks]:
    async with open_desks(tmp_path) as desks:
        yield desks


async def make_and_rotate(desks: Desks, session: Session, times: int) -> KeyId:
    """Return the last of the keys that came one out of the other."""
    issued = await desks.keys.create(
        session, name="bot", scopes=frozenset({Scope.TRADE_READ}), lifetime_ms=None
    )
    for _ in range(times - 1):
        rotated = await desks.keys.rotate(session, issued.line.key_id, overlap_ms=0)
        assert rotated is not None
        issued = rotated
    return issued.line.key_id


def written(desks: Desks) -> Counter[str]:
    return Counter(kind for kind, _ in desks.letters())


async def test_a_stranger_whose_address_was_taken_is_not_flooded(desks: Desks) -> None:
    mallory = await desks.signed_up()

    await make_and_rotate(desks, mallory, TIMES)
    for _ in range(TIMES):
        await desks.people.change_password(mallory, OTHER_PASSWORD)

    assert written(desks) == {"new_key": A_DAY, "password_changed": A_DAY}
    desks.clock.advance(DAY_MS)
    mallory = await desks.enter(
        await desks.people.sign_in(mallory.user.email, OTHER_PASSWORD, HERE)
    )
    await make_and_rotate(desks, mallory, 1)
    assert written(desks)["new_key"] == A_DAY + 1


async def test_links_to_verify_are_a_few_a_day(desks: Desks) -> None:
    session = await desks.signed_up()
    for _ in range(TIMES):
        await desks.people.request_verification(session)
        desks.clock.advance(LETTERS_MS)

    assert written(desks) == {"verify_email": A_DAY}
    assert await desks.people.verify(session, desks.link(Purpose.VERIFY_EMAIL))


async def test_the_reset_that_ends_a_flood_is_told(desks: Desks) -> None:
    mallory = await desks.signed_up()
    for _ in range(TIMES):
        await desks.people.change_password(mallory, OTHER_PASSWORD)

    await desks.taken_back()

    assert desks.letters()[-1][0] == "password_changed"
    assert written(desks)["password_changed"] == A_DAY + 1


async def test_whoever_has_verified_the_mailbox_is_told_of_every_key(desks: Desks) -> None:
    await make_and_rotate(desks, await desks.owned(), TIMES)

    assert written(desks)["new_key"] == TIMES


async def test_nobody_makes_more_than_so_many_keys_in_a_day(desks: Desks) -> None:
    session = await desks.owned()
    last = await make_and_rotate(desks, session, KEYS_PER_DAY_MAX)

    with pytest.raises(TooManyKeys):
        await desks.keys.rotate(session, last, overlap_ms=0)
    with pytest.raises(TooManyKeys):
        await make_and_rotate(desks, session, 1)
    assert desks.rows("SELECT count(*) FROM api_key") == [(KEYS_PER_DAY_MAX,)]
    desks.clock.advance(DAY_MS)
    session = await desks.enter(
        await desks.people.sign_in(session.user.email, OTHER_PASSWORD, HERE)
    )
    assert await desks.keys.rotate(session, last, overlap_ms=0) is not None


async def test_of_many_ended_keys_the_newest_are_shown_and_all_that_work(desks: Desks) -> None:
    session = await desks.owned()
    first = await make_and_rotate(desks, session, 1)
    desks.change(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
        " INSERT INTO api_key (user, key_hash, hint, name, scopes, created_at, expires_at)"
        " SELECT ?, randomblob(32), '', 'bot', '[]', 1, ? FROM n",
        KEYS_SHOWN_MAX,
        session.user.user_id,
        desks.clock.now(),
    )

    shown = await desks.keys.of_user(session.user.user_id)

    assert len(shown) == KEYS_SHOWN_MAX
    assert shown[0].key_id == first
    assert shown[1].key_id == first + KEYS_SHOWN_MAX


async def test_of_many_sessions_the_oldest_end(desks: Desks) -> None:
    other = await desks.signed_up(MALLORY)
    first = await desks.people.sign_up(ALICE, PASSWORD, HERE)
    second, *_, last = [
        await desks.people.sign_in(ALICE, PASSWORD, HERE) for _ in range(SESSIONS_PER_USER_MAX)
    ]

    assert await desks.people.session(first) is None
    session = await desks.enter(second)
    assert await desks.people.session(last) is not None
    assert len(await desks.people.sessions(session.user.user_id)) == SESSIONS_PER_USER_MAX
    assert len(await desks.people.sessions(other.user.user_id)) == 1


async def test_whoever_asks_for_links_again_and_again_waits_ever_longer(desks: Desks) -> None:
    await desks.signed_up()
    written_at_min = []
    for minute in range(25 * 60):
        before = written(desks).total()
        await desks.people.request_reset(ALICE, THERE)
        if written(desks).total() > before:
            written_at_min.append(minute)
        desks.clock.advance(60_000)

    assert written_at_min == [0, 5, 10, 60, 65, 1440, 1445, 1450]


async def test_networks_of_one_site_ask_for_links_as_one(desks: Desks) -> None:
    await desks.signed_up()
    for number in range(TIMES):
        await desks.people.request_reset(ALICE, Browser(f"2001:db8:0:{number:x}::/64", ""))

    assert written(desks) == {"reset_password": 1}


async def test_no_stranger_uses_up_the_links_of_the_owner(desks: Desks) -> None:
    await desks.signed_up()
    for _ in range(100):
        await desks.people.request_reset(ALICE, THERE)
    await desks.people.request_reset(ALICE, HERE)

    assert written(desks) == {"reset_password": 2}


async def test_a_mailbox_that_all_the_world_asks_for_has_a_good_link_at_any_time(
    desks: Desks,
) -> None:
    await desks.signed_up()
    for number in range(24 * 6):  # every ten minutes somebody else
        for part in range(3):
            await desks.people.request_reset(ALICE, Browser(f"198.51.{part}.{number}", ""))
        assert await desks.people.find_reset(desks.link(Purpose.RESET_PASSWORD)) == ALICE
        desks.clock.advance(HOUR_MS // 6)

    assert written(desks)["reset_password"] <= RESETS_MAX + 48

    assert await desks.people.reset(desks.link(Purpose.RESET_PASSWORD), OTHER_PASSWORD)
    await desks.people.request_reset(ALICE, HERE)
    assert await desks.people.find_reset(desks.link(Purpose.RESET_PASSWORD)) == ALICE


async def test_a_full_mailbox_is_as_full_for_another_process(desks: Desks) -> None:
    await desks.signed_up()
    for _ in range(RESETS_MAX + 5):
        people = People(  # whose memory of what was asked is empty
            store=desks.store,
            hasher=desks.hasher,
            secrets=SECRETS,
            limits=MemoryLimits(desks.clock),
            clock=desks.clock,
            entropy=os.urandom,
        )
        await people.request_reset(ALICE, HERE)

    assert written(desks) == {"reset_password": RESETS_MAX}
    assert desks.rows("SELECT count(*) FROM proof") == [(RESETS_MAX + 5,)]  # the time tells nothing
