"""Answers that are cached for redelivery: the memory that they take, and their age."""

from typing import Final

from mintscope.api.gate import ENTRY_BYTES, KEPT_BYTES_MAX, KeptAnswers
from mintscope.credits.ledger import KEPT_MS
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Slot, UnixMs
from mintscope.market.report import ReadReport

PART: Final = KEPT_BYTES_MAX // 8 - ENTRY_BYTES  # eight answers of this size fill the cache


def report(byte_count: int) -> ReadReport:
    return ReadReport(bytes(byte_count), Slot(7), 400)


def opened() -> tuple[KeptAnswers, ManualClock]:
    clock = ManualClock(UnixMs(1_700_000_000_000))
    return KeptAnswers(clock), clock


def test_the_oldest_answers_are_dropped_for_the_newest() -> None:
    kept, _ = opened()
    for number in range(10):
        kept.keep(f"{number}", report(PART), 1, at=kept.now(), is_bought=True)

    found = [number for number in range(10) if kept.find(f"{number}") is not None]
    assert found == [*range(2, 10)]


def test_a_kept_answer_takes_more_room_than_its_body() -> None:
    kept, _ = opened()
    for number in range(KEPT_BYTES_MAX // ENTRY_BYTES):
        kept.keep(f"{number}", report(1), 1, at=kept.now(), is_bought=True)

    assert kept.find("0") is None
    assert kept.find(f"{KEPT_BYTES_MAX // ENTRY_BYTES - 1}") is not None


def test_replaced_and_forgotten_answers_take_no_room() -> None:
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


def test_the_age_of_a_kept_answer_grows_until_it_is_gone_after_ten_minutes() -> None:
    kept, clock = opened()
    kept.keep("a name", report(1), 3, at=kept.now(), is_bought=True)
    clock.advance(KEPT_MS)

    found = kept.find("a name")
    assert found is not None
    assert (found.report.age_ms, found.credit_count) == (400 + KEPT_MS, 3)
    clock.advance(1)
    assert kept.find("a name") is None


def test_an_answer_that_was_not_bought_is_not_found_among_bought_answers() -> None:
    kept, _ = opened()
    kept.keep("a name", report(1), 1, at=kept.now(), is_bought=False)

    assert kept.find("a name") is not None
    assert kept.find("a name", is_bought=True) is None
