"""The stored rows of alerts ("signals" in the API), on every engine."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from mintscope.accounts.changes import AccountDeletion
from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import NewUser, UserKind
from mintscope.accounts.rows import AccountRows, AccountStore
from mintscope.accounts.secrets import IdempotencyRecord
from mintscope.accounts.session import NewSession, Session
from mintscope.alerts.alert import AlertRule, FiringId, FiringKind, MintBase, NewFiring, SignalId
from mintscope.alerts.conditions import Direction, Field, SignalKind
from mintscope.kit.audit import UserId
from mintscope.kit.clock import ManualClock
from mintscope.kit.credentials import CredentialHash
from mintscope.kit.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.solana.blocks import USDC, WSOL
from support.scenes.account_stores import ENGINES

NONCE: Final = bytes(range(32))
RULE: Final = AlertRule(
    name="up",
    mint=Mint(WSOL),
    field=Field("price.usd"),
    kind=SignalKind.ABOVE,
    level=1e-12,
    margin=0.5,
    webhook_url="https://example.org/",
)


def at(number: int) -> UnixMs:
    return UnixMs(1_700_000_000_000 + number)


@pytest.fixture(params=ENGINES)
async def two(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[AccountStore, AccountStore]]:
    """Yield two stores over one database, as two processes would open them."""
    async with AsyncExitStack() as stack:
        opener = ENGINES[request.param]
        here, there = [await stack.enter_async_context(opener(tmp_path)) for _ in range(2)]
        yield here, there


def user(rows: AccountRows, name: str) -> UserId:
    email = EmailAddress(f"{name}@example.org")
    new = NewUser(kind=UserKind.AGENT, username=name, email=email, created_at=at(0))
    return rows.users.insert(new)


def _revisions(rows: AccountRows, after: SignalId, limit: int) -> Mapping[SignalId, int]:
    return rows.signals.revisions(after, limit)


def firing(signal_id: SignalId, number: int) -> NewFiring:
    return NewFiring(
        signal_id=signal_id,
        kind=FiringKind.FIRED,
        seq=number,
        slot=Slot(number),
        time=UnixS(number),
        value=1.5,
        direction=Direction.DOWN,
        reference=2.5,
        fired_at=at(number),
    )


async def test_a_signal_is_stored_handed_over_and_deleted(
    two: tuple[AccountStore, AccountStore],
) -> None:
    here, there = two

    def write(rows: AccountRows) -> tuple[UserId, UserId, SignalId, SignalId]:
        one, other = user(rows, "one"), user(rows, "other")
        first = rows.signals.insert(one, RULE, NONCE, at(1))
        second = rows.signals.insert(
            one, replace(RULE, is_active=False, is_closed=True), NONCE, at(2)
        )
        rows.signals.update(first, state='{"side":1}', revision=2, old_nonce=NONCE, fired_at=at(3))
        return one, other, first, second

    one, other, first, second = await here.transact(write)
    kept = await there.read(lambda rows: rows.signals.get(first))
    assert kept is not None
    assert (kept.user_id, kept.rule, kept.nonce, kept.old_nonce) == (one, RULE, NONCE, NONCE)
    assert (kept.revision, kept.state, kept.created_at) == (2, '{"side":1}', at(1))
    assert (kept.fired_at, kept.webhook_failed_at, kept.old_nonce_until) == (at(3), None, None)
    found = await there.read(lambda rows: (rows.signals.of_user(one), rows.signals.since(first, 9)))
    assert [[each.signal_id for each in part] for part in found] == [[first, second], [first]]
    assert not found[0][1].rule.is_active
    third = await here.transact(lambda rows: rows.signals.insert(one, RULE, NONCE, at(3)))
    for after, limit, expected in (
        (0, 9, {first: 2, third: 1}),
        (0, 1, {first: 2}),
        (first, 1, {third: 1}),
        (third, 9, {}),
    ):
        asked = partial(_revisions, after=SignalId(after), limit=limit)
        assert await there.read(asked) == expected
    await here.transact(lambda rows: rows.signals.delete(third))
    await here.transact(lambda rows: rows.signals.hand_over(one, other, at(3)))
    assert await there.read(lambda rows: rows.signals.of_user(one)) == []

    def delete(rows: AccountRows) -> None:
        rows.firings.insert(firing(first, 1), None)
        rows.signals.delete(first)

    await here.transact(delete)
    left = await there.read(lambda rows: rows.signals.of_user(other))
    assert [each.signal_id for each in left] == [second]
    again = await here.transact(lambda rows: rows.signals.insert(one, RULE, NONCE, at(4)))
    assert again > second, "a number is never used again"


async def test_firings_are_listed_in_pages_and_purged_by_age(
    two: tuple[AccountStore, AccountStore],
) -> None:
    here, there = two

    def write(rows: AccountRows) -> tuple[SignalId, list[FiringId]]:
        signal_id = rows.signals.insert(user(rows, "one"), RULE, NONCE, at(0))
        dues = (None, at(30), at(20), at(10), at(90))
        return signal_id, [
            rows.firings.insert(firing(signal_id, n), due) for n, due in enumerate(dues)
        ]

    assert await there.read(lambda rows: rows.firings.first_waiting()) == 1
    signal_id, numbers = await here.transact(write)
    page = await there.read(lambda rows: rows.firings.of_signal(signal_id, None, 2))
    assert [each.firing_id for each in page] == [numbers[4], numbers[3]]
    assert page[0].fired == firing(signal_id, 4)
    assert await there.read(lambda rows: rows.firings.get(numbers[4])) == page[0]
    rest = await there.read(lambda rows: rows.firings.of_signal(signal_id, numbers[3], 9))
    assert [each.firing_id for each in rest] == [numbers[2], numbers[1], numbers[0]]
    new = await there.read(lambda rows: rows.firings.since(numbers[1], 2))
    assert [each.firing_id for each in new] == numbers[2:4]
    assert [each.due_at for each in new] == [at(20), at(10)]
    assert await there.read(lambda rows: rows.firings.first_waiting()) == numbers[1]
    assert await here.transact(lambda rows: rows.firings.purge(at(3), 2))
    left = await there.read(lambda rows: rows.firings.since(FiringId(0), 9))
    assert [each.firing_id for each in left] == numbers[2:]
    assert not await here.transact(lambda rows: rows.firings.purge(at(3), 2))
    left = await there.read(lambda rows: rows.firings.since(FiringId(0), 9))
    assert [each.firing_id for each in left] == numbers[3:]


async def test_giving_up_the_webhooks_of_an_alert_ends_only_its_webhook_firings(
    two: tuple[AccountStore, AccountStore],
) -> None:
    here, there = two

    def write(rows: AccountRows) -> list[SignalId]:
        owner = user(rows, "one")
        signals = [rows.signals.insert(owner, RULE, NONCE, at(0)) for _ in range(3)]
        for signal_id in signals:
            rows.firings.insert(firing(signal_id, 1), at(1))
            rows.firings.insert(firing(signal_id, 2), None)
        rows.firings.give_up(signals[0], at(50), "enough")
        rows.signals.delete(signals[2])
        return signals

    signals = await here.transact(write)
    found = await there.read(lambda rows: rows.firings.since(FiringId(0), 9))
    reported = [(each.fired.signal_id, each.given_up_at, each.reason) for each in found]
    ended, by_no_webhook = (signals[0], at(50), "enough"), (signals[0], None, None)
    assert reported == [ended, by_no_webhook, *[(signals[1], None, None)] * 2]
    numbers = [*signals, *(SignalId(number) for number in range(-600, 0))]
    assert set(await there.read(lambda rows: rows.firings.deleted(numbers))) == set(numbers[2:])


async def test_the_newest_firings_of_each_alert_are_kept(
    two: tuple[AccountStore, AccountStore],
) -> None:
    here, there = two

    def write(rows: AccountRows) -> tuple[list[SignalId], list[FiringId]]:
        owner = user(rows, "one")
        signals = [rows.signals.insert(owner, RULE, NONCE, at(0)) for _ in range(3)]
        numbers = [rows.firings.insert(firing(signals[0], n), None) for n in range(5)]
        for n in range(3):
            rows.firings.insert(firing(signals[1], n), None)
        return signals, numbers

    signals, numbers = await here.transact(write)
    ends = [SignalId(0)]
    while (last := await here.transact(lambda rows: rows.firings.trim(ends[-1], 2, 3))) is not None:
        ends.append(last)
    assert ends == [SignalId(0), *signals[1:]]

    def left(rows: AccountRows) -> list[list[FiringId]]:
        found = [rows.firings.of_signal(each, None, 99) for each in signals[:2]]
        return [[each.firing_id for each in part] for part in found]

    kept, others = await there.read(left)
    assert kept == numbers[:1:-1]
    assert len(others) == 3


async def test_an_account_deletion_deletes_the_signals_and_firings_of_the_user(
    two: tuple[AccountStore, AccountStore],
) -> None:
    here, there = two

    def write(rows: AccountRows) -> tuple[Session, SignalId, SignalId]:
        one, other = user(rows, "one"), user(rows, "other")
        numbers = [rows.signals.insert(each, RULE, NONCE, at(1)) for each in (one, one, other)]
        for signal_id in numbers:
            rows.firings.insert(firing(signal_id, 1), at(2))
            rows.firings.insert(firing(signal_id, 2), None)
        new = NewSession(CredentialHash(bytes(32)), "here", "browser")
        session = rows.sessions.get(rows.sessions.insert(one, new, at(3)))
        assert session is not None
        return session, numbers[0], numbers[2]

    session, gone, kept = await here.transact(write)
    deletion = AccountDeletion(store=here, clock=ManualClock(at(9)))
    assert (await deletion.contents(session)).signals == 2
    version = (await there.read(lambda rows: rows.lease.standing())).version
    await deletion.delete(session)

    def left(rows: AccountRows) -> list[object]:
        of_gone = rows.firings.of_signal(gone, None, 9)
        numbers = [each.signal_id for each in rows.signals.since(SignalId(1), 9)]
        return [numbers, of_gone, rows.signals.of_user(session.user.user_id)]

    assert await there.read(left) == [[kept], [], []]
    assert (await there.read(lambda rows: rows.lease.standing())).version > version
    assert len(await there.read(lambda rows: rows.firings.of_signal(kept, None, 9))) == 2


async def test_the_lease_stores_its_holder_its_position_and_the_bases(
    two: tuple[AccountStore, AccountStore],
) -> None:
    here, there = two
    first = await there.read(lambda rows: rows.lease.standing())
    assert (first.seq, first.version, first.holder, first.held_until) == (0, 0, b"", 0)
    usdc = Mint(USDC)

    def write(rows: AccountRows) -> None:
        rows.lease.hold(b"one", at(10))
        rows.lease.touch()
        rows.lease.advance(7)
        rows.lease.keep_bases([MintBase(RULE.mint, 3, b"a"), MintBase(usdc, 4, b"b")], {usdc: 6})

    await here.transact(write)
    now = await there.read(lambda rows: rows.lease.standing())
    assert (now.seq, now.version, now.holder, now.held_until) == (7, 1, b"one", at(10))
    bases = await there.read(lambda rows: rows.lease.bases())
    assert {base.mint: (base.seq, base.packed) for base in bases} == {
        RULE.mint: (3, b"a"),
        usdc: (6, b"b"),
    }

    def change(rows: AccountRows) -> None:
        rows.lease.drop_bases([usdc])
        rows.lease.keep_bases([MintBase(RULE.mint, 9, b"c")], {usdc: 9})

    await here.transact(change)
    assert await there.read(lambda rows: rows.lease.bases()) == [MintBase(RULE.mint, 9, b"c")]


async def test_an_idempotency_record_is_found_until_it_is_purged(
    two: tuple[AccountStore, AccountStore],
) -> None:
    here, there = two
    key, made = CredentialHash(bytes(32)), IdempotencyRecord(b"asked", 7)
    assert await there.read(lambda rows: rows.made.find(key)) is None
    await here.transact(lambda rows: rows.made.insert(key, made, at(5)))
    await here.transact(lambda rows: rows.made.purge(at(5), 9))
    assert await there.read(lambda rows: rows.made.find(key)) == made
    await here.transact(lambda rows: rows.made.purge(at(6), 9))
    assert await there.read(lambda rows: rows.made.find(key)) is None
