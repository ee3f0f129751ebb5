"""Minutes of streams in a file: crashes at every statement, and minutes of dead processes."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import apsw
import pytest

from mintscope.app.stores.folder import MONEY_FILE
from mintscope.credits.ledger import Debit, Debited
from mintscope.credits.sqlite import (
    LEFT_AFTER_MS,
    LOOK_EVERY_MS,
    CreditBook,
    SqliteCreditLedger,
)
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import UnixMs
from support.scenes.service import NOW, credit_token
from support.scenes.stores import PEPPER

CREDITS: Final = 20
LATER: Final = UnixMs(NOW + LEFT_AFTER_MS + 1)


@dataclass
class Crashes:
    """Copies of a file and its log before each statement, as kill -9 would leave them."""

    path: Path
    folder: Path
    copies: list[Path] = field(default_factory=list)

    def watch(self, book: CreditBook) -> None:
        vars(book)["_db"].exec_trace = self._take

    def _take(self, _cursor: apsw.Cursor, _statement: str, _values: object) -> bool:
        folder = self.folder / f"{len(self.copies)}"
        folder.mkdir()
        for ending in ("", "-wal"):
            shutil.copy(f"{self.path}{ending}", f"{folder / MONEY_FILE}{ending}")
        self.copies.append(folder / MONEY_FILE)
        return True


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[], CreditBook]]:
    """Yield a function that opens the credit book like another process."""
    books: list[CreditBook] = []

    def open_one() -> CreditBook:
        books.append(CreditBook(tmp_path / MONEY_FILE, pepper=PEPPER))
        return books[-1]

    yield open_one
    for each in books:
        each.close()


def begun(book: CreditBook, debit: Debit, at: UnixMs = NOW) -> Debited:
    (outcome,) = book.prepay([debit], at)
    assert isinstance(outcome, Debited)
    return outcome


def test_unsent_minutes_are_given_back_once_after_a_crash_at_any_statement(
    opened: Callable[[], CreditBook], tmp_path: Path
) -> None:
    dying, other = opened(), opened()
    account = dying.issue(credit_token(0), CREDITS, note="", at=NOW)
    (tmp_path / "crashes").mkdir()
    crashes = Crashes(tmp_path / MONEY_FILE, tmp_path / "crashes")
    crashes.watch(dying)
    crashes.watch(other)

    sent = begun(dying, Debit(account, 1))
    returned, _ = begun(dying, Debit(account, 2)), begun(dying, Debit(account, 4))
    dying.give_back([returned.reversal()], NOW)
    dying.note_sent([sent.minute or 0])
    begun(dying, Debit(account, 8))
    dying.close()
    other.rest(NOW)

    assert other.balance(account) == CREDITS - 1
    left = []
    for path in crashes.copies:
        with closing(CreditBook(path, pepper=PEPPER)) as book:
            book.rest(NOW)
            left.append(book.balance(account))
            assert book.contradictions() == []
        with closing(CreditBook(path, pepper=PEPPER)) as book:
            book.rest(NOW)
            assert book.balance(account) == left[-1]
    assert sorted(set(left), reverse=True) == [CREDITS, CREDITS - 1]
    assert left == sorted(left, reverse=True)  # after it is noted as sent, it stays sent


async def test_a_ledger_gives_back_minutes_of_dead_processes_when_it_opens(
    opened: Callable[[], CreditBook], tmp_path: Path
) -> None:
    dying = opened()
    account = dying.issue(credit_token(0), CREDITS, note="", at=NOW)
    begun(dying, Debit(account, 1))
    dying.close()
    ledger = SqliteCreditLedger(tmp_path / MONEY_FILE, pepper=PEPPER, clock=ManualClock(NOW))
    assert await ledger.balance(account) == CREDITS
    await ledger.close()


def test_minutes_are_given_back_by_age_if_the_lock_file_is_unusable(
    opened: Callable[[], CreditBook], tmp_path: Path
) -> None:
    (tmp_path / "money.minutes.lock").mkdir()  # a folder cannot be opened as the lock file
    dying, other = opened(), opened()
    account = dying.issue(credit_token(0), CREDITS, note="", at=NOW)
    begun(dying, Debit(account, 1))
    dying.close()
    for at, left in ((NOW, CREDITS - 1), (LATER, CREDITS)):
        other.rest(at)
        assert other.balance(account) == left


def test_minutes_are_given_back_at_once_by_a_lone_process_else_by_age(
    opened: Callable[[], CreditBook],
) -> None:
    dying, living, other = opened(), opened(), opened()
    account = dying.issue(credit_token(0), CREDITS, note="", at=NOW)
    begun(dying, Debit(account, 1))
    begun(living, Debit(account, 2))
    other.rest(NOW)
    assert other.balance(account) == CREDITS - 3  # both processes live

    dying.close()
    other.rest(UnixMs(NOW + LOOK_EVERY_MS))
    assert other.balance(account) == CREDITS - 3  # it does not know which of them died
    living.rest(UnixMs(NOW + LOOK_EVERY_MS))
    assert other.balance(account) == CREDITS - 2  # no other process is left

    begun(other, Debit(account, 4), LATER)
    other.rest(LATER)
    assert other.balance(account) == CREDITS - 4  # older than any minute of a live process
