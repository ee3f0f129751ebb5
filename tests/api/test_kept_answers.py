"""Answers that are kept to be given again: how many, and how old they are by then."""

from typing import Final

from mintscope.api.gate import ENTRY_BYTES, KEPT_BYTES_MAX, KeptAnswers
from mintscope.credits.ledger import KEPT_MS
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Slot, UnixMs
from mintscope.market.report import ReadReport

PART: Final = KEPT_BYTES_MAX // 8 - ENTRY_BYTES


def report(byte_count: int) -> ReadReport:
    return ReadReport(bytes(byte_count), Slot(7), 400)


def opened() -> tuple[KeptAnswers, ManualClock]:
    clock = ManualClock(UnixMs(1_700_000_000_000))
    return KeptAnswers(clock), clock


def test_the_oldest_give_way_to_the_newest() -> None:
    kept, _ = opened()
    for number in range(10):
        kept.keep(f"{number}", report(PART), 1, at=kept.now(), is_bought=True)

    found = [number for number in range(10) if kept.find(f"{number}") is not None]
    assert found == [*range(2, 10)]


def test_short_answers_take_more_than_their_bodies() -> None:
    kept, _ = opened()
    for number in range(KEPT_BYTES_MAX // ENTRY_BYTES):
        kept.keep(f"{number}", report(1), 1, at=kept.now(), is_bought=True)

    assert kept.find("0") is None
    assert kept.find(f"{KEPT_BYTES_MAX // ENTRY_BYTES - 1}") is not None


def test_what_is_kept_again_or_forgotten_takes_no_room() -> None:
    kept, _ = opened()
    kept.keep("first", report(PART), 1, at=kept.now(), is_bought=True)
    for _ in range(20):
        kept.keep("again", report(PART), 1, at=kept.now(), is_bought=True)
    for number in range(20):
        kept.keep(f"{number}", report(PART), 1, at=kept.now(), is_bought=True)
        kept.forget(f"{number}")

    assert kept.find("first") is not None
    assert kept.find("again") is not None
    assert kept.find("7") is None


def test_an_answer_is_as_old_as_it_is_by_then_and_is_gone_after_ten_minutes() -> None:
    kept, clock = opened()
    kept.keep("a name", report(1), 3, at=kept.now(), is_bought=True)
    clock.advance(KEPT_MS)

    found = kept.find("a name")
    assert found is not None
    assert (found.report.age_ms, found.credit_count) == (400 + KEPT_MS, 3)
    clock.advance(1)
    assert kept.find("a name") is None


def test_an_answer_that_was_read_again_is_not_one_that_was_bought() -> None:
    kept, _ = opened()
    kept.keep("a name", report(1), 1, at=kept.now(), is_bought=False)

    assert kept.find("a name") is not None
    assert kept.find("a name", is_bought=True) is None
