"""Reports of the live market agree, at random moments, with a replay of the log from its start."""

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.kit.errors import InsufficientData
from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.market.engine.engine import Engine, LiveMarket, as_trades
from mintscope.market.log import LoadedMint, LogTrimmed, PricedSwap, Retracted
from mintscope.market.report import token_report
from mintscope.market.standing import Offer, Standing, stand
from mintscope.market.standings import basis_of, pack
from support.fakes.log import FakeLog

MINTS = [Mint(f"mint{n}") for n in range(4)]
START = 1_700_000_000
ENGINE = Engine(1)


def priced(mint: Mint, index: int, rng: random.Random) -> PricedSwap:
    price = rng.uniform(1, 2) if rng.random() < 0.9 else None
    return PricedSwap(
        mint, index, 0, -1, 0, rng.random() < 0.5, rng.randrange(10**9), price, price and price / 9
    )


def stood(time: int, rng: random.Random) -> bytes:
    """Return random price pools after a slot at *time*, as the log stores them."""
    offers = [
        Offer(f"pool {rng.randrange(3)}", f"{n}", 1.0, 0.01, 5, rng.randrange(10**12), UnixS(at))
        for n, at in enumerate((time - 900, time - 60, time))
    ]
    standing: Standing | None = None
    for offer in offers:
        standing, _ = stand(standing, offer)
    assert standing is not None
    return pack(standing)


def replayed(log: FakeLog, seq: int, mint: Mint) -> bytes | None:
    """Return the report of *mint* at *seq* as JSON; None if there are too few data."""
    now = log.tip_at(seq).time
    if now is None:
        return None
    ENGINE.clear(0)
    ENGINE.apply(as_trades([(0, time, swap) for time, swap in log.swaps_at(seq, mint)]))
    try:
        standings = log.standings_at(seq, mint)
        basis = basis_of(standings[-1][1] if standings else None)
        return msgspec.json.encode(token_report(mint, ENGINE.snapshot(0, now), now, basis=basis))
    except InsufficientData:
        return None


class Script:
    """A log that grows by random steps, and a market that follows it and loads mints."""

    def __init__(self, seed: int, capacity: int) -> None:
        self.rng = random.Random(seed)
        self.log = FakeLog()
        self.market = LiveMarket(capacity)
        self.loads: dict[Mint, LoadedMint | None] = {}
        self.slot, self.time, self.final = 0, START, 0
        self.checked = 0
        for mint in MINTS[:3]:
            self.log.track(mint)

    def step(self) -> None:
        actions = (
            *(self.append,) * 6, self.retract, self.finalize, self.track, self.restart,
            *(self.follow,) * 3, *(self.begin,) * 2, *(self.read,) * 2, *(self.arrive,) * 2,
        )  # fmt: skip
        self.rng.choice(actions)()
        self.check()

    def append(self) -> None:
        self.slot += self.rng.randrange(1, 3)
        tip = self.log.tip_at(self.log.seq).time or START
        mints = self.rng.sample(MINTS, self.rng.randrange(len(MINTS) + 1))
        swaps = [
            priced(mint, n, self.rng) for n, mint in enumerate(mints * self.rng.choice((1, 2)))
        ]
        time = tip + self.rng.choice((0, 1, 40, 200))
        reported = {mint: stood(time, self.rng) for mint in mints if self.rng.random() < 0.8}
        self.log.append(self.slot, time, *swaps, standings=reported)

    def retract(self) -> None:
        alive = self.log.slots_at(self.log.seq)
        for _ in range(self.rng.randrange(3)):
            if len(alive) > 1 and alive.pop().header.slot > self.final:
                self.log.retract()

    def finalize(self) -> None:
        alive = [slot.header.slot for slot in self.log.slots_at(self.log.seq)]
        fresh = [slot for slot in alive if slot > self.final]
        if fresh and self.rng.random() < 0.5:
            self.final = self.rng.choice(fresh)
            self.log.finalize(self.final)

    def track(self) -> None:
        mint = self.rng.choice(MINTS)
        if self.rng.random() < 0.15:
            known = mint in self.log.tracked_at(self.log.seq)
            (self.log.untrack if known else self.log.track)(mint)

    def follow(self) -> None:
        self.follow_to(min(self.log.seq, self.market.seq + self.rng.randrange(6)))

    def follow_to(self, seq: int) -> None:
        try:
            for event in self.log.kept[self.market.seq : seq]:
                self.market.apply(event)
        except LogTrimmed:
            self.restart(1.0)

    def restart(self, chance: float = 0.1) -> None:
        if self.rng.random() < chance:
            self.market.restart(self.log.tip_at(self.log.seq), self.log.tracked_at(self.log.seq))

    def begin(self) -> None:
        mint = self.rng.choice(MINTS)
        if mint in self.market.tracked and mint not in self.market and mint not in self.loads:
            self.market.expect(mint)
            self.loads[mint] = None

    def read(self) -> None:
        for mint, loaded in self.loads.items():
            if loaded is None:
                behind = self.rng.choice((0, 0, 0, 3))
                self.loads[mint] = self.log.load_at(self.log.seq - behind, mint)

    def arrive(self) -> None:
        for mint, loaded in list(self.loads.items()):
            if loaded is not None and self.rng.random() < 0.5:
                del self.loads[mint]
                self.follow_to(max(loaded.seq, self.market.seq))
                if self.market.insert(loaded):
                    assert mint in self.market

    def check(self) -> None:
        for mint in MINTS:
            if mint in self.market:
                expected = replayed(self.log, self.market.seq, mint)
                if expected is None:
                    with pytest.raises(InsufficientData):
                        self.market.report(mint)
                else:
                    assert self.market.report(mint) == expected
                    self.checked += 1
        tip = self.log.tip_at(self.market.seq)
        assert (self.market.slot, self.market.time) == (tip.slot, tip.time)
        assert self.market.tracked == self.log.tracked_at(self.market.seq)


@pytest.mark.storm
@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(50, 400))
def test_reports_agree_with_the_log_after_any_events(seed: int, capacity: int, steps: int) -> None:
    script = Script(seed, capacity)
    for _ in range(steps):
        script.step()
        assert len(script.market) <= capacity
    script.follow_to(script.log.seq)
    script.check()


@pytest.mark.parametrize("seed", range(24))
def test_reports_agree_with_the_log_in_a_short_history(seed: int) -> None:
    """The history is short enough for `make mutation`, which runs the engine as plain Python."""
    script = Script(seed, 1 + seed % 3)
    for _ in range(90):
        script.step()
        assert len(script.market) <= 1 + seed % 3
    script.follow_to(script.log.seq)
    script.check()


def test_a_script_compares_more_than_100_reports() -> None:
    script = Script(1, 3)
    for _ in range(600):
        script.step()

    assert script.checked > 100


def market_of(log: FakeLog, capacity: int = 2) -> LiveMarket:
    market = LiveMarket(capacity)
    for event in log.kept:
        market.apply(event)
    return market


def log_of(minutes: int = 12) -> FakeLog:
    """Return a log in which both of two mints trade every minute."""
    rng, log = random.Random(1), FakeLog()
    for mint in MINTS[:2]:
        log.track(mint)
    for n in range(minutes):
        log.append(n + 1, START + 60 * n, *(priced(mint, 0, rng) for mint in MINTS[:2]))
    return log


def load(market: LiveMarket, log: FakeLog, mint: Mint) -> bool:
    market.expect(mint)
    loaded = log.load_at(log.seq, mint)
    assert loaded is not None
    return market.insert(loaded)


def test_the_least_recently_used_mint_makes_room() -> None:
    log = log_of()
    log.track(MINTS[2])
    market = market_of(log)
    load(market, log, MINTS[0])
    load(market, log, MINTS[1])
    market.report(MINTS[0])
    load(market, log, MINTS[2])

    assert [mint in market for mint in MINTS[:3]] == [True, False, True]


def test_events_are_applied_once_and_a_missing_event_is_an_error() -> None:
    log = log_of()
    market = market_of(log)
    load(market, log, MINTS[0])
    before = market.report(MINTS[0])
    for event in log.kept:
        market.apply(event)
    assert market.report(MINTS[0]) == before

    log.finalize(1)
    log.finalize(2)
    with pytest.raises(LogTrimmed, match=f"expected event {log.seq - 1}, was {log.seq}"):
        market.apply(log.kept[-1])


def test_a_retraction_below_the_known_slots_raises_log_trimmed() -> None:
    log = log_of()
    market = LiveMarket(1)
    market.restart(log.tip_at(log.seq), log.tracked_at(log.seq))
    log.retract()

    with pytest.raises(LogTrimmed, match="expected a slot before 12, was none"):
        market.apply(log.kept[-1])


def test_a_load_that_is_older_than_its_expectation_is_refused() -> None:
    log = log_of()
    old = log.load_at(log.seq, MINTS[0])
    assert old is not None
    log.append(50, START + 900)
    market = market_of(log)
    assert not market.insert(old)

    market.expect(MINTS[0])
    assert not market.insert(old)


def test_a_load_from_before_a_restart_is_refused() -> None:
    log = log_of()
    market = market_of(log)
    market.expect(MINTS[0])
    loaded = log.load_at(log.seq, MINTS[0])
    assert loaded is not None
    market.restart(log.tip_at(log.seq), log.tracked_at(log.seq))

    assert not market.insert(loaded)


def test_an_untracked_mint_is_forgotten_and_its_older_load_is_refused() -> None:
    log = log_of()
    market = market_of(log)
    load(market, log, MINTS[0])
    market.expect(MINTS[1])
    before = log.load_at(log.seq, MINTS[1])
    assert before is not None
    for mint in MINTS[:2]:
        log.untrack(mint)
        market.apply(log.kept[-1])

    assert MINTS[0] not in market
    assert not market.insert(before)


def test_a_mint_that_is_loaded_twice_takes_one_row() -> None:
    log = log_of()
    market = market_of(log, capacity=2)
    for mint in (MINTS[0], MINTS[0], MINTS[1]):
        assert load(market, log, mint)

    assert [mint in market for mint in MINTS[:2]] == [True, True]


def test_the_newest_final_slot_is_remembered() -> None:
    log = log_of()
    log.finalize(11)
    market = market_of(log)
    market.apply(Retracted(log.seq + 1, Slot(12), ()))
    assert market.slot == Slot(11)

    with pytest.raises(LogTrimmed, match="expected a slot before 11, was none"):
        market.apply(Retracted(log.seq + 2, Slot(11), ()))


def test_an_abandoned_load_is_refused() -> None:
    log = log_of()
    market = market_of(log)
    market.expect(MINTS[0])
    loaded = log.load_at(log.seq, MINTS[0])
    assert loaded is not None
    market.abandon(MINTS[0])

    assert not market.insert(loaded)
    assert len(market) == 0


def test_a_report_is_made_once_per_second_and_swap() -> None:
    log = log_of()
    market = market_of(log)
    load(market, log, MINTS[0])
    first = market.report(MINTS[0])
    log.append(20, START + 660)
    market.apply(log.kept[-1])
    assert market.slot == Slot(20)
    assert market.report(MINTS[0]) is first

    log.append(21, START + 660, priced(MINTS[1], 0, random.Random(2)))
    market.apply(log.kept[-1])
    assert market.report(MINTS[0]) is first

    log.append(22, START + 660, priced(MINTS[0], 0, random.Random(2)))
    market.apply(log.kept[-1])
    assert market.report(MINTS[0]) != first


def test_a_tag_changes_only_if_more_than_the_time_has_changed() -> None:
    """The ETag is the same in every process, whenever the process loaded the mint."""
    log = log_of()
    log.append(20, START + 90_000)
    market = market_of(log)
    load(market, log, MINTS[0])
    first, tag = market.report(MINTS[0]), market.tag()
    log.append(21, START + 90_100)
    market.apply(log.kept[-1])
    assert market.report(MINTS[0]) != first
    assert market.tag() == tag

    log.append(22, START + 90_100, priced(MINTS[0], 0, random.Random(1)))
    market.apply(log.kept[-1])
    market.report(MINTS[0])
    changed = market.tag()
    assert changed != tag
    other = market_of(log)
    load(other, log, MINTS[0])
    other.report(MINTS[0])
    assert other.tag() == changed
    assert changed.startswith(b'W/"')


def test_a_report_is_made_again_after_a_retraction_within_its_second() -> None:
    log = log_of()
    log.append(30, START + 660, priced(MINTS[0], 0, random.Random(2)))
    market = market_of(log)
    load(market, log, MINTS[0])
    dead = market.report(MINTS[0])
    log.retract()
    market.apply(log.kept[-1])
    load(market, log, MINTS[0])

    assert market.report(MINTS[0]) == replayed(log, log.seq, MINTS[0]) != dead


def test_an_inconsistent_load_takes_no_row() -> None:
    log = log_of()
    for slot in range(1, 13):
        log.finalize(slot)
    market = market_of(log, capacity=1)
    whole = log.load_at(log.seq, MINTS[0])
    assert whole is not None
    broken = msgspec.structs.replace(whole, candles={})
    for _ in range(3):
        market.expect(MINTS[0])
        with pytest.raises(ValueError, match="m1 candles of mint0, were 0"):
            market.insert(broken)
    assert len(market) == 0

    assert load(market, log, MINTS[0])
    assert market.report(MINTS[0]) == replayed(log, log.seq, MINTS[0])


def test_a_market_without_slots_has_no_reports() -> None:
    log = FakeLog()
    log.track(MINTS[0])
    market = market_of(log)
    load(market, log, MINTS[0])

    assert (market.slot, market.time) == (None, None)
    with pytest.raises(InsufficientData):
        market.report(MINTS[0])


def test_slot_and_time_are_of_the_last_living_slot() -> None:
    log = log_of(3)
    market = market_of(log)
    log.retract()
    market.apply(log.kept[-1])

    assert (market.slot, market.time) == (Slot(2), UnixS(START + 60))
