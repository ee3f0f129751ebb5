"""A replica that dies before it answers: another replica gives back exactly its debits."""

import asyncio
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from mintscope.credits.ledger import Debit, Debited, Empty, Reversal, Spent
from mintscope.credits.postgres import (
    BE_SEEN,
    DEAD_MS,
    GAP_MS,
    PostgresCreditBook,
    PostgresCreditLedger,
)
from mintscope.kit.clock import ManualClock
from mintscope.kit.credentials import make_credit_token
from mintscope.kit.primitives import CreditAccount, UnixMs
from mintscope.kit.sql.database import DatabaseAway, Rows
from mintscope.kit.sql.postgres import PostgresDatabase
from mintscope.kit.time import month_of
from support.scenes.postgres import dsn_in

PEPPER: Final = bytes(range(32))
NOW: Final = UnixMs(1_763_640_000_000)
AGES: Final = DEAD_MS + 1_000  # a replica that is not seen for so long is dead
BALANCE: Final = "SELECT balance FROM credit_account WHERE id = ?"
LEAVE: Final = "INSERT INTO credit_batch (id, at, writer, spent, debited) VALUES (?, ?, ?, ?, ?)"
UNKNOWN_KEY: Final = 999
BATCHES: Final = "SELECT spent FROM credit_batch WHERE spent IS NOT NULL"


class Replicas:
    """Two replicas at one database; a test can age the time at which each was last seen."""

    def __init__(self, dsn: str) -> None:
        self.clock = ManualClock(NOW)
        self.dying, self.living = (
            PostgresCreditBook(dsn, pepper=PEPPER, now_s=self.clock.monotonic_s) for _ in range(2)
        )
        for book in (self.dying, self.living):
            book.rest(NOW)
        self.account = self.opened()
        self._db = PostgresDatabase(dsn)

    def opened(self) -> CreditAccount:
        token = make_credit_token(os.urandom(28))
        return self.living.issue(token, 10, note="", at=NOW)

    def pass_ms(self, milliseconds: int, *heard: PostgresCreditBook) -> None:
        """Let time pass; the database has then heard only from the replicas *heard*."""
        writers = [vars(book)["_writer"] for book in heard]
        move = "UPDATE credit_writer SET since = since - ?1, seen_at = seen_at - ?1"
        self._db.execute(move, (milliseconds,))
        again = "UPDATE credit_writer SET seen_at = seen_at + ?1 WHERE id = ANY(?2::bigint[])"
        self._db.execute(again, (milliseconds, writers))
        self.clock.advance(milliseconds)

    def batch_count(self) -> int:
        """Return the number of batches whose debits are neither answered nor given back."""
        stored = "SELECT count(*) FROM credit_batch WHERE spent IS NOT NULL"
        return int(self._db.execute(stored).get)

    def leave_batch(self, taken: list[list[int]]) -> None:
        """Store the debits *taken* as a batch of the dying replica, without taking credits."""
        values = (0, NOW, vars(self.dying)["_writer"], "[]", json.dumps(taken))
        self._db.execute(LEAVE, values)

    def balance_after_a_death(self) -> int:
        """Return the account's balance after the credits of all stored batches are returned."""
        with self._db.snapshot():
            balance = int(self._db.execute(BALANCE, (self.account,)).get)
            stored = [json.loads(text) for (text,) in self._db.execute(BATCHES)]
        return balance - sum(int(delta) for batch in stored for _, delta, _ in batch)

    def close(self) -> None:
        for each in (self.dying, self.living):
            each.close()
        self._db.close()


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[Replicas]:
    replicas = Replicas(dsn_in(tmp_path))
    yield replicas
    replicas.close()


def test_unanswered_debits_of_a_dead_replica_are_given_back_once(replicas: Replicas) -> None:
    other = replicas.opened()
    replicas.dying.spend([replicas.account, other, replicas.account], NOW)
    replicas.pass_ms(AGES, replicas.living)
    replicas.living.rest(NOW)
    assert replicas.living.balance(replicas.account) == replicas.living.balance(other) == 10
    replicas.pass_ms(AGES, replicas.living)
    replicas.living.rest(NOW)
    assert replicas.living.balance(replicas.account) == 10
    assert replicas.living.contradictions() == []
    kinds = {line.kind: line.delta for line in replicas.living.summary(replicas.account)}
    assert kinds == {"grant": 10, "spend": -2, "reversal": 2}


def test_unanswered_debits_of_several_credits_are_given_back_completely(replicas: Replicas) -> None:
    replicas.dying.debit([Debit(replicas.account, 4), Debit(replicas.account, 7)], NOW)
    assert replicas.living.balance(replicas.account) == 6
    for _ in range(2):
        replicas.pass_ms(AGES, replicas.living)
        replicas.living.rest(NOW)
        assert replicas.living.balance(replicas.account) == 10
    kinds = {line.kind: line.delta for line in replicas.living.summary(replicas.account)}
    assert kinds == {"grant": 10, "spend": -4, "reversal": 4}


def test_a_busy_replica_gives_back_debits_of_dead_replicas_too(replicas: Replicas) -> None:
    other = replicas.opened()
    replicas.dying.spend([replicas.account], NOW)
    replicas.pass_ms(AGES, replicas.living)
    assert replicas.living.spend([other], NOW) == [Spent(9)]  # without a call of `rest`
    assert replicas.living.balance(replicas.account) == 10


def test_answered_debits_are_not_given_back(replicas: Replicas) -> None:
    replicas.dying.spend([replicas.account], NOW)
    replicas.dying.note_answered(1)
    replicas.dying.spend([replicas.account], NOW)
    assert replicas.batch_count() == 1
    replicas.dying.note_answered(2)
    replicas.dying.rest(NOW)
    assert replicas.batch_count() == 0
    replicas.pass_ms(AGES, replicas.living)
    replicas.living.rest(NOW)
    assert replicas.living.balance(replicas.account) == 8


def test_a_reversal_that_a_replica_stored_before_it_died_counts_once(replicas: Replicas) -> None:
    replicas.dying.spend([replicas.account] * 3, NOW)
    replicas.dying.note_answered(1)
    replicas.dying.give_back([Reversal(replicas.account, 1)], NOW)
    replicas.pass_ms(AGES, replicas.living)
    replicas.living.rest(NOW)
    assert replicas.living.balance(replicas.account) == 8


def test_a_refused_reversal_does_not_prevent_other_reversals(replicas: Replicas) -> None:
    other = replicas.opened()
    replicas.leave_batch([[replicas.account, -4, 6, UNKNOWN_KEY, month_of(NOW)], [other, -1, 9]])
    replicas.dying.spend([replicas.account], NOW)
    with capture_logs() as lines:
        for _ in range(2):
            replicas.pass_ms(AGES, replicas.living)
            replicas.living.rest(NOW)
    refused = [each for each in lines if each["event"] == "reversal_refused"]
    assert [(each["account"], each["credits"]) for each in refused] == [(replicas.account, 4)]
    assert (replicas.living.balance(replicas.account), replicas.living.balance(other)) == (10, 11)
    assert replicas.batch_count() == 0


def test_debits_of_a_live_replica_are_not_given_back(replicas: Replicas) -> None:
    replicas.dying.spend([replicas.account], NOW)
    replicas.pass_ms(AGES, replicas.living, replicas.dying)
    replicas.pass_ms(DEAD_MS - 5_000, replicas.living)
    replicas.living.rest(NOW)
    assert replicas.living.balance(replicas.account) == 9


def test_no_replica_counts_as_dead_just_after_an_outage_of_the_database(replicas: Replicas) -> None:
    replicas.dying.spend([replicas.account], NOW)
    replicas.pass_ms(AGES)  # neither replica was seen
    replicas.living.rest(NOW)
    assert replicas.living.balance(replicas.account) == 9
    replicas.pass_ms(GAP_MS - 5_000)
    replicas.living.rest(NOW)
    assert replicas.living.balance(replicas.account) == 9
    replicas.pass_ms(AGES, replicas.living)
    replicas.living.rest(NOW)
    assert replicas.living.balance(replicas.account) == 10


def nothing(_replicas: Replicas) -> None:
    """Do nothing, so that the reversal is the first action of the replica."""


def rest(replicas: Replicas) -> None:
    replicas.dying.rest(NOW)


def spend(replicas: Replicas) -> None:
    replicas.dying.spend([replicas.opened()], NOW)
    replicas.dying.note_answered(2)


@pytest.mark.parametrize("return_first", [nothing, rest, spend])
@pytest.mark.parametrize("counts", [(1, 1, 1), (3,)])
def test_a_frozen_replica_does_not_give_back_credits_given_back_by_another(
    replicas: Replicas, counts: tuple[int, ...], return_first: Callable[[Replicas], None]
) -> None:
    """The replica freezes after its client has left, before it can store the reversal."""
    account = replicas.account
    if counts == (3,):
        replicas.dying.debit([Debit(account, 3)], NOW)
    else:
        replicas.dying.spend([account] * 3, NOW)
    replicas.dying.note_answered(1)
    replicas.pass_ms(AGES, replicas.living)
    replicas.living.rest(NOW)
    assert replicas.living.balance(account) == 10
    return_first(replicas)
    for count in counts:
        replicas.dying.give_back([Reversal(account, count)], NOW)
    assert replicas.living.balance(account) == 10

    replicas.dying.spend([account] * 2, NOW)
    replicas.dying.give_back([Reversal(account, 1)], NOW)
    assert replicas.living.balance(account) == 9
    assert replicas.living.contradictions() == []


class Stumbling(PostgresDatabase):
    """A database that cannot be reached when it is asked for the statement *refused*."""

    refused = BE_SEEN

    @override
    def execute(self, statement: str, values: Any = (), /) -> Rows:
        if statement == self.refused:
            raise DatabaseAway("away")
        return super().execute(statement, values)


def test_a_new_replica_takes_no_minute_before_others_see_it(replicas: Replicas, dsn: str) -> None:
    """Otherwise the others would count the new replica as dead, and give back its minutes."""
    replicas.pass_ms(AGES, replicas.living)
    with closing(PostgresCreditBook(dsn, pepper=PEPPER)) as new:
        vars(new)["_db"].close()
        vars(new)["_db"] = database = Stumbling(dsn)
        with pytest.raises(DatabaseAway):
            new.prepay([Debit(replicas.account, 4)], NOW)
        database.refused = ""
        (begun,) = new.prepay([Debit(replicas.account, 4)], NOW)
        assert isinstance(begun, Debited)
        replicas.living.rest(NOW)
        assert replicas.living.balance(replicas.account) == 6


def test_two_replicas_that_give_back_concurrently_give_back_once(
    replicas: Replicas, tmp_path: Path
) -> None:
    third = Replicas(dsn_in(tmp_path))
    for _ in range(5):
        replicas.dying.spend([replicas.account], NOW)
    replicas.pass_ms(AGES, replicas.living, third.living)
    third.clock.advance(AGES)
    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(one.rest, NOW) for one in (replicas.living, third.living)]:
            done.result()
    assert replicas.living.balance(replicas.account) == 10
    third.close()


async def test_a_ledger_leaves_no_batch_of_answered_debits(replicas: Replicas) -> None:
    dsn = vars(vars(replicas.living)["_db"])["_dsn"]
    ledger = PostgresCreditLedger(dsn, pepper=PEPPER, clock=ManualClock(NOW))
    for left in (9, 8):
        assert await ledger.spend(replicas.account) == Spent(left)
    assert replicas.batch_count() <= 1  # the second debit noted that the first is answered
    await ledger.close()
    assert replicas.batch_count() == 0


async def test_a_debit_whose_client_disconnected_is_given_back_exactly_once(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds even if the process dies, at any moment."""
    dsn = vars(vars(replicas.living)["_db"])["_dsn"]
    ledger = PostgresCreditLedger(dsn, pepper=PEPPER, clock=ManualClock(NOW))
    writing: PostgresCreditBook = vars(ledger)["_writing"]
    database: PostgresDatabase = vars(writing)["_db"]
    spend, execute = writing.spend, database.execute
    left: list[int] = []

    def spend_and_lose(accounts: Sequence[CreditAccount], at: UnixMs) -> list[Spent | Empty]:
        outcomes = spend(accounts, at)
        loop.call_soon_threadsafe(asking.cancel)
        return outcomes

    def execute_and_look(statement: str, values: Any = ()) -> Rows:
        left.append(replicas.balance_after_a_death())
        return execute(statement, values)

    monkeypatch.setattr(writing, "spend", spend_and_lose)
    monkeypatch.setattr(database, "execute", execute_and_look)
    loop = asyncio.get_running_loop()
    asking = loop.create_task(ledger.spend(replicas.account))
    await asyncio.wait([asking])
    assert asking.cancelled()
    await ledger.close()
    assert set(left) == {10}
    assert replicas.batch_count() == 0
    assert replicas.living.balance(replicas.account) == 10
