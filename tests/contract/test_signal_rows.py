"""What the rows of signals do, on every engine."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from mintscope.base.clock import ManualClock
from mintscope.base.credentials import CredentialHash
from mintscope.base.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.base.solana import USDC, WSOL
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.holdings.made import MadeThing
from mintscope.core.accounts.people.leaving import Leaving
from mintscope.core.accounts.people.session import NewSession, Session
from mintscope.core.accounts.signals.signal import (
    DueWanted,
    FiringId,
    FiringKind,
    NewFiring,
    Queue,
    SignalId,
    SignalRule,
)
from mintscope.core.accounts.signals.turn import MintBase
from mintscope.core.accounts.store import AccountRows, AccountStore
from mintscope.core.accounts.user import NewUser, UserId, UserKind
from mintscope.core.market.signals.fields import Field
from mintscope.core.market.signals.rule import Direction, SignalKind
from support.scenes.account_stores import ENGINES

NONCE: Final = bytes(range(32))
RULE: Final = SignalRule(
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
    """Two stores over one database, as in two processes."""
    async with AsyncExitStack() as stack:
        opener = ENGINES[request.param]
        here, there = [await stack.enter_async_context(opener(tmp_path)) for _ in range(2)]
        yield here, there


def user(rows: AccountRows, name: str) -> UserId:
    email = EmailAddress(f"{name}@example.org")
    new = NewUser(kind=UserKind.AGENT, username=name, email=email, created_at=at(0))
    return rows.users.insert(new)


def _revisions(rows: AccountRows, after: SignalId, limit: int) -> Mapping[SignalId, int]:
    return rows.active.revisions(after, limit)


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


async def test_a_signal_is_kept_as_it_was_given(two: tuple[AccountStore, AccountStore]) -> None:
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
    found = await there.read(lambda rows: (rows.signals.of_user(one), rows.active.since(first, 9)))
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
    await here.transact(lambda rows: rows.signals.hand_over(one, other))
    assert await there.read(lambda rows: rows.signals.of_user(one)) == []

    def delete(rows: AccountRows) -> None:
        rows.firings.insert(firing(first, 1), None)
        rows.signals.delete(first)

    await here.transact(delete)
    left = await there.read(lambda rows: rows.signals.of_user(other))
    assert [each.signal_id for each in left] == [second]
    again = await here.transact(lambda rows: rows.signals.insert(one, RULE, NONCE, at(4)))
    assert again > second, "a number is never used again"


async def test_what_fired_is_told_by_the_page_and_claimed_by_its_turn(
    two: tuple[AccountStore, AccountStore],
) -> None:
    here, there = two

    def write(rows: AccountRows) -> tuple[SignalId, list[FiringId]]:
        signal_id = rows.signals.insert(user(rows, "one"), RULE, NONCE, at(0))
        dues = (None, at(30), at(20), at(10), at(90))
        return signal_id, [
            rows.firings.insert(firing(signal_id, n), due) for n, due in enumerate(dues)
        ]

    signal_id, numbers = await here.transact(write)
    page = await there.read(lambda rows: rows.firings.of_signal(signal_id, None, 2))
    assert [each.firing_id for each in page] == [numbers[4], numbers[3]]
    assert page[0].fired == firing(signal_id, 4)
    rest = await there.read(lambda rows: rows.firings.of_signal(signal_id, numbers[3], 9))
    assert [each.firing_id for each in rest] == [numbers[2], numbers[1], numbers[0]]
    queue = await there.read(lambda rows: rows.webhooks.queue())
    assert queue == Queue(waiting=4, oldest=at(1))
    assert not await there.read(lambda rows: rows.webhooks.is_due(at(9)))
    assert await there.read(lambda rows: rows.webhooks.is_due(at(10)))
    wanted = DueWanted(count=2, of_each=9)
    due = await here.claim(lambda rows: rows.webhooks.claim(at(30), wanted))
    assert [each.firing_id for each in due] == [numbers[3], numbers[2]]

    def end(rows: AccountRows) -> None:
        rows.firings.update(numbers[3], delivered_at=at(40), attempts=1)
        rows.firings.update(numbers[2], due_at=at(95), reason="no", attempts=1)
        rows.firings.purge(at(5))
        rows.webhooks.give_up(signal_id, at(50), "enough")

    await here.transact(end)
    left = await there.read(lambda rows: rows.firings.of_signal(signal_id, None, 9))
    assert [each.firing_id for each in left] == [numbers[4], numbers[2], numbers[1]]
    assert {(each.given_up_at, each.reason) for each in left} == {(at(50), "enough")}
    queue = await there.read(lambda rows: rows.webhooks.queue())
    assert queue == Queue(waiting=0, oldest=None)


async def test_beyond_so_many_that_wait_the_oldest_but_the_first_are_dropped(
    two: tuple[AccountStore, AccountStore],
) -> None:
    here, there = two

    def write(rows: AccountRows) -> list[tuple[SignalId, list[FiringId]]]:
        owner = user(rows, "one")
        signals = [rows.signals.insert(owner, RULE, NONCE, at(0)) for _ in range(3)]
        numbers = [
            [rows.firings.insert(firing(each, n), at(90 - n)) for n in range(8)] for each in signals
        ]
        numbers[1].append(rows.firings.insert(firing(signals[1], 8), None))
        for number in numbers[1][:2]:
            rows.firings.update(number, delivered_at=at(1))
        return list(zip(signals, numbers, strict=True))

    (one, ones), (other, others), (third, thirds) = await here.transact(write)
    many = [SignalId(number) for number in range(-600, 0)]  # of none of these there is anything

    def drop(rows: AccountRows) -> int:
        return rows.webhooks.drop_oldest([one, other, *many], 4, at(99), "enough")

    assert await here.transact(drop) == 4 + 2
    assert await there.transact(drop) == 0

    def given_up(rows: AccountRows) -> list[FiringId]:
        found = [rows.firings.of_signal(each, None, 99) for each in (one, other, third)]
        ended = [each for part in found for each in part if each.given_up_at is not None]
        assert {(each.given_up_at, each.reason) for each in ended} == {(at(99), "enough")}
        return sorted(each.firing_id for each in ended)

    assert await there.read(given_up) == [*ones[1:5], *others[3:5]]
    queue = await there.read(lambda rows: rows.webhooks.queue())
    assert queue == Queue(waiting=4 + 4 + len(thirds), oldest=at(0))


async def test_of_each_signal_the_newest_firings_are_kept_and_those_that_wait(
    two: tuple[AccountStore, AccountStore],
) -> None:
    here, there = two

    def write(rows: AccountRows) -> tuple[list[SignalId], list[FiringId]]:
        owner = user(rows, "one")
        signals = [rows.signals.insert(owner, RULE, NONCE, at(0)) for _ in range(3)]
        numbers = [rows.firings.insert(firing(signals[0], n), None) for n in range(5)]
        rows.firings.insert(firing(signals[1], 9), at(9))
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

    kept, waiting = await there.read(left)
    assert kept == numbers[:1:-1]
    assert len(waiting) == 4


async def test_a_claim_is_shared_out_among_signals(two: tuple[AccountStore, AccountStore]) -> None:
    here, _ = two

    def write(rows: AccountRows) -> tuple[list[SignalId], list[list[FiringId]]]:
        owner = user(rows, "one")
        signals = [rows.signals.insert(owner, RULE, NONCE, at(0)) for _ in range(4)]
        numbers = [
            [rows.firings.insert(firing(each, n), at(n)) for n in range(5)] for each in signals
        ]
        rows.firings.update(numbers[3][0], attempts=1, due_at=at(900))
        return signals, numbers

    signals, numbers = await here.transact(write)

    async def claimed(**wanted: Any) -> list[FiringId]:
        asked = DueWanted(**{"count": 99, "of_each": 2, "without": [signals[0]], **wanted})
        found = await here.claim(lambda rows: rows.webhooks.claim(at(30), asked))
        return [each.firing_id for each in found]

    one, two_ = numbers[1], numbers[2]
    assert await claimed() == [one[0], two_[0], one[1], two_[1]]
    assert await claimed(count=3) == [one[0], two_[0], one[1]]
    assert await claimed(are_failing=True) == numbers[3][1:3]
    assert await claimed(are_failing=True, without=[signals[3]]) == []
    assert len(await claimed(without=())) == 6


async def test_who_leaves_takes_signals_and_waiting_webhooks_along(
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
    leaving = Leaving(store=here, clock=ManualClock(at(9)))
    assert (await leaving.belongings(session)).signals == 2
    version = (await there.read(lambda rows: rows.turn.standing())).version
    await leaving.leave(session)

    def left(rows: AccountRows) -> list[object]:
        queue, of_gone = rows.webhooks.queue(), rows.firings.of_signal(gone, None, 9)
        numbers = [each.signal_id for each in rows.active.since(SignalId(1), 9)]
        return [numbers, queue.waiting, of_gone, rows.signals.of_user(session.user.user_id)]

    assert await there.read(left) == [[kept], 1, [], []]
    assert (await there.read(lambda rows: rows.turn.standing())).version > version
    assert len(await there.read(lambda rows: rows.firings.of_signal(kept, None, 9))) == 2


async def test_two_processes_claim_nothing_twice(two: tuple[AccountStore, AccountStore]) -> None:
    here, there = two

    def write(rows: AccountRows) -> None:
        signal_id = rows.signals.insert(user(rows, "one"), RULE, NONCE, at(0))
        for number in range(6):
            rows.firings.insert(firing(signal_id, number), at(0))

    def lease(rows: AccountRows) -> list[FiringId]:
        found = [
            each.firing_id for each in rows.webhooks.claim(at(1), DueWanted(count=2, of_each=9))
        ]
        for number in found:
            rows.firings.update(number, due_at=at(100))
        return found

    await here.transact(write)
    taken = [await store.claim(lease) for store in (here, there, here, there)]
    assert [len(each) for each in taken] == [2, 2, 2, 0]
    assert len({number for each in taken for number in each}) == 6


async def test_how_far_was_looked_and_what_is_begun_from(
    two: tuple[AccountStore, AccountStore],
) -> None:
    here, there = two
    first = await there.read(lambda rows: rows.turn.standing())
    assert (first.seq, first.version, first.holder, first.held_until) == (0, 0, b"", 0)
    usdc = Mint(USDC)

    def write(rows: AccountRows) -> None:
        rows.turn.hold(b"one", at(10))
        rows.turn.touch()
        rows.turn.advance(7)
        rows.turn.keep_bases([MintBase(RULE.mint, 3, b"a"), MintBase(usdc, 4, b"b")], {usdc: 6})

    await here.transact(write)
    now = await there.read(lambda rows: rows.turn.standing())
    assert (now.seq, now.version, now.holder, now.held_until) == (7, 1, b"one", at(10))
    bases = await there.read(lambda rows: rows.turn.bases())
    assert {base.mint: (base.seq, base.packed) for base in bases} == {
        RULE.mint: (3, b"a"),
        usdc: (6, b"b"),
    }

    def change(rows: AccountRows) -> None:
        rows.turn.drop_bases([usdc])
        rows.turn.keep_bases([MintBase(RULE.mint, 9, b"c")], {usdc: 9})

    await here.transact(change)
    assert await there.read(lambda rows: rows.turn.bases()) == [MintBase(RULE.mint, 9, b"c")]


async def test_what_was_made_with_a_key_is_found_until_it_is_purged(
    two: tuple[AccountStore, AccountStore],
) -> None:
    here, there = two
    key, made = CredentialHash(bytes(32)), MadeThing(b"asked", 7)
    assert await there.read(lambda rows: rows.made.find(key)) is None
    await here.transact(lambda rows: rows.made.insert(key, made, at(5)))
    await here.transact(lambda rows: rows.made.purge(at(5)))
    assert await there.read(lambda rows: rows.made.find(key)) == made
    await here.transact(lambda rows: rows.made.purge(at(6)))
    assert await there.read(lambda rows: rows.made.find(key)) is None
