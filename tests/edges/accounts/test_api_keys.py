"""API keys: found while they are good, made, rotated and revoked by their owners."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from mintscope.base.credentials import CredentialKind, is_well_formed, make_api_key
from mintscope.base.errors import ServiceUnavailable
from mintscope.core.accounts.keys.api_key import KEYS_PER_USER_MAX
from mintscope.core.accounts.keys.api_keys import TooManyKeys
from mintscope.core.accounts.keys.scope import Scope
from mintscope.core.accounts.people.session import Session, SessionEnded
from mintscope.core.accounts.signups.exchange import IssuedKey
from support.scenes.desks import MALLORY, Desks, open_desks

DAY_MS: Final = 86_400_000
READS: Final = frozenset({Scope.TRADE_READ})


@pytest.fixture
async def desks(tmp_path: Path) -> AsyncIterator[Desks]:
    async with open_desks(tmp_path) as desks:
        yield desks


async def make(
    desks: Desks,
    session: Session,
    *,
    name: str = "bot",
    scopes: Iterable[Scope] = READS,
    lifetime_ms: int | None = None,
) -> IssuedKey:
    return await desks.keys.create(
        session, name=name, scopes=frozenset(scopes), lifetime_ms=lifetime_ms
    )


async def is_good(desks: Desks, issued: IssuedKey) -> bool:
    return await desks.keys.find(issued.api_key) is not None


async def test_a_key_opens_what_it_was_made_for(desks: Desks) -> None:
    session = await desks.signed_up()

    issued = await make(desks, session, scopes=[Scope.TRADE_WRITE, Scope.SIGNALS_READ])

    holder = await desks.keys.find(issued.api_key)
    assert holder is not None
    assert holder.username == issued.username == session.user.username
    assert holder.key == issued.line
    assert [scope for scope in Scope if holder.has(scope)] == [
        Scope.TRADE_READ,  # comes with trade:write
        Scope.TRADE_WRITE,
        Scope.SIGNALS_READ,
    ]
    assert is_well_formed(CredentialKind.API_KEY, issued.api_key)
    assert issued.line.hint == f"...{issued.api_key[-8:]}"
    assert issued.line.created_at == desks.clock.now()


async def test_a_key_is_stored_as_its_hash_alone(desks: Desks) -> None:
    issued = await make(desks, await desks.signed_up())
    await is_good(desks, issued)
    await desks.keys.flush()

    digits = issued.api_key.removeprefix("svc_live_")
    assert digits[:72].encode() not in desks.bytes_on_disk()
    assert bytes.fromhex(digits[:72]) not in desks.bytes_on_disk()
    assert digits[-8:].encode() in desks.bytes_on_disk()  # the hint


@pytest.mark.parametrize("bearer", ["", "svc_live_", "svc_live_" + "0" * 80, "x" * 89, "é"])
async def test_what_is_no_key_opens_nothing(desks: Desks, bearer: str) -> None:
    await make(desks, await desks.signed_up())

    assert await desks.keys.find(bearer) is None


async def test_a_key_of_ones_own_making_opens_nothing(desks: Desks) -> None:
    await make(desks, await desks.signed_up())

    assert await desks.keys.find(make_api_key(bytes(36))) is None


async def test_a_key_ends_at_its_time_to_the_millisecond(desks: Desks) -> None:
    issued = await make(desks, await desks.signed_up(), lifetime_ms=DAY_MS)
    desks.clock.advance(DAY_MS - 1)
    assert await is_good(desks, issued)
    desks.clock.advance(1)
    assert not await is_good(desks, issued)


async def test_a_revoked_key_ends_at_once(desks: Desks) -> None:
    session = await desks.signed_up()
    issued, other = await make(desks, session), await make(desks, session)

    assert await desks.keys.revoke(session, issued.line.key_id)

    assert not await is_good(desks, issued)
    assert await is_good(desks, other)
    assert not await desks.keys.revoke(session, issued.line.key_id)


async def test_nobody_touches_the_keys_of_others(desks: Desks) -> None:
    issued = await make(desks, await desks.signed_up())
    mallory = await desks.signed_up(MALLORY)

    assert not await desks.keys.revoke(mallory, issued.line.key_id)
    assert await desks.keys.rotate(mallory, issued.line.key_id, overlap_ms=0) is None
    assert await desks.keys.of_user(mallory.user.user_id) == []
    assert await is_good(desks, issued)


async def test_a_session_that_ended_changes_no_key(desks: Desks) -> None:
    session = await desks.signed_up()
    issued = await make(desks, session)
    await desks.people.sign_out(session)

    with pytest.raises(SessionEnded):
        await make(desks, session)
    with pytest.raises(SessionEnded):
        await desks.keys.revoke(session, issued.line.key_id)
    with pytest.raises(SessionEnded):
        await desks.keys.rotate(session, issued.line.key_id, overlap_ms=0)
    assert await is_good(desks, issued)


async def test_a_key_of_a_removed_account_opens_nothing(desks: Desks) -> None:
    issued = await make(desks, await desks.signed_up())
    desks.change("UPDATE user SET removed_at = 1")

    assert not await is_good(desks, issued)


async def test_a_rotated_key_has_the_old_ones_name_scopes_and_span(desks: Desks) -> None:
    session = await desks.signed_up()
    scopes = [Scope.GROUPS_READ, Scope.GROUPS_WRITE]
    old = await make(desks, session, name="bot", scopes=scopes, lifetime_ms=30 * DAY_MS)
    desks.clock.advance(10 * DAY_MS)
    session = await desks.signed_in()

    new = await desks.keys.rotate(session, old.line.key_id, overlap_ms=DAY_MS)

    assert new is not None
    assert (new.line.name, new.line.scopes) == ("bot", frozenset(scopes))
    assert new.line.expires_at == desks.clock.now() + 30 * DAY_MS
    assert await is_good(desks, old)
    assert await is_good(desks, new)
    first, second = await desks.keys.of_user(session.user.user_id)
    assert (first.key_id, second.replaced_by) == (new.line.key_id, new.line.key_id)
    desks.clock.advance(DAY_MS)
    assert not await is_good(desks, old)
    assert await is_good(desks, new)


async def test_an_overlap_never_prolongs_the_old_key(desks: Desks) -> None:
    session = await desks.signed_up()
    old = await make(desks, session, lifetime_ms=1_000)
    await desks.keys.rotate(session, old.line.key_id, overlap_ms=DAY_MS)
    desks.clock.advance(1_000)

    assert not await is_good(desks, old)


async def test_without_overlap_the_old_key_ends_with_the_rotation(desks: Desks) -> None:
    session = await desks.signed_up()
    old = await make(desks, session)
    new = await desks.keys.rotate(session, old.line.key_id, overlap_ms=0)

    assert new is not None
    assert not await is_good(desks, old)
    assert await is_good(desks, new)
    assert new.line.expires_at is None


async def test_a_key_is_rotated_once(desks: Desks) -> None:
    session = await desks.signed_up()
    old = await make(desks, session)
    rotations = [desks.keys.rotate(session, old.line.key_id, overlap_ms=DAY_MS) for _ in range(5)]

    made = [new for new in await asyncio.gather(*rotations) if new is not None]

    assert len(made) == 1
    assert len(await desks.keys.of_user(session.user.user_id)) == 2


async def test_nobody_has_more_than_a_hundred_active_keys(desks: Desks) -> None:
    session = await desks.signed_up()
    made = [make(desks, session) for _ in range(KEYS_PER_USER_MAX + 20)]

    outcomes = await asyncio.gather(*made, return_exceptions=True)

    keys = [each for each in outcomes if isinstance(each, IssuedKey)]
    refusals = [each for each in outcomes if isinstance(each, TooManyKeys)]
    assert (len(keys), len(refusals)) == (KEYS_PER_USER_MAX, 20)
    with pytest.raises(TooManyKeys):
        await desks.keys.rotate(session, keys[0].line.key_id, overlap_ms=DAY_MS)
    assert await desks.keys.rotate(session, keys[0].line.key_id, overlap_ms=0) is not None
    assert await desks.keys.revoke(session, keys[1].line.key_id)
    await make(desks, session)


async def test_the_last_use_is_written_in_batches(desks: Desks) -> None:
    session = await desks.signed_up()
    used, unused = await make(desks, session), await make(desks, session)
    for _ in range(3):
        desks.clock.advance(1_000)
        await is_good(desks, used)
    assert desks.rows("SELECT last_used_at FROM api_key") == [(None,), (None,)]

    await desks.keys.flush()

    lines = {line.key_id: line for line in await desks.keys.of_user(session.user.user_id)}
    assert lines[used.line.key_id].last_used_at == desks.clock.now()
    assert lines[unused.line.key_id].last_used_at is None


async def test_a_later_use_written_by_another_process_stays(desks: Desks) -> None:
    issued = await make(desks, await desks.signed_up())
    await is_good(desks, issued)
    later = desks.clock.now() + 5
    desks.change("UPDATE api_key SET last_used_at = ?", later)

    await desks.keys.flush()

    assert desks.rows("SELECT last_used_at FROM api_key") == [(later,)]


async def test_uses_that_could_not_be_written_are_written_later(desks: Desks) -> None:
    issued = await make(desks, await desks.signed_up())
    await is_good(desks, issued)
    used_at = desks.clock.now()
    trigger = "BEFORE UPDATE ON api_key BEGIN SELECT raise(FAIL, 'full'); END"
    desks.change(f"CREATE TRIGGER full {trigger}")
    with pytest.raises(ServiceUnavailable):
        await desks.keys.flush()
    desks.change("DROP TRIGGER full")

    await desks.keys.flush()

    assert desks.rows("SELECT last_used_at FROM api_key") == [(used_at,)]


async def test_finding_a_key_is_one_read_and_writes_nothing(desks: Desks) -> None:
    issued = await make(desks, await desks.signed_up())
    statements: list[str] = []

    def trace(_: Any, statement: str, *_rest: Any) -> bool:
        statements.append(statement)
        return True

    desks.file.read(lambda db: db.set_exec_trace(trace))
    await is_good(desks, issued)

    reads = [each for each in statements if each not in {"BEGIN", "ROLLBACK"}]
    assert len(reads) == 1
    plan = desks.rows(f"EXPLAIN QUERY PLAN {reads[0]}", b"")
    assert [str(detail).split(" ")[0] for *_, detail in plan] == ["SEARCH", "SEARCH"]


async def test_what_owners_do_to_keys_is_told_and_written_down(desks: Desks) -> None:
    session = await desks.signed_up()
    old = await make(desks, session)
    new = await desks.keys.rotate(session, old.line.key_id, overlap_ms=0)
    assert new is not None
    await desks.keys.revoke(session, new.line.key_id)

    events = desks.rows("SELECT actor, action, subject FROM account_event ORDER BY id")
    who = f"user:{session.user.user_id}"
    assert events[1:] == [
        (who, "created", f"key:{old.line.key_id}"),
        (who, "rotated", f"key:{new.line.key_id}"),
        (who, "revoked", f"key:{new.line.key_id}"),
    ]
    assert [kind for kind, _ in desks.letters()] == ["new_key", "new_key"]


async def test_a_failure_leaves_nothing_half_done(desks: Desks) -> None:
    session = await desks.signed_up()
    trigger = "BEFORE INSERT ON letter BEGIN SELECT raise(ABORT, 'full'); END"
    desks.change(f"CREATE TRIGGER full {trigger}")

    with pytest.raises(ServiceUnavailable):
        await make(desks, session)

    assert desks.rows("SELECT count(*) FROM api_key") == [(0,)]
    assert desks.rows("SELECT action FROM account_event") == [("signed up",)]
