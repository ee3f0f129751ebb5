"""API keys: found while they are valid; created, rotated and revoked by their owners."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, Final

import apsw
import pytest

from mintscope.accounts.changes import AccountDeletion
from mintscope.accounts.keys.key import KEYS_PER_USER_MAX
from mintscope.accounts.keys.keys import OwnKeys, RotatedKey, TooManyKeys
from mintscope.accounts.keys.scope import Scope
from mintscope.accounts.session import Session, SessionEnded
from mintscope.accounts.signups.signups import IssuedKey
from mintscope.kit.credentials import CredentialKind, is_well_formed, make_api_key
from mintscope.kit.errors import ServiceUnavailable
from support.scenes.account_stores import connection_of
from support.scenes.people_service import MALLORY, PeopleService, open_people_service

DAY_MS: Final = 86_400_000
READS: Final = frozenset({Scope.TRADE_READ})


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[PeopleService]:
    async with open_people_service(tmp_path) as service:
        yield service


async def make(
    service: PeopleService,
    session: Session,
    *,
    name: str = "bot",
    scopes: Iterable[Scope] = READS,
    lifetime_ms: int | None = None,
) -> IssuedKey:
    return await service.keys.create(
        session, name=name, scopes=frozenset(scopes), lifetime_ms=lifetime_ms
    )


async def is_good(service: PeopleService, issued: IssuedKey) -> bool:
    return await service.keys.find(issued.api_key) is not None


async def test_a_new_key_is_found_with_its_owner_and_scopes(service: PeopleService) -> None:
    session = await service.signed_up()

    issued = await make(service, session, scopes=[Scope.TRADE_WRITE, Scope.SIGNALS_READ])

    holder = await service.keys.find(issued.api_key)
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
    assert issued.line.created_at == service.clock.now()


async def test_a_key_is_stored_only_as_its_hash_and_its_hint(service: PeopleService) -> None:
    issued = await make(service, await service.signed_up())
    await is_good(service, issued)
    await service.keys.flush()

    digits = issued.api_key.removeprefix("svc_live_")
    assert digits[:72].encode() not in service.bytes_on_disk()
    assert bytes.fromhex(digits[:72]) not in service.bytes_on_disk()
    assert digits[-8:].encode() in service.bytes_on_disk()  # the hint


@pytest.mark.parametrize("bearer", ["", "svc_live_", "svc_live_" + "0" * 80, "x" * 89, "é"])
async def test_a_malformed_key_is_not_found(service: PeopleService, bearer: str) -> None:
    await make(service, await service.signed_up())

    assert await service.keys.find(bearer) is None


async def test_an_invented_key_is_not_found(service: PeopleService) -> None:
    await make(service, await service.signed_up())

    assert await service.keys.find(make_api_key(bytes(36))) is None


async def test_a_key_expires_exactly_at_the_end_of_its_lifetime(service: PeopleService) -> None:
    issued = await make(service, await service.signed_up(), lifetime_ms=DAY_MS)
    service.clock.advance(DAY_MS - 1)
    assert await is_good(service, issued)
    service.clock.advance(1)
    assert not await is_good(service, issued)


async def test_a_revoked_key_ends_at_once(service: PeopleService) -> None:
    session = await service.signed_up()
    issued, other = await make(service, session), await make(service, session)

    assert await service.keys.revoke(session, issued.line.key_id)

    assert not await is_good(service, issued)
    assert await is_good(service, other)
    assert not await service.keys.revoke(session, issued.line.key_id)


async def test_a_person_cannot_revoke_rotate_or_list_keys_of_another_account(
    service: PeopleService,
) -> None:
    issued = await make(service, await service.signed_up())
    mallory = await service.signed_up(MALLORY)

    assert not await service.keys.revoke(mallory, issued.line.key_id)
    assert await service.keys.rotate(mallory, issued.line.key_id, overlap_ms=0) is None
    assert await service.keys.of_user(mallory.user.user_id) == []
    assert await is_good(service, issued)


async def test_a_session_that_has_ended_changes_no_key(service: PeopleService) -> None:
    session = await service.signed_up()
    issued = await make(service, session)
    await service.people.sign_out(session)

    with pytest.raises(SessionEnded):
        await make(service, session)
    with pytest.raises(SessionEnded):
        await service.keys.revoke(session, issued.line.key_id)
    with pytest.raises(SessionEnded):
        await service.keys.rotate(session, issued.line.key_id, overlap_ms=0)
    assert await is_good(service, issued)


async def test_a_key_of_a_removed_account_is_not_found(service: PeopleService) -> None:
    issued = await make(service, await service.signed_up())
    service.change("UPDATE user SET removed_at = 1")

    assert not await is_good(service, issued)


@pytest.mark.parametrize("rotations", [1, 3])
async def test_an_owner_renews_the_full_lifetime_of_a_key_that_rotated_itself(
    service: PeopleService, rotations: int
) -> None:
    made = await make(service, await service.signed_up(), lifetime_ms=90 * DAY_MS)
    key = made.api_key
    end = made.line.expires_at
    for _ in range(rotations):
        service.clock.advance(29 * DAY_MS)
        holder = await service.keys.find(key)
        assert holder is not None
        rotated = await OwnKeys(service.keys).rotate(
            holder, key, overlap_ms=DAY_MS, redelivery_key=None
        )
        assert isinstance(rotated, RotatedKey)
        assert rotated.issued.line.expires_at == end
        key = rotated.issued.api_key

    for _ in range(2):  # by the owner: each new key begins a full lifetime
        holder = await service.keys.find(key)
        assert holder is not None
        renewed = await service.keys.rotate(
            await service.signed_in(), holder.key.key_id, overlap_ms=DAY_MS
        )
        assert renewed is not None
        assert renewed.line.expires_at == service.clock.now() + 90 * DAY_MS
        key = renewed.api_key
        service.clock.advance(10 * DAY_MS)


async def test_a_rotated_key_keeps_its_name_scopes_and_lifetime(service: PeopleService) -> None:
    session = await service.signed_up()
    scopes = [Scope.GROUPS_READ, Scope.GROUPS_WRITE]
    old = await make(service, session, name="bot", scopes=scopes, lifetime_ms=30 * DAY_MS)
    service.clock.advance(10 * DAY_MS)
    session = await service.signed_in()

    new = await service.keys.rotate(session, old.line.key_id, overlap_ms=DAY_MS)

    assert new is not None
    assert (new.line.name, new.line.scopes) == ("bot", frozenset(scopes))
    assert new.line.expires_at == service.clock.now() + 30 * DAY_MS
    assert await is_good(service, old)
    assert await is_good(service, new)
    first, second = await service.keys.of_user(session.user.user_id)
    assert (first.key_id, second.replaced_by) == (new.line.key_id, new.line.key_id)
    service.clock.advance(DAY_MS)
    assert not await is_good(service, old)
    assert await is_good(service, new)


async def test_an_overlap_never_prolongs_the_old_key(service: PeopleService) -> None:
    session = await service.signed_up()
    old = await make(service, session, lifetime_ms=1_000)
    await service.keys.rotate(session, old.line.key_id, overlap_ms=DAY_MS)
    service.clock.advance(1_000)

    assert not await is_good(service, old)


async def test_the_old_key_ends_at_a_rotation_without_overlap(service: PeopleService) -> None:
    session = await service.signed_up()
    old = await make(service, session)
    new = await service.keys.rotate(session, old.line.key_id, overlap_ms=0)

    assert new is not None
    assert not await is_good(service, old)
    assert await is_good(service, new)
    assert new.line.expires_at is None


async def test_a_key_is_rotated_once(service: PeopleService) -> None:
    session = await service.signed_up()
    old = await make(service, session)
    rotations = [service.keys.rotate(session, old.line.key_id, overlap_ms=DAY_MS) for _ in range(5)]

    made = [new for new in await asyncio.gather(*rotations) if new is not None]

    assert len(made) == 1
    assert len(await service.keys.of_user(session.user.user_id)) == 2


async def test_a_person_has_at_most_a_hundred_active_keys(service: PeopleService) -> None:
    session = await service.signed_up()
    made = [make(service, session) for _ in range(KEYS_PER_USER_MAX + 20)]

    outcomes = await asyncio.gather(*made, return_exceptions=True)

    keys = [each for each in outcomes if isinstance(each, IssuedKey)]
    refusals = [each for each in outcomes if isinstance(each, TooManyKeys)]
    assert (len(keys), len(refusals)) == (KEYS_PER_USER_MAX, 20)
    with pytest.raises(TooManyKeys):
        await service.keys.rotate(session, keys[0].line.key_id, overlap_ms=DAY_MS)
    assert await service.keys.rotate(session, keys[0].line.key_id, overlap_ms=0) is not None
    assert await service.keys.revoke(session, keys[1].line.key_id)
    await make(service, session)


async def test_the_last_use_is_written_in_batches(service: PeopleService) -> None:
    session = await service.signed_up()
    used, unused = await make(service, session), await make(service, session)
    for _ in range(3):
        service.clock.advance(1_000)
        await is_good(service, used)
    assert service.rows("SELECT last_used_at FROM api_key") == [(None,), (None,)]

    await service.keys.flush()

    lines = {line.key_id: line for line in await service.keys.of_user(session.user.user_id)}
    assert lines[used.line.key_id].last_used_at == service.clock.now()
    assert lines[unused.line.key_id].last_used_at is None


async def test_a_later_use_written_by_another_process_stays(service: PeopleService) -> None:
    issued = await make(service, await service.signed_up())
    await is_good(service, issued)
    later = service.clock.now() + 5
    service.change("UPDATE api_key SET last_used_at = ?", later)

    await service.keys.flush()

    assert service.rows("SELECT last_used_at FROM api_key") == [(later,)]


async def test_uses_that_could_not_be_written_are_written_later(service: PeopleService) -> None:
    issued = await make(service, await service.signed_up())
    await is_good(service, issued)
    used_at = service.clock.now()
    trigger = "BEFORE UPDATE ON api_key BEGIN SELECT raise(FAIL, 'full'); END"
    service.change(f"CREATE TRIGGER full {trigger}")
    with pytest.raises(ServiceUnavailable):
        await service.keys.flush()
    service.change("DROP TRIGGER full")

    await service.keys.flush()

    assert service.rows("SELECT last_used_at FROM api_key") == [(used_at,)]


async def test_addresses_of_a_failed_write_are_written_with_later_addresses(
    service: PeopleService,
) -> None:
    issued = await make(service, await service.signed_up())
    await service.keys.find(issued.api_key, "192.0.2.1")
    trigger = "BEFORE UPDATE ON api_key BEGIN SELECT raise(FAIL, 'full'); END"
    service.change(f"CREATE TRIGGER full {trigger}")
    other = apsw.Connection(str(service.path))
    other.execute("BEGIN IMMEDIATE")
    failing = asyncio.create_task(service.keys.flush())
    await asyncio.sleep(0)  # until the write waits
    await service.keys.find(issued.api_key, "192.0.2.2")
    other.execute("ROLLBACK")
    with pytest.raises(ServiceUnavailable):
        await failing
    service.change("DROP TRIGGER full")

    await service.keys.flush()

    addresses = service.rows("SELECT address FROM key_address ORDER BY address")
    assert addresses == [("192.0.2.1",), ("192.0.2.2",)]


async def test_addresses_are_not_stored_after_the_account_was_deleted(
    service: PeopleService,
) -> None:
    session = await service.signed_up()
    issued = await make(service, session)
    await service.keys.find(issued.api_key, "192.0.2.1")
    await AccountDeletion(store=service.keys.store, clock=service.clock).delete(session)

    await service.keys.flush()

    assert service.rows("SELECT address FROM key_address") == []


async def test_a_rotated_key_has_the_networks_stored_at_the_time_of_the_rotation(
    service: PeopleService,
) -> None:
    session = await service.signed_up()
    issued = await make(service, session)
    holder = await service.keys.find(issued.api_key, "192.0.2.1")
    assert holder is not None
    await service.keys.set_networks(session, issued.line.key_id, "198.51.100.0/24")

    rotated = await OwnKeys(service.keys).rotate(
        holder, issued.api_key, overlap_ms=0, redelivery_key=None
    )

    assert isinstance(rotated, RotatedKey)
    assert rotated.issued.line.networks == "198.51.100.0/24"


async def test_a_key_that_its_owner_has_revoked_keeps_the_time_of_that_revocation(
    service: PeopleService,
) -> None:
    session = await service.signed_up()
    issued = await make(service, session)
    holder = await service.keys.find(issued.api_key, "192.0.2.1")
    assert holder is not None
    await service.keys.revoke(session, issued.line.key_id)
    revoked = service.rows("SELECT revoked_at FROM api_key")
    service.clock.advance(1)

    await OwnKeys(service.keys).revoke(holder)

    assert service.rows("SELECT revoked_at FROM api_key") == revoked
    actors = service.rows("SELECT actor FROM account_event WHERE action = 'revoked'")
    assert actors == [(f"user:{session.user.user_id}",)]


async def test_the_cap_of_a_rotated_key_is_logged_with_the_actor_of_the_rotation(
    service: PeopleService,
) -> None:
    session = await service.signed_up()
    issued = await make(service, session)
    await service.keys.cap(session, issued.line.key_id, 5)
    holder = await service.keys.find(issued.api_key, "192.0.2.1")
    assert holder is not None

    await OwnKeys(service.keys).rotate(holder, issued.api_key, overlap_ms=0, redelivery_key=None)

    logged = "SELECT actor FROM account_event WHERE action = 'capped' ORDER BY id"
    assert service.rows(logged) == [
        (f"user:{session.user.user_id}",),
        (f"key:{issued.line.key_id}",),
    ]


async def test_finding_a_key_takes_one_indexed_read(service: PeopleService) -> None:
    issued = await make(service, await service.signed_up())
    statements: list[str] = []

    def trace(_: Any, statement: str, *_rest: Any) -> bool:
        statements.append(statement)
        return True

    await service.file.read(lambda db: connection_of(db).set_exec_trace(trace))
    await is_good(service, issued)

    reads = [each for each in statements if each not in {"BEGIN", "ROLLBACK"}]
    assert len(reads) == 1
    plan = service.rows(f"EXPLAIN QUERY PLAN {reads[0]}", b"")
    assert [str(detail).split(" ")[0] for *_, detail in plan] == ["SEARCH", "SEARCH"]


async def test_changes_of_keys_are_logged_and_new_keys_are_announced_by_email(
    service: PeopleService,
) -> None:
    session = await service.signed_up()
    old = await make(service, session)
    new = await service.keys.rotate(session, old.line.key_id, overlap_ms=0)
    assert new is not None
    await service.keys.revoke(session, new.line.key_id)

    events = service.rows("SELECT actor, action, subject FROM account_event ORDER BY id")
    who = f"user:{session.user.user_id}"
    assert events[1:] == [
        (who, "created", f"key:{old.line.key_id}"),
        (who, "rotated", f"key:{new.line.key_id}"),
        (who, "revoked", f"key:{new.line.key_id}"),
    ]
    assert [kind for kind, _ in service.emails()] == ["new_key", "new_key"]


async def test_a_key_is_not_created_if_its_email_cannot_be_stored(service: PeopleService) -> None:
    session = await service.signed_up()
    trigger = "BEFORE INSERT ON letter BEGIN SELECT raise(ABORT, 'full'); END"
    service.change(f"CREATE TRIGGER full {trigger}")

    with pytest.raises(ServiceUnavailable):
        await make(service, session)

    assert service.rows("SELECT count(*) FROM api_key") == [(0,)]
    assert service.rows("SELECT action FROM account_event") == [("signed up",)]
