"""A crash at every statement of every action, and in the middle of every commit.

Before each statement the database file and its write-ahead log are copied, as kill -9 would leave
them.  After the commit, copies of the log end at each of its new pages, and in the middle of each.
When a copy is opened, its rows, such as e-mails and audit rows, are exactly as before the action or
exactly as after it.
"""

import os
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import apsw
import pytest

from mintscope.accounts.keys.scope import Scope
from mintscope.accounts.signups.application import SignupId, parse_form
from mintscope.accounts.signups.reviews import Reviews
from mintscope.accounts.signups.signups import Signup
from mintscope.accounts.store import AccountConnections
from mintscope.kit.audit import COMMAND_LINE, UserId
from mintscope.kit.clock import ManualClock
from mintscope.kit.sql.database import AccessAtOnce
from mintscope.kit.sql.sqlite import SqliteDatabase
from support.fakes.mistaken_review import WritesEmailsAfterwards
from support.oracles.account_books import contradictions, dump, rows
from support.scenes.accounts_service import Accounts, open_accounts_service, signup_body
from support.scenes.service import NOW
from support.scenes.stores import PEPPER

FORM: Final = parse_form(signup_body())
KEY: Final = "the-key-of-the-agent-0"
FIRST: Final = SignupId(1)
WAL_HEADER_BYTES, FRAME_HEADER_BYTES, PAGE_BYTES = 32, 24, 4096
FRAME_BYTES: Final = FRAME_HEADER_BYTES + PAGE_BYTES

Step = Callable[[Accounts, Signup], Awaitable[Any]]


@dataclass
class Crashes:
    """Copies of a database file, each as a crash would have left the file."""

    folder: Path
    copies: list[Path] = field(default_factory=list)

    def take(self, path: Path, *, wal_bytes: int | None = None) -> None:
        """Copy the file with its write-ahead log, or only with the first *wal_bytes* of the log."""
        copy = self.folder / f"{len(self.copies)}.sqlite"
        shutil.copy(path, copy)
        wal = _wal(path).read_bytes() if _wal(path).exists() else b""
        _wal(copy).write_bytes(wal[:wal_bytes])
        self.copies.append(copy)


class WatchedFile(AccountConnections):
    """Connections that copy their file before each statement of the writer, until `stop`."""

    def __init__(self, path: Path) -> None:
        writing, reading = SqliteDatabase(path, "money"), SqliteDatabase(path, "money")
        super().__init__(writing, AccessAtOnce(reading))
        self._path = path
        self._connection = writing.connection
        self._connection.wal_autocheckpoint(0)

    def watch(self, crashes: Crashes) -> None:
        def copy_before(_cursor: apsw.Cursor, _statement: str, _values: object) -> bool:
            crashes.take(self._path)
            return True

        self._connection.exec_trace = copy_before

    def stop(self) -> None:
        self._connection.exec_trace = None


def _wal(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


async def confirm(accounts: Accounts, made: Signup) -> None:
    await accounts.signup.confirm_by_code(FORM.email, made.secret, accounts.code())


async def confirm_by_link(accounts: Accounts, _made: Signup) -> None:
    assert await accounts.signup.confirm_by_link(accounts.link())


async def disown(accounts: Accounts, _made: Signup) -> None:
    assert await accounts.signup.disown(accounts.link())


async def approve(accounts: Accounts, _made: Signup) -> None:
    scopes = frozenset({Scope.TRADE_WRITE})
    await accounts.review.approve(FIRST, scopes=scopes, note="known", actor=COMMAND_LINE)


async def reject(accounts: Accounts, _made: Signup) -> None:
    await accounts.review.reject(FIRST, note="unknown", actor=COMMAND_LINE)


async def exchange(accounts: Accounts, made: Signup) -> None:
    applicant = await accounts.exchange.recognise(FORM.email, made.secret)
    assert applicant is not None
    await accounts.exchange.exchange(applicant, made.secret, redelivery_key=KEY)


async def reset(accounts: Accounts, _made: Signup) -> None:
    await accounts.review.reset(FIRST, actor=COMMAND_LINE)


async def forget(accounts: Accounts, _made: Signup) -> None:
    await accounts.review.forget(FIRST, actor=COMMAND_LINE)


async def remove(accounts: Accounts, _made: Signup) -> None:
    await accounts.review.remove_user(UserId(1), actor=COMMAND_LINE)


async def promote(accounts: Accounts, _made: Signup) -> None:
    await accounts.review.make_administrator(FORM.email, password_hash="x", actor=COMMAND_LINE)


async def apply_again(accounts: Accounts, _made: Signup) -> None:
    again = parse_form(signup_body("another@example.org"))
    await accounts.signup.apply(again, redelivery_key=KEY)


VERBS: Final[dict[str, tuple[list[Step], Step]]] = {
    "apply": ([], apply_again),
    "confirm by code": ([], confirm),
    "confirm by link": ([], confirm_by_link),
    "disown": ([], disown),
    "approve": ([confirm], approve),
    "reject": ([confirm], reject),
    "exchange": ([confirm, approve], exchange),
    "exchange after a reset": ([confirm, approve, exchange, reset], exchange),
    "reset": ([confirm, approve, exchange], reset),
    "forget": ([confirm, approve, exchange], forget),
    "remove": ([confirm, approve, exchange], remove),
    "promote": ([], promote),
}


async def crashes_of(folder: Path, before: list[Step], verb: Step) -> tuple[Path, Path, Crashes]:
    """Return copies of the accounts' file: before *verb*, after it, and after each possible crash.

    before   the actions that come before *verb*
    """
    (folder / "live").mkdir()
    (folder / "copies").mkdir()
    crashes = Crashes(folder / "copies")
    clock = ManualClock(NOW)
    async with open_accounts_service(
        folder / "live", pepper=PEPPER, clock=clock, open_file=WatchedFile
    ) as accounts:
        assert isinstance(accounts.file, WatchedFile)
        made = await accounts.signup.apply(FORM, redelivery_key=KEY)
        for step in before:
            await step(accounts, made)
        crashes.take(accounts.path)
        logged = _wal(accounts.path).stat().st_size
        accounts.file.watch(crashes)
        await verb(accounts, made)
        accounts.file.stop()
        written = _wal(accounts.path).stat().st_size
        for end in range(logged, written, FRAME_BYTES // 2):
            crashes.take(accounts.path, wal_bytes=end)
        crashes.take(accounts.path)
    return crashes.copies[0], crashes.copies[-1], crashes


async def states_after(folder: Path, before: list[Step], verb: Step) -> tuple[int, int, list[str]]:
    """Return the counts of crashes that undo *verb* and that keep it, and the faults found."""
    path_before, path_after, crashes = await crashes_of(folder, before, verb)
    undone, done = dump(path_before), dump(path_after)
    assert undone != done
    undone_count = done_count = 0
    wrong = []
    for copy in crashes.copies:
        state = dump(copy)
        if state == undone:
            undone_count += 1
        elif state == done:
            done_count += 1
        else:
            wrong.append(f"crash {copy.stem}: neither before nor after")
        wrong += contradictions(copy)
    return undone_count, done_count, wrong


@pytest.mark.storm
@pytest.mark.parametrize("verb", VERBS)
async def test_a_crash_leaves_the_state_before_or_the_state_after(
    tmp_path: Path, verb: str
) -> None:
    undone_count, done_count, wrong = await states_after(tmp_path, *VERBS[verb])

    assert wrong == []
    assert undone_count >= 8  # of statements and pages
    assert done_count >= 1


async def test_the_crash_points_find_an_email_written_afterwards(tmp_path: Path) -> None:
    async def approve_in_two_steps(accounts: Accounts, made: Signup) -> None:
        store = WritesEmailsAfterwards(accounts.file)
        mistaken = Reviews(store, clock=ManualClock(NOW), entropy=os.urandom)
        await approve(replace(accounts, review=mistaken), made)

    _, _, wrong = await states_after(tmp_path, [confirm], approve_in_two_steps)

    assert any("neither before nor after" in each for each in wrong)


async def test_the_oracle_finds_a_state_that_was_not_logged(tmp_path: Path) -> None:
    async with open_accounts_service(tmp_path, pepper=PEPPER, clock=ManualClock(NOW)) as accounts:
        await accounts.signup.apply(FORM, redelivery_key=None)
        assert contradictions(accounts.path) == []
        accounts.change("UPDATE application SET state = 'approved', decided_at = 1")

        assert any("the log says" in each for each in contradictions(accounts.path))
        assert rows(accounts.path, "SELECT count(*) FROM letter") == [(1,)]
