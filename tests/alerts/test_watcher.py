"""Alerts fire exactly once for each crossing, even if processes die, on every database engine."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import pairwise, product
from math import sin
from pathlib import Path
from random import Random
from typing import Any

import apsw
import msgspec
import pytest
from based58 import b58encode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typing_extensions import override
from watching import (
    LEVEL,
    MINT,
    Scene,
    begun_log,
    opened,
    swap,
    trade,
)

from mintscope.accounts.rows import AccountRows
from mintscope.accounts.signups.reviews import Reviews
from mintscope.alerts import evaluator
from mintscope.alerts.alert import Alert, AlertDenied, AlertRule, FiringId, SignalId
from mintscope.alerts.alerts import COMPARED_AT_ONCE, LEASE_MS, LEASE_MS_MAX, AlertBounds
from mintscope.alerts.conditions import Field, SignalKind, Tracks, watched_by
from mintscope.alerts.evaluation import LOOKS_AT_ONCE, Evaluation, packed
from mintscope.alerts.evaluator import RENEW_S
from mintscope.app.stores.folder import MONEY_FILE
from mintscope.app.stores.money import SqlAccountStore
from mintscope.kit.audit import COMMAND_LINE
from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import Mint, UnixMs
from mintscope.market.log import Appended, LoadedMint
from mintscope.market.screening.grammar import ALL_FIELDS, parse_condition
from mintscope.solana.blocks import USDC
from support.fakes.log import FakeLog
from support.oracles import definitions
from support.scenes.account_stores import ENGINES, CountedAccounts
from support.scenes.service import NOW


def slow_crossings(log: FakeLog, since: int) -> list[int]:
    """Return the events after *since*, retracted or not, at which the price rose above LEVEL."""
    prices = [
        (event.seq, each.price_usd)
        for event in log.kept
        if isinstance(event, Appended)
        for each in event.swaps
    ]
    return [
        seq
        for n, (seq, price) in enumerate(prices)
        if n and seq > since and price is not None and price > LEVEL >= (prices[n - 1][1] or 0.0)
    ]


@pytest.fixture(params=ENGINES)
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    async with opened(request.param, tmp_path) as found:
        yield found


async def test_a_crossing_fires_once(scene: Scene) -> None:
    signal_id = await scene.make(webhook_url="https://example.org/", by_email=True)
    watcher, began = scene.watcher(), scene.log.seq
    await watcher.round()
    for price in (10.0, 10.5, 11.0, 9.0, 10.5):
        trade(scene.log, price)
        await watcher.round()
        await watcher.round()
    fired = await scene.fired(signal_id)
    assert [each.fired.seq for each in fired] == slow_crossings(scene.log, began)
    assert [each.fired.value for each in fired] == [10.5, 10.5]
    assert all(each.due_at == NOW for each in fired)
    emails = await scene.store.read(lambda rows: rows.emails.newest(9))
    assert len(emails) == 2
    assert all("(now $10.50)" in each.facts["title"] for each in emails)


async def test_an_alert_on_closed_candles_is_evaluated_as_each_minute_ends(scene: Scene) -> None:
    closed = await scene.make(is_closed=True)
    field = Field("indicators.m1.ema9")
    average = await scene.make(is_closed=True, field=field, level=10.0)
    watcher, random = scene.watcher(), Random(2)
    await watcher.round()
    closes, price = [9.0] * 9, 9.0  # a minute each, the last one open
    time = scene.log.tip_at(scene.log.seq).time or 0
    expected: list[tuple[int, float]] = []
    averages: list[float] = []
    was_above = None
    for slot in range(10, 90):
        later = time + random.choice([1, 20, 59, 130])
        if later // 60 > time // 60:
            if was_above is False and price > LEVEL:
                expected.append((slot, price))
            was_above = price > LEVEL
            averages.append(definitions.ema(closes, 9)[-1] or 0.0)
            closes.append(price)
        time, price = later, random.choice([8.0, 9.0, 10.0, 11.0, 12.0])
        closes[-1] = price
        scene.log.append(slot, time, swap(price))
        await watcher.round()
        if slot == 50:  # another process continues
            scene.clock.advance(LEASE_MS + 1)
            watcher = scene.watcher(1)
    fired = [(each.fired.slot, each.fired.value) for each in await scene.fired(closed)]
    assert fired == expected
    assert len(fired) > 3
    rises = [now for before, now in pairwise(averages) if before <= 10.0 < now]
    found = [each.fired.value for each in await scene.fired(average)]
    assert found == pytest.approx(rises)
    assert found


async def test_a_condition_of_an_asked_timeframe_fires_each_crossing_once(scene: Scene) -> None:
    """The test has four timeframes on request, open and closed candles, and several processes."""
    level = 10.0
    widths = {"s15": 15, "m30": 1_800, "h4": 14_400, "d1": 86_400}
    random, process, watcher = Random(5), 0, scene.watcher()
    await scene.make()
    await watcher.round()  # the mint is loaded already, without these timeframes
    signals: dict[tuple[str, bool], SignalId] = {}
    for name in widths:
        wanted = watched_by(parse_condition(f"ema9_{name} > {level}", ALL_FIELDS))
        for is_closed in (False, True):
            signals[name, is_closed] = await scene.make(
                wanted.kind, field=wanted.field, level=wanted.level, is_closed=is_closed
            )
    await watcher.round()
    start = NOW // 1000 - 600
    trades = [definitions.Trade(start + 60 * n, 9.0, 0.01, 10**6, True) for n in range(9)]  # noqa: FBT003
    values: dict[tuple[str, bool], list[tuple[int, float | None]]] = {
        (name, is_closed): [(9, None if is_closed else slow_ema9(trades, width_s, start + 480, 1))]
        for (name, width_s), is_closed in product(widths.items(), (False, True))
    }
    for number in range(160):
        time = trades[-1].time + (70_000 if number % 12 == 0 else random.choice((12, 15, 40)))
        price = 10.0 + 3.0 * sin(number / 4) + random.uniform(-1.0, 1.0)
        before = trades
        trades = [*trades, definitions.Trade(time, price, 0.01, 10**6, True)]  # noqa: FBT003
        scene.log.append(10 + number, time, swap(price))
        await watcher.round()
        for name, width_s in widths.items():
            values[name, False].append((10 + number, slow_ema9(trades, width_s, time, 1)))
            if time // 60 > before[-1].time // 60:
                values[name, True].append((10 + number, slow_ema9(before, width_s, time, 0)))
        if number % 40 == 30:
            scene.clock.advance(LEASE_MS + 1)
            process = 1 - process
            watcher = scene.watcher(process)
    for key, signal_id in signals.items():
        known = [(slot, value) for slot, value in values[key] if value is not None]
        rises = [now for before, now in pairwise(known) if before[1] <= level < now[1]]
        fired = await scene.fired(signal_id)
        assert [each.fired.slot for each in fired] == [slot for slot, _ in rises], key
        assert [each.fired.value for each in fired] == pytest.approx([each for _, each in rises])
        assert len(rises) > (0 if key[0] == "d1" else 1), key


class SlowLog(FakeLog):
    """A log that takes 20 ms to load a mint."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.clock = clock
        self.loaded: list[Mint] = []

    @override
    async def load(self, mint: Mint, timeframes: Collection[str] = ()) -> LoadedMint | None:
        self.clock.advance(20)
        self.loaded.append(mint)
        return await super().load(mint, timeframes)


async def test_each_round_renews_a_few_bases_oldest_first(scene: Scene) -> None:
    """All loads in one round would delay events: a load with timeframes on request takes 20 ms."""
    scene.log = log = SlowLog(scene.clock)
    mints = [MINT, *(Mint(b58encode(bytes([n]) * 32).decode()) for n in range(1, 7))]
    for mint in mints:
        log.track(mint)
        await scene.make(mint=mint)
    watcher = replace(scene.watcher(), evaluation=Evaluation(tracks=Tracks(len(mints))))
    slot = 1
    time = NOW // 1000

    async def trade_all(price: float) -> None:
        nonlocal slot
        slot += 1
        log.append(slot, time, *(msgspec.structs.replace(swap(price), mint=mint) for mint in mints))
        await watcher.round()

    await trade_all(9.0)
    await trade_all(9.0)
    assert sorted(log.loaded) == sorted(mints)
    renewed: list[Mint] = []
    for since_s, count in ((RENEW_S, 3), (RENEW_S, 3), (0.0, 3), (0.0, 1), (0.0, 0)):
        scene.clock.advance(int(since_s * 1000))
        del log.loaded[:]
        await trade_all(9.0)
        assert len(log.loaded) == count
        renewed += log.loaded
    assert sorted(renewed[:7]) == sorted(mints)
    assert renewed[7:] == renewed[:3]


async def test_alerts_of_loaded_tokens_fire_while_others_are_loaded(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a start many tokens are loaded, and one with timeframes on request takes 20 ms."""
    monkeypatch.setattr(evaluator, "LOADING_S", 0.04)
    scene.log = log = SlowLog(scene.clock)
    mints = [Mint(b58encode(bytes([n]) * 32).decode()) for n in range(1, 8)]
    wide = watched_by(parse_condition("ema9_h4 > 10", ALL_FIELDS))
    for mint in mints:
        log.track(mint)
        await scene.make(wide.kind, field=wide.field, level=wide.level, mint=mint)
    log.track(MINT)
    own = await scene.make(level=10.0)
    waits = asyncio.Event()

    async def wait() -> None:
        waits.set()
        await asyncio.Event().wait()

    watcher = replace(scene.watcher(), evaluation=Evaluation(tracks=Tracks(8)), wait=wait)
    for n in range(9):
        log.append(n + 1, NOW // 1000 - 600 + 60 * n, swap(9.0))
    for slot, price in enumerate((9.0, 11.0), 10):
        log.append(slot, NOW // 1000, swap(price))
        until_s = scene.clock.monotonic_s() + 0.1
        await watcher.round()
        assert scene.clock.monotonic_s() < until_s
    assert log.loaded[0] == MINT  # without asked timeframes
    assert 2 < len(log.loaded) < len(mints)
    assert [each.fired.value for each in await scene.fired(own)] == [11.0]
    running = asyncio.create_task(watcher.run())
    await waits.wait()
    running.cancel()
    assert sorted(log.loaded) == sorted([*mints, MINT])


def slow_ema9(
    trades: Sequence[definitions.Trade], width_s: int, now: int, open_count: int
) -> float | None:
    """Return EMA 9 of the candles of *trades*; None if there are no candles.

    open_count   0: only candles that have ended by *now* count
    """
    candles = definitions.candles(trades, width_s)
    ended = now - now % width_s
    if not open_count:
        candles = [each for each in candles if each.start < ended]
    if width_s == 15:  # only the newest 15 minutes have such candles
        candles = [each for each in candles if each.start > ended - 900]
    return definitions.ema([each.close for each in candles], 9)[-1] if candles else None


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("trade"), st.sampled_from([8.0, 9.0, 10.0, 11.0])),
        st.sampled_from(
            [("look", 0), ("look", 1), ("die", 0), ("die", 1), ("wait", 0), ("renew", 0)]
        ),
        st.just(("finalize", 0)),
    ),
    max_size=40,
)


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS)
async def test_each_crossing_fires_once_even_if_processes_die(
    scene: Scene, steps: list[tuple[str, float]]
) -> None:
    await scene.begin_again()
    signal_id = await scene.make()
    watchers = [scene.watcher(0), scene.watcher(1)]
    await watchers[0].round()
    began = scene.log.seq
    for what, value in steps:
        match what:
            case "trade":
                trade(scene.log, value)
            case "look":
                await watchers[int(value)].round()
            case "die":
                watchers[int(value)] = scene.watcher(int(value))
            case "wait":
                scene.clock.advance(LEASE_MS + 1)
            case "renew":
                scene.clock.advance(int(RENEW_S * 1000) + 1)
            case _:
                slots = scene.log.slots_at(scene.log.seq)
                scene.log.finalize(slots[-1].header.slot)
    scene.clock.advance(LEASE_MS + 1)
    await watchers[1].round()
    assert await scene.seqs(signal_id) == slow_crossings(scene.log, began)


async def test_each_crossing_fires_once_if_a_process_dies_before_any_statement(
    tmp_path: Path,
) -> None:
    """A process dies before its n-th statement, another goes on: no firing is lost or doubled."""
    for last in range(1, 200):
        folder = tmp_path / str(last)
        folder.mkdir()
        async with opened("sqlite", folder) as scene:
            signal_id = await scene.make(webhook_url="https://example.org/", by_email=True)
            await scene.watcher(1).round()
            began = scene.log.seq
            scene.clock.advance(LEASE_MS + 1)
            died = await _die_before(last, scene, folder)
            scene.clock.advance(LEASE_MS + 1)  # the lease of the dead process ends
            await scene.watcher(1).round()
            expected = slow_crossings(scene.log, began)
            assert await scene.seqs(signal_id) == expected, f"killed before statement {last}"
            emails = await scene.store.read(lambda rows: rows.emails.newest(9))
            reported = [line for each in emails for line in each.facts["lines"].splitlines()]
            assert len(reported) == len(expected) == 2
        if not died:
            assert last > 20, "expected that it was killed before many statements"
            return
    pytest.fail("expected that it ends")


async def _die_before(last: int, scene: Scene, folder: Path) -> bool:
    """Trade and evaluate in a process that dies before statement *last*; return whether it died."""
    left = last

    def count(_statement: str) -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            raise apsw.AbortError

    died = False
    async with AsyncExitStack() as stack:
        file = CountedAccounts(folder / MONEY_FILE, count)
        stack.push_async_callback(file.close)
        watcher = scene.watcher(0, SqlAccountStore(file))
        for price in (11.0, 9.0, 10.5):
            trade(scene.log, price)
            if not died:
                try:
                    await watcher.round()
                except (apsw.Error, ServiceUnavailable):
                    died = True
    return died


async def test_a_crossing_in_an_orphaned_slot_is_not_reported_again(scene: Scene) -> None:
    signal_id, watcher = await scene.make(), scene.watcher()
    await watcher.round()
    trade(scene.log, 11.0)
    await watcher.round()
    scene.log.retract()
    await watcher.round()
    trade(scene.log, 11.5)
    await watcher.round()
    assert len(await scene.fired(signal_id)) == 1
    trade(scene.log, 9.0)
    trade(scene.log, 11.0)
    await scene.watcher().round()  # a restart
    assert len(await scene.fired(signal_id)) == 2


async def test_a_changed_alert_starts_without_its_earlier_state(scene: Scene) -> None:
    signal_id, watcher = await scene.make(), scene.watcher()
    await watcher.round()
    trade(scene.log, 11.0)
    await watcher.round()

    async def edit(**changes: object) -> None:
        changed = await scene.signals.change(
            scene.user_id,
            signal_id,
            lambda asked: replace(asked, **changes),  # type: ignore[arg-type]
        )
        assert not isinstance(changed, AlertDenied)

    await edit(level=8.0)  # the price is above 8.0 already
    await watcher.round()
    trade(scene.log, 12.0)
    await watcher.round()
    assert len(await scene.fired(signal_id)) == 1
    await edit(is_active=False)
    trade(scene.log, 7.0)
    trade(scene.log, 12.0)
    await watcher.round()
    await edit(is_active=True)
    await watcher.round()
    trade(scene.log, 7.0)
    trade(scene.log, 12.0)
    await watcher.round()
    assert len(await scene.fired(signal_id)) == 2
    await scene.signals.delete(scene.user_id, signal_id)
    trade(scene.log, 7.0)
    await watcher.round()
    assert await scene.store.read(lambda rows: rows.lease.bases()) == []


async def test_the_alerts_of_a_removed_account_do_not_fire(scene: Scene) -> None:
    await scene.make()
    watcher = scene.watcher()
    await watcher.round()
    reviews = Reviews(scene.store, clock=scene.clock, entropy=bytes)
    await reviews.remove_user(scene.user_id, actor=COMMAND_LINE)
    trade(scene.log, 11.0)
    await watcher.round()
    assert await scene.signals.of_user(scene.user_id) == []
    assert await scene.store.read(lambda rows: rows.firings.since(FiringId(0), 9)) == []


async def test_active_alerts_and_their_mints_are_limited_over_all_accounts(scene: Scene) -> None:
    scene.signals = replace(scene.signals, bounds=AlertBounds(of_all_max=3, mints_max=1))

    async def change(signal_id: SignalId, **changes: Any) -> Alert | AlertDenied:
        return await scene.signals.change(
            scene.user_id, signal_id, lambda asked: replace(asked, **changes)
        )

    first = await scene.make()
    asked = AlertRule(name="up", mint=Mint(USDC), field=Field("price.usd"), kind=SignalKind.ABOVE)
    assert await scene.signals.make(scene.user_id, asked) is AlertDenied.TOO_MANY_MINTS
    assert isinstance(await change(first, is_active=False), Alert)
    other = await scene.signals.make(scene.user_id, asked)
    assert isinstance(other, Alert)
    assert await change(first, is_active=True) is AlertDenied.TOO_MANY_MINTS
    await scene.signals.delete(scene.user_id, other.signal_id)
    await scene.make()
    await scene.make()
    assert isinstance(await change(first, is_active=True), Alert)
    assert isinstance(await change(first, level=2.0), Alert)
    fourth = replace(asked, mint=MINT)
    assert await scene.signals.make(scene.user_id, fourth) is AlertDenied.TOO_MANY_OF_ALL
    idle = await scene.signals.make(scene.user_id, replace(fourth, is_active=False))
    assert isinstance(idle, Alert)
    assert await change(idle.signal_id, is_active=True) is AlertDenied.TOO_MANY_OF_ALL


async def test_many_alerts_on_one_token_fire_together_and_other_tasks_run(scene: Scene) -> None:
    scene.signals = replace(scene.signals, bounds=AlertBounds(per_user_max=2_000))
    asked = AlertRule(
        name="up", mint=MINT, field=Field("price.usd"), kind=SignalKind.ABOVE, level=LEVEL
    )
    owner, count = scene.user_id, max(2 * LOOKS_AT_ONCE, COMPARED_AT_ONCE + 1)

    def fill(rows: AccountRows) -> None:
        for _ in range(count):
            rows.signals.insert(owner, asked, bytes(32), NOW)
        rows.lease.touch()

    await scene.store.transact(fill)
    watcher = scene.watcher()
    await watcher.round()
    trade(scene.log, 11.0)
    turns, task = 0, asyncio.ensure_future(watcher.round())
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 3
    signals = await scene.signals.of_user(owner)
    assert len(signals) == count
    assert all(signal.fired_at == NOW for signal in signals)
    assert await scene.seqs(signals[-1].signal_id) == [scene.log.seq]

    await scene.signals.delete(owner, signals[0].signal_id)
    assert len(watcher.evaluation.numbers) == count
    await watcher.round()
    assert {*watcher.evaluation.numbers} == {each.signal_id for each in signals[1:]}


async def test_only_one_process_evaluates_alerts(scene: Scene) -> None:
    signal_id = await scene.make()
    one, other = scene.watcher(0), scene.watcher(1)
    await one.round()
    await other.round()
    trade(scene.log, 11.0)
    await other.round()
    assert await scene.fired(signal_id) == []
    await one.round()
    assert len(await scene.fired(signal_id)) == 1


async def test_a_process_that_stops_leaves_its_lease_to_others(scene: Scene) -> None:
    signal_id = await scene.make()
    one, other = scene.watcher(0), scene.watcher(1)
    await one.round()
    await other.writer.leave()  # it has no lease, so this changes nothing
    task = asyncio.create_task(one.run())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    trade(scene.log, 11.0)
    await other.round()
    assert len(await scene.fired(signal_id)) == 1


@pytest.mark.parametrize("off_ms", [LEASE_MS_MAX // 2, 2 * LEASE_MS_MAX])
async def test_each_crossing_fires_once_if_clocks_are_minutes_apart(
    scene: Scene, off_ms: int
) -> None:
    signal_id, began = await scene.make(), scene.log.seq
    clocks = [ManualClock(UnixMs(NOW + off)) for off in (off_ms, -off_ms)]
    watchers = [scene.watcher(process, clock=clock) for process, clock in enumerate(clocks)]
    for price in (9.0, 11.0, 9.0, 10.5, 9.5, 12.0):
        for watcher in watchers:
            await watcher.round()
        trade(scene.log, price)
    for watcher in watchers[::-1]:
        await watcher.round()
    assert await scene.seqs(signal_id) == slow_crossings(scene.log, began)


async def test_the_lease_can_be_taken_after_the_clock_was_set_back(scene: Scene) -> None:
    await scene.watcher(0, clock=ManualClock(UnixMs(NOW + 2 * LEASE_MS_MAX))).writer.take()
    assert await scene.watcher(1).writer.take() is not None


async def test_a_frozen_process_writes_no_firing_that_another_has_written(scene: Scene) -> None:
    signal_id = await scene.make()
    one, other = scene.watcher(0), scene.watcher(1)
    await one.round()
    trade(scene.log, 11.0)
    evaluated = one.evaluation
    for event in scene.log.kept[evaluated.tracks.seq :]:
        list(evaluated.apply(event, NOW))  # frozen before it writes
    outcome = evaluated.outcome(evaluated.tracks.seq - 1, with_idle=False)
    assert outcome.fired
    scene.clock.advance(LEASE_MS + 1)
    await other.round()
    assert len(await scene.fired(signal_id)) == 1
    assert not await one.writer.write(packed(outcome))
    await one.round()
    assert len(await scene.fired(signal_id)) == 1


async def test_a_crossing_in_a_trimmed_part_of_the_log_fires_after_a_restart(scene: Scene) -> None:
    signal_id = await scene.make()
    await scene.watcher().round()
    trade(scene.log, 9.5)
    trade(scene.log, 11.0)
    scene.log.trimmed = scene.log.seq
    await scene.watcher().round()
    assert len(await scene.fired(signal_id)) == 1


async def test_a_replaced_log_is_evaluated_from_its_tip_on(scene: Scene) -> None:
    signal_id = await scene.make()
    trade(scene.log, 9.0)
    await scene.watcher().round()
    scene.log = begun_log()
    watcher = scene.watcher()
    await watcher.round()
    trade(scene.log, 11.0)
    await watcher.round()
    assert len(await scene.fired(signal_id)) == 1


async def test_an_alert_fires_if_its_mint_is_tracked_later(scene: Scene) -> None:
    scene.log.untrack(MINT)
    signal_id, watcher = await scene.make(), scene.watcher()
    await watcher.round()
    scene.log.track(MINT)
    for _ in range(9):
        tip = scene.log.tip_at(scene.log.seq)
        scene.log.append((tip.slot or 0) + 1, (tip.time or 0) + 60, swap(9.0))
    await watcher.round()
    trade(scene.log, 11.0)
    await watcher.round()
    assert len(await scene.fired(signal_id)) == 1
