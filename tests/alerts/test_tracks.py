"""At each event, the report of `Tracks` equals that of a newly loaded mint, also after restarts."""

from typing import Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mintscope.alerts.conditions import Tracks, pack, unpack
from mintscope.kit.errors import InsufficientData
from mintscope.kit.primitives import Mint, UnixS
from mintscope.market.engine.engine import Engine
from mintscope.market.engine.frames import Frames
from mintscope.market.log import Appended, LogTrimmed, PricedSwap
from mintscope.market.report import TokenReport, token_report
from mintscope.market.standing import Offer, Standing, stand
from mintscope.market.standings import basis_of
from mintscope.market.standings import pack as pack_standing
from mintscope.market.timeframe import AskedFrame
from mintscope.solana.blocks import WSOL
from support.fakes.log import FakeLog, frames_after

MINT: Final = Mint(WSOL)
OTHER: Final = Mint("JUPyiwrYJFskUPiHa7hkeR8VUtAeFoSYbKedZNsDvCN")
START_S: Final = 1_750_000_000
ALL: Final = tuple(AskedFrame)
ENGINE: Final = Engine(1)
TRACKS: Final = Tracks(2)
AGAIN: Final = Tracks(2)

STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("append"),
            st.integers(1, 90),
            st.lists(st.tuples(st.sampled_from([MINT, OTHER]), st.integers(1, 9)), max_size=3),
        ),
        st.just(("retract",)),
        st.just(("finalize",)),
        st.just(("load",)),
    ),
    max_size=30,
)


def swap(mint: Mint, number: int, price: int) -> PricedSwap:
    return PricedSwap(mint, number, 0, -1, 0, price % 2 == 0, 10**6 * price, float(price), 0.01)


def stood(time: int) -> bytes:
    """Return a packed standing with one pool, whose liquidity grows with *time*."""
    standing: Standing | None = None
    for number, at in enumerate((time - 900, time - 600, time)):
        offer = Offer("pool", f"{number}", 1.0, 0.01, 5, time * 10**3, UnixS(at))
        standing, _ = stand(standing, offer)
    assert standing is not None
    return pack_standing(standing)


def begun_log() -> FakeLog:
    log = FakeLog()
    log.track(MINT)
    log.track(OTHER)
    for minute in range(9):
        log.append(minute + 1, START_S + 60 * minute, swap(MINT, 0, 1 + minute % 4))
    return log


def loaded_report(log: FakeLog, seq: int, now: UnixS) -> TokenReport | None:
    """Return the report of MINT as loaded at *seq*; its timeframes are computed swap by swap."""
    loaded = log.load_at(seq, MINT)
    assert loaded is not None
    ENGINE.load(0, loaded)
    try:
        basis = basis_of(loaded.standings[-1][1] if loaded.standings else None)
        swaps = log.swaps_at(seq, MINT)
        frames = Frames(frames_after(swaps, ALL)).read(ALL, now, leaves_out_open=False)
        return token_report(MINT, ENGINE.snapshot(0, now), now, basis=basis, frames=frames)
    except InsufficientData:
        return None


def take_step(log: FakeLog, step: tuple[object, ...]) -> None:
    match step:
        case ("append", int() as pause, list() as swaps):
            tip = log.tip_at(log.seq)
            assert tip.time is not None
            slot = 1 + max(e.header.slot for e in log.kept if isinstance(e, Appended))
            made = [swap(mint, n, price) for n, (mint, price) in enumerate(swaps)]
            log.append(slot, tip.time + pause, *made, standings={MINT: stood(tip.time + pause)})
        case ("retract",):
            slots = log.slots_at(log.seq)
            if slots[-1].header.slot > max(log.final_at(log.seq) or 0, 9):
                log.retract()
        case ("finalize",):
            slots = log.slots_at(log.seq)
            final = log.final_at(log.seq) or 0
            later = [each.header.slot for each in slots if each.header.slot > final]
            if later:
                log.finalize(later[0])
        case _:
            pass


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, cut=st.integers(0, 30))
@example(  # the oldest swap is final, and leaves the 15 minutes with a slot that is orphaned later
    steps=[
        ("finalize",),
        *[("append", 80, [])] * 5,
        ("append", 90, [(MINT, 2)]),
        ("load",),
        ("retract",),
        ("append", 3, [(MINT, 3)]),
    ],
    cut=30,
)
def test_every_report_equals_the_report_of_a_newly_loaded_mint(
    steps: list[tuple[object, ...]], cut: int
) -> None:
    log = begun_log()
    first = log.load_at(log.seq, MINT, ALL)
    assert first is not None
    TRACKS.begin(log.seq, None, None)
    assert TRACKS.take(first) == [MINT]
    for number, step in enumerate(steps):
        before = log.seq
        take_step(log, step)
        for event in log.kept[before:]:
            traded = TRACKS.apply(event)
            assert not [*TRACKS.reach()]
            if MINT in traded:
                assert isinstance(event, Appended)
                assert TRACKS.report(MINT) == loaded_report(log, event.seq, event.header.time)
        if step == ("load",):
            newest = log.load_at(log.seq, MINT, ALL)
            assert newest is not None
            assert TRACKS.take(newest) == []
        if number == cut:
            expect_same_again(log)
    expect_same_again(log)


def expect_same_again(log: FakeLog) -> None:
    """Assert that tracks restarted from packed bases give the same report as the running tracks."""
    new = TRACKS.new_bases()
    kept = {each.mint: unpack(pack(each)) for each in new}
    TRACKS.keep(new, TRACKS.idle(), TRACKS.seq)
    base = kept.get(MINT) or log.load_at(log.seq, MINT, ALL)
    assert base is not None
    AGAIN.begin(base.seq, None, None)
    assert AGAIN.take(base) == [MINT]
    for event in log.kept[base.seq :]:
        AGAIN.apply(event)
        assert not [*AGAIN.reach()]
    AGAIN.time = TRACKS.time = log.tip_at(log.seq).time
    assert AGAIN.report(MINT) == TRACKS.report(MINT)


def test_a_mint_that_is_loaded_ahead_begins_when_the_log_reaches_it() -> None:
    log = begun_log()
    TRACKS.begin(log.seq, None, None)
    log.append(20, START_S + 600, swap(MINT, 0, 3))
    loaded = log.load_at(log.seq, MINT, ALL)
    assert loaded is not None
    assert TRACKS.take(loaded) == []
    assert (MINT in TRACKS, TRACKS.has(MINT)) == (False, True)
    assert (TRACKS.apply(log.kept[-1]), [*TRACKS.reach()]) == ([], [MINT])
    log.append(21, START_S + 601, swap(MINT, 0, 4), swap(OTHER, 1, 4))
    assert (TRACKS.apply(log.kept[-1]), [*TRACKS.reach()]) == ([MINT], [])
    assert TRACKS.take(loaded) is None
    log.untrack(MINT)
    assert (TRACKS.apply(log.kept[-1]), [*TRACKS.reach()]) == ([], [])
    assert not TRACKS.has(MINT)


def test_mints_that_are_loaded_ahead_begin_one_by_one() -> None:
    log = begun_log()
    log.track(OTHER)
    TRACKS.begin(log.seq, None, None)
    log.append(20, START_S + 600, swap(MINT, 0, 3), swap(OTHER, 1, 3))
    for mint in (MINT, OTHER):
        loaded = log.load_at(log.seq, mint, ALL)
        assert loaded is not None
        TRACKS.take(loaded)
    TRACKS.apply(log.kept[-1])
    begun = TRACKS.reach()
    assert (next(begun), MINT in TRACKS, OTHER in TRACKS) == (MINT, True, False)
    assert ([*begun], OTHER in TRACKS) == ([OTHER], True)


def test_a_hole_in_the_log_is_noticed() -> None:
    log = begun_log()
    TRACKS.begin(0, None, None)
    with pytest.raises(LogTrimmed):
        TRACKS.apply(log.kept[1])


def test_alert_bases_packed_by_another_version_are_refused() -> None:
    for packed in (b"", b"x", pack.__doc__.encode() if pack.__doc__ else b""):
        with pytest.raises(ValueError, match="as this version packs it"):
            unpack(packed)
