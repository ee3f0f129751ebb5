"""The database goes away during requests: the credits taken equal the debits answered."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from typing_extensions import override

from mintscope.credits import postgres as credit_batches
from mintscope.credits.ledger import Debit, Debited, Reversal, Spent, TooFew
from mintscope.credits.postgres import (
    DEBIT,
    PREPAY,
    SPEND,
    PostgresCreditBook,
    PostgresCreditLedger,
)
from mintscope.credits.statements import ADD
from mintscope.kit.clock import ManualClock
from mintscope.kit.credentials import CredentialHash, make_credit_token
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import CreditAccount, UnixMs
from mintscope.kit.sql.database import AccessInThreads, DatabaseAway, DatabaseError, Rows
from mintscope.kit.sql.migrating import migrate
from mintscope.kit.sql.postgres import InDoubt, PostgresDatabase
from mintscope.kit.time import month_of
from mintscope.payments.ports import AlreadyUsed, Settled, Unresolved, Used
from mintscope.payments.store.payments import SqlPaymentStore
from mintscope.payments.store.purchases import PurchasedCredits
from support.processes.servers import PostgresServer
from support.scenes.payments.payment_world import AMOUNT, RESOURCE, buy, world_at
from support.scenes.postgres import dsn_in

PEPPER: Final = bytes(range(32))
NOW: Final = UnixMs(1_763_640_000_000)
ROUNDS: Final = 30 if os.environ.get("STORM") == "full" else 3  # noqa: TID251 - only how long
CLIENTS: Final = 16
SOMEONE_WAITS: Final = "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted)"


class Losing(PostgresDatabase):
    """Loses one answer to a batch of debits, or to a commit.

    lost          "asked": the batch does not arrive; "answered": it is done, and its answer is lost
    lost_commit   the same for the next commit, after which the database goes away
    is_away       whether the database answers nothing
    """

    lost = ""
    lost_commit = ""
    is_away = False
    asked: Any = None

    @override
    def execute(self, statement: str, values: Any = (), /) -> Rows:
        if self.is_away:
            raise DatabaseAway("away")
        if statement not in {SPEND, DEBIT, PREPAY} or not self.lost:
            return super().execute(statement, values)
        how, self.lost = self.lost, ""
        self.asked = values
        if how == "answered":
            super().execute(statement, values)
        raise DatabaseAway("the connection was lost")

    @override
    def _commit(self, xid: str) -> None:
        how, self.lost_commit = self.lost_commit, ""
        if how != "asked":
            super()._commit(xid)
        if how:
            self.close()
            self.is_away = True
            raise InDoubt("the outcome is unknown")


@pytest.fixture
def other(tmp_path: Path) -> Iterator[PostgresCreditBook]:
    """Yield a second credit book of the same database, like that of another process."""
    with closing(PostgresCreditBook(dsn_in(tmp_path), pepper=PEPPER)) as other:
        yield other


@pytest.fixture
def book(tmp_path: Path) -> Iterator[PostgresCreditBook]:
    with closing(PostgresCreditBook(dsn_in(tmp_path), pepper=PEPPER)) as book:
        vars(book)["_db"].close()
        vars(book)["_db"] = database = Losing(dsn_in(tmp_path))
        vars(book)["_transaction"] = database.transaction
        vars(book)["_snapshot"] = database.snapshot
        yield book


def losing(book: PostgresCreditBook) -> Losing:
    database: Losing = vars(book)["_db"]
    return database


def opened(book: PostgresCreditBook, credit_count: int = 10) -> CreditAccount:
    token = make_credit_token(bytes(28))
    return book.issue(token, credit_count, note="", at=NOW)


def test_debits_whose_answer_was_lost_are_looked_up(book: PostgresCreditBook) -> None:
    account = opened(book)
    losing(book).lost = "answered"
    assert book.spend([account] * 3, NOW) == [Spent(9), Spent(8), Spent(7)]
    assert book.balance(account) == 7


def test_debits_of_several_credits_whose_answer_was_lost_are_looked_up(
    book: PostgresCreditBook,
) -> None:
    account = opened(book)
    losing(book).lost = "answered"
    asked = [Debit(account, count) for count in (4, 7, 6)]
    month = month_of(NOW)
    assert book.debit(asked, NOW) == [
        Debited(asked[0], 6, month, NOW),
        TooFew(6),
        Debited(asked[2], 0, month, NOW),
    ]
    assert book.balance(account) == 0


def test_stream_minutes_whose_answer_was_lost_are_looked_up(book: PostgresCreditBook) -> None:
    account = opened(book)
    losing(book).lost = "answered"
    begun, few = book.prepay([Debit(account, 4), Debit(account, 7)], NOW)
    assert isinstance(begun, Debited)
    assert (begun.balance, few) == (6, TooFew(6))
    for _ in range(2):
        book.give_back([begun.reversal()], NOW)
        assert book.balance(account) == 10


def test_debits_that_did_not_arrive_take_nothing_even_later(book: PostgresCreditBook) -> None:
    account = opened(book)
    losing(book).lost = "asked"
    with pytest.raises(DatabaseAway, match="did not reach"):
        book.spend([account], NOW)
    with pytest.raises(DatabaseError):  # it arrives after all
        losing(book).execute(SPEND, losing(book).asked)
    assert book.balance(account) == 10
    assert book.spend([account], NOW) == [Spent(9)]


def spend_two(book: PostgresCreditBook, account: CreditAccount) -> None:
    book.spend([account] * 2, NOW)


def begin_two(book: PostgresCreditBook, account: CreditAccount) -> None:
    book.prepay([Debit(account, 1)] * 2, NOW)


@pytest.mark.parametrize("take", [spend_two, begin_two])
def test_debits_that_could_not_be_looked_up_are_given_back_later(
    book: PostgresCreditBook,
    monkeypatch: pytest.MonkeyPatch,
    take: Callable[[PostgresCreditBook, CreditAccount], None],
) -> None:
    account = opened(book)
    monkeypatch.setattr(credit_batches, "LOOK_UP_S", -1.0)  # no second look-up
    losing(book).lost = "answered"
    look_up = book.look_up  # the database goes away at the look-up

    def away(batch: int, at: UnixMs) -> str | None:
        losing(book).is_away = True
        return look_up(batch, at)

    monkeypatch.setattr(book, "look_up", away)
    with pytest.raises(DatabaseAway):
        take(book, account)
    monkeypatch.setattr(book, "look_up", look_up)
    losing(book).is_away = False
    assert book.balance(account) == 8
    book.rest(NOW)
    assert book.balance(account) == 10
    assert book.contradictions() == []
    assert losing(book).execute("SELECT count(*) FROM stream_minute").get == 0


@pytest.mark.parametrize("how", ["asked", "answered"])
async def test_reversals_whose_commit_is_in_doubt_are_given_back_once(
    tmp_path: Path, how: str
) -> None:
    ledger = PostgresCreditLedger(dsn_in(tmp_path), pepper=PEPPER, clock=ManualClock(NOW))
    account = await ledger.issue(make_credit_token(bytes(28)), 10, "")
    for left in (9, 8, 7):
        assert await ledger.spend(account) == Spent(left)
    database = Losing(dsn_in(tmp_path))
    database.lost_commit = how
    book = vars(vars(ledger)["_writing"])
    book["_db"].close()
    book |= {"_db": database, "_transaction": database.transaction}

    ledger.owe(Reversal(account, 2))
    for _ in range(2):
        with pytest.raises(ServiceUnavailable):
            await ledger.spend(account)
    ledger.owe(Reversal(account, 1))
    database.is_away = False

    assert await ledger.spend(account) == Spent(9)
    await ledger.close()
    with closing(PostgresCreditBook(dsn_in(tmp_path), pepper=PEPPER)) as other:
        assert other.balance(account) == 9
        assert other.contradictions() == []


@pytest.mark.parametrize("how", ["asked", "answered"])
async def test_a_payment_in_doubt_settles_once_with_the_key_of_the_first_answer(
    tmp_path: Path, how: str
) -> None:
    database = Losing(dsn_in(tmp_path))
    reading = AccessInThreads(partial(PostgresDatabase, dsn_in(tmp_path)), threads=1)
    store = SqlPaymentStore(database, reading)
    async with world_at(tmp_path) as world:
        facilitator = world.facilitator(store=store)
        payment = world.pay(facilitator.require(RESOURCE, AMOUNT))
        database.lost_commit = how
        doubted = await buy(facilitator, payment, key=None)
        assert isinstance(doubted, Unresolved)
        assert doubted.key is not None
        assert "sendTransaction" not in world.calls
        database.is_away = False

        settled = await buy(facilitator, payment, key=doubted.key)
        assert isinstance(settled, Settled)
        assert settled.token is not None
        stolen = await buy(facilitator, payment, key=None)
        assert stolen == AlreadyUsed(Used.PAYMENT)
        assert world.calls.count("sendTransaction") == 1
    await store.close()


def test_concurrent_debits_and_reversals_of_an_account_all_succeed(
    book: PostgresCreditBook, other: PostgresCreditBook
) -> None:
    account = opened(book, 1_000)

    def debit() -> None:
        for _ in range(150):
            book.spend([account], NOW)

    def credit() -> None:
        for _ in range(150):
            other.give_back([Reversal(account, 1)], NOW)

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(debit), threads.submit(credit)]:
            done.result()
    assert book.balance(account) == 1_000


def test_concurrent_batches_of_the_same_accounts_do_not_deadlock(
    book: PostgresCreditBook, other: PostgresCreditBook
) -> None:
    accounts = [
        book.issue(make_credit_token(bytes([n]) * 28), 1_000, note="", at=NOW) for n in range(8)
    ]

    def debit(by: PostgresCreditBook, order: list[CreditAccount]) -> None:
        for _ in range(60):
            assert all(isinstance(each, Spent) for each in by.spend(order, NOW))

    with ThreadPoolExecutor(2) as threads:
        for done in [
            threads.submit(debit, book, accounts),
            threads.submit(debit, other, accounts[::-1]),
        ]:
            done.result()
    assert [book.balance(each) for each in accounts] == [880] * 8


def test_reversals_for_rotated_tokens_and_debits_do_not_wait_for_each_other(
    book: PostgresCreditBook, tmp_path: Path
) -> None:
    """Debits lock accounts by their number, and the new token's account comes after another's."""
    old, between = (
        book.issue(make_credit_token(bytes([n]) * 28), 10, note="", at=NOW) for n in range(2)
    )
    with ThreadPoolExecutor(1) as threads, closing(PostgresDatabase(dsn_in(tmp_path))) as other:
        with other.transaction():
            moved = PurchasedCredits(other).rotate(old, CredentialHash(bytes(32)), "hint", NOW)
            successor = CreditAccount(int(other.execute("SELECT max(id) FROM credit_account").get))
        assert (moved, successor > between > old) == (10, True)
        with other.transaction(beside=True):
            other.execute(SPEND, ([between], NOW, 1, 1, []))
            reversals = [Reversal(old, 1), Reversal(between, 1)]
            giving = threads.submit(book.give_back, reversals, NOW)
            while not other.execute(SOMEONE_WAITS).get:
                pass
            other.execute(SPEND, ([successor], NOW, 2, 1, []))
        giving.result()
    assert [book.balance(each) for each in (old, between, successor)] == [0, 10, 10]


def test_an_account_can_be_referenced_while_a_batch_debits_it(
    book: PostgresCreditBook, tmp_path: Path
) -> None:
    account = opened(book)
    with closing(PostgresDatabase(dsn_in(tmp_path))) as other, other.transaction():
        other.execute(SPEND, ([account], NOW, 1, 1, []))
        refer = "SELECT id FROM credit_account WHERE id = ? FOR KEY SHARE NOWAIT"
        assert losing(book).execute(refer, (account,)).get == account


def top_up(db: PostgresDatabase, account: CreditAccount) -> None:
    db.execute(ADD, (account, "top_up", 5, NOW))


def rotate(db: PostgresDatabase, account: CreditAccount) -> None:
    assert PurchasedCredits(db).rotate(account, CredentialHash(bytes(32)), "hint", NOW) == 9


@pytest.mark.parametrize(("change", "left"), [(top_up, 14), (rotate, 0)])
def test_a_top_up_or_rotation_waits_for_a_debit_in_progress(
    book: PostgresCreditBook,
    tmp_path: Path,
    change: Callable[[PostgresDatabase, CreditAccount], None],
    left: int,
) -> None:
    account = opened(book)

    def change_beside() -> None:
        with closing(PostgresDatabase(dsn_in(tmp_path))) as db, db.transaction():
            change(db, account)

    with ThreadPoolExecutor(1) as threads:
        with closing(PostgresDatabase(dsn_in(tmp_path))) as other, other.transaction(beside=True):
            other.execute(SPEND, ([account], NOW, 1, 1, []))
            changing = threads.submit(change_beside)
            while not other.execute(SOMEONE_WAITS).get:
                pass
        changing.result()
    assert book.balance(account) == left


@pytest.mark.storm
async def test_abrupt_restarts_of_the_database_neither_lose_nor_add_credits() -> None:
    server = PostgresServer(durable=True)
    try:
        server.start()
        with closing(PostgresDatabase(server.dsn)) as database:
            migrate(database, "money")
        await _storm(server)
    finally:
        server.remove()


async def _storm(server: PostgresServer) -> None:
    clock = ManualClock(NOW)
    ledger = PostgresCreditLedger(server.dsn, pepper=PEPPER, clock=clock, patience_s=60.0)
    accounts = [
        await ledger.issue(make_credit_token(bytes([n]) * 28), 1_000_000, "") for n in range(4)
    ]
    answered: Counter[CreditAccount] = Counter()
    enough, ends = asyncio.Event(), asyncio.Event()

    async def client(number: int) -> None:
        account = accounts[number % len(accounts)]
        while not ends.is_set():
            try:
                outcome = await ledger.spend(account)
            except ServiceUnavailable:
                continue
            assert isinstance(outcome, Spent)
            answered[account] += 1
            if answered.total() % 400 == 0:
                enough.set()

    try:
        async with asyncio.TaskGroup() as clients:
            for number in range(CLIENTS):
                clients.create_task(client(number))
            for _ in range(ROUNDS):
                enough.clear()
                await enough.wait()
                await asyncio.to_thread(server.stop, signal.SIGQUIT)
                await asyncio.to_thread(server.start)
            ends.set()
        balances = {account: await ledger.balance(account) for account in accounts}
    finally:
        await ledger.close()
    assert {each: 1_000_000 - balance for each, balance in balances.items()} == dict(answered)
