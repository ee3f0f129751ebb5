"""Shares of calls that were read, programs with missed calls, and sudden rises of missed calls."""

from hypothesis import given
from hypothesis import strategies as st

from mintscope.kit.primitives import Mint, UnixS
from mintscope.kit.time import HOUR_S
from mintscope.market.coverage import (
    Coverage,
    MintCoverage,
    MissedMints,
    ProgramHour,
    ReadShare,
    Shares,
    Tally,
    jumps,
    missed_programs,
    part,
    percent,
    report_coverages,
    totals,
    unlisted_programs,
)

HOUR = 500_000
COUNT = st.integers(0, 10**20)
A = Mint("a")
B = Mint("b")


def row(program: str, outcome: str, calls: int, volume: int = 0, *, back: int = 0) -> ProgramHour:
    return ProgramHour(HOUR - back, program, outcome, Tally(calls, calls, volume))


def coverage(*rows: ProgramHour) -> Coverage:
    since = UnixS((HOUR - 25) * HOUR_S)
    return Coverage(since, UnixS(HOUR * HOUR_S + 60), rows, 9, skipped_slots=3, missing_slots=2)


@given(read=COUNT, missed=COUNT)
def test_a_part_is_1_only_if_nothing_was_missed(read: int, missed: int) -> None:
    share = part(read, missed)
    if share is None:
        assert read == missed == 0
        return
    assert (share == 1) == (missed == 0)
    assert share * (read + missed) <= read * (1 + 1e-12)
    assert read <= (share + 0.0001) * (read + missed) * (1 + 1e-12)


def test_percents_are_rounded_down() -> None:
    assert [percent(share) for share in (1.0, 0.9999, 0.5, 0.0001, 0.0)] == [
        "100 %", "99.99 %", "50 %", "0.01 %", "0 %",
    ]  # fmt: skip


def test_calls_of_unlisted_programs_count_as_read() -> None:
    found = totals(
        [row("a", "read", 6, 60), row("b", "unlisted", 2, 30), row("a", "no_movement", 2, 10)]
    )
    assert found.all == Tally(10, 10, 100)
    assert found.shares == Shares(0.8, 0.9)
    assert totals([]).shares == Shares(None, None)


def test_missed_programs_are_ordered_by_volume_with_all_their_reasons() -> None:
    rows = [
        row("small", "overflow", 900, 1),
        row("large", "no_movement", 1, 7),
        row("large", "event_disagrees", 3, 0, back=1),
        row("large", "event_disagrees", 2, 0),
        row("large", "read", 4, 0),
        row("fine", "read", 9, 9),
        row("new", "unlisted", 1, 50),
        row("newer", "unlisted", 9, 5),
    ]
    found = missed_programs(rows)
    assert [(one.program, one.missed.calls) for one in found] == [("large", 6), ("small", 900)]
    assert list(found[0].reasons.items()) == [("event_disagrees", 5), ("no_movement", 1)]
    assert [one.calls for one in found] == [10, 900]
    assert unlisted_programs(rows) == [("new", Tally(1, 1, 50)), ("newer", Tally(9, 9, 5))]


def test_a_jump_is_a_large_and_rising_share_of_missed_calls() -> None:
    busy = [row("a", "read", 1_000, back=back) for back in range(26)]
    assert [one.program for one in jumps(coverage(*busy, row("a", "no_movement", 30)))] == ["a"]
    assert jumps(coverage(*busy, row("a", "no_movement", 20))) == []
    usual = [row("a", "no_movement", 4, back=back) for back in range(2, 26)]
    assert jumps(coverage(*busy, *usual, row("a", "no_movement", 32))) == []
    (jump,) = jumps(coverage(*busy, *usual, row("a", "no_movement", 33)))
    assert (jump.now.missed.calls, jump.before.missed.calls) == (33, 96)
    # Less than a hundredth of its calls.
    assert jumps(coverage(row("a", "read", 3_000), row("a", "no_movement", 30))) == []
    # A program whose calls are all missed, since the hour before.
    assert len(jumps(coverage(row("new", "no_movement", 21, back=1)))) == 1


def test_reports_have_the_share_of_their_token_and_the_overall_share() -> None:
    rows = [row("a", "read", 98, 990), row("a", "no_movement", 2, 10)]
    missed = MissedMints({A: MintCoverage(Tally(3, 3, 30), Tally(1, 1, 10))}, is_whole=True)
    made = report_coverages(coverage(*rows), missed)

    assert made.of(A).token == ReadShare(0.75, 0.75)
    assert made.of(B).token == ReadShare(1.0, 1.0)
    assert made.of(B) is made.of(Mint("c"))
    for mint in (A, B):
        said = made.of(mint)
        assert said.overall == ReadShare(0.98, 0.99)
        assert (said.missing_slots, said.skipped_slots) == (2, 3)
        assert said.to - said.from_ == 25 * HOUR_S + 60


def test_the_share_of_an_uncounted_mint_is_unknown_if_counts_are_partial() -> None:
    made = report_coverages(
        coverage(), MissedMints({A: MintCoverage(Tally(), Tally(1))}, is_whole=False)
    )
    assert made.of(B).token == ReadShare(None, None)
    assert made.of(A).token == ReadShare(0.0, None)
