"""Past months are closed and compared, and their spends are deleted, on every engine.

The oracle adds up the entries in Python; it shares nothing with the SQL statements of the audit.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Final

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from mintscope.accounts.wallets.store import SqlCreditRows
from mintscope.credits.invariants import Invariant, Violation
from mintscope.credits.statements import ADD, contradictions, summary_of
from mintscope.kit.primitives import CreditAccount, UnixMs
from mintscope.kit.sql.database import Database, DatabaseError
from mintscope.kit.sql.postgres import PostgresDatabase
from mintscope.kit.sql.sqlite import SqliteDatabase
from mintscope.kit.time import DAY_MS, Month, month_end, month_of
from mintscope.payments.store.audit import SETTLED_MS, Walk
from support.scenes.postgres import dsn_in

pytestmark = pytest.mark.storm  # months of entries on each engine

Connect = Callable[[], Database]

FIRST: Final = Month(12 * 2023 + 3)
BEGIN: Final = month_end(Month(FIRST - 1))
A_PART: Final = 3  # rows: so few that a walk has many parts
ACCOUNTS: Final = 6
STEPS_MAX: Final = 2_000
KEY: Final = 1
MONTHS_KEPT: Final = 13
SPEND_BY_KEY: Final = """
INSERT INTO credit_entry (account, kind, delta, balance, at, api_key, month)
SELECT id, 'spend', -1, balance - 1, ?, ?, ? FROM credit_account WHERE id = ?
"""
ROWS: Final = """
SELECT account, received, spent, spend_count, first_entry, last_entry, balance
  FROM closed_balance WHERE month = ? ORDER BY account
"""
UNGUARD: Final = {
    "sqlite": "DROP TRIGGER {trigger}",
    "postgresql": "DROP TRIGGER {trigger} ON {table}",
}


def sqlite(folder: Path) -> Connect:
    return lambda: SqliteDatabase(folder / "money.sqlite", "money")


def postgresql(folder: Path) -> Connect:
    dsn = dsn_in(folder)
    return lambda: PostgresDatabase(dsn)


ENGINES: Final = {"sqlite": sqlite, "postgresql": postgresql}


@dataclass
class Books:
    """A journal of credits in a database, and a list of the entries that were added to it."""

    engine: str
    connect: Connect
    db: Database
    entered: list[tuple[int, str, int, int]] = field(
        default_factory=list
    )  # account, kind, delta, at

    def add(self, account: int, delta: int, at: int, kind: str | None = None) -> None:
        kind = kind or ("grant" if delta > 0 else "spend")
        with self.db.transaction():
            self.db.execute(ADD, (account, kind, delta, at))
        self.entered.append((account, kind, delta, at))

    def spend_by_key(self, account: int, at: int) -> None:
        with self.db.transaction():
            self.db.execute(SPEND_BY_KEY, (at, KEY, month_of(UnixMs(at)), account))
        self.entered.append((account, "spend", -1, at))

    def balance(self, account: int) -> int:
        return sum(delta for each, _, delta, _ in self.entered if each == account)

    def trade(self, random: Random, count: int, month: int) -> None:
        """Add *count* entries of random accounts within *month*."""
        begin = month_end(Month(month - 1))
        span = month_end(Month(month)) - begin
        for place in range(count):
            account = random.randint(1, ACCOUNTS)
            at = begin + span * place // count
            left = self.balance(account)
            if left and random.random() < 0.3:
                self.spend_by_key(account, at)
            elif left and random.random() < 0.6:
                self.add(account, -random.randint(1, left), at)
            else:
                self.add(account, 9, at)

    def walk(self, now: int, *, between: Callable[[], None] = lambda: None) -> Sequence[Violation]:
        """Return the violations that an audit at *now* finds; each part has a new connection.

        between   called between two parts
        """
        found = list[Violation]()
        is_begun = False
        for _ in range(STEPS_MAX):
            with closing(self.connect()) as database:
                part = Walk(database, rows_a_part=A_PART).step(UnixMs(now), begins=not is_begun)
            is_begun = True
            found += part.violations
            if part.is_finished:
                return found
            between()
        raise AssertionError("expected the walk to end")

    def walk_here(self, now: int) -> Sequence[Violation]:
        """Return the violations that an audit at *now* finds over one connection, to be fast."""
        walk = Walk(self.db, rows_a_part=A_PART)
        found = list[Violation]()
        part = walk.step(UnixMs(now), begins=True)
        while not part.is_finished:
            found += part.violations
            part = walk.step(UnixMs(now), begins=False)
        return [*found, *part.violations]

    def forget(self, now: int, months: int = 1) -> None:
        walk = Walk(self.db, rows_a_part=A_PART)
        while walk.months.forget(UnixMs(now), months):
            pass

    def fold(self) -> None:
        with self.db.transaction():
            while SqlCreditRows(self.db).fold_days(UnixMs(2**52), 4):
                pass

    def closed(self) -> list[int]:
        return [row[0] for row in self.db.execute("SELECT month FROM closed_month ORDER BY month")]

    def count(self, which: str) -> int:
        return int(self.db.execute(f"SELECT count(*) FROM {which}").get)

    def unguard(self, *triggers: tuple[str, str]) -> None:
        for trigger, table in triggers:
            self.db.execute(UNGUARD[self.engine].format(trigger=trigger, table=table))


@pytest.fixture(params=ENGINES)
def books(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Books]:
    with opened(request.param, tmp_path) as books:
        yield books


@contextmanager
def opened(engine: str, folder: Path) -> Iterator[Books]:
    """Yield the books of a new store, with some accounts and an API key."""
    connect = ENGINES[engine](folder)
    with closing(connect()) as db:
        for number in range(1, ACCOUNTS + 1):
            db.execute(
                "INSERT INTO credit_account (token_hash, hint, note, issued_at)"
                " VALUES (?, '', '', 0)",
                (bytes([number] * 32),),
            )
        user = db.execute(
            """INSERT INTO "user" (kind, username, email, created_at)"""
            " VALUES ('agent', 'a', 'a@example.org', 0) RETURNING id"
        ).get
        db.execute(
            """INSERT INTO api_key (id, "user", key_hash, hint, name, scopes, created_at)"""
            " VALUES (?, ?, ?, '', '', '[]', 0)",
            (KEY, user, bytes(32)),
        )
        yield Books(engine, connect, db)


def expected_rows(books: Books, month: int) -> list[tuple[int, ...]]:
    """Return the expected row of closed month *month* for each account with entries in it."""
    rows: dict[int, list[tuple[int, str, int]]] = defaultdict(list)
    for number, (account, kind, delta, at) in enumerate(books.entered, 1):
        if month_of(UnixMs(at)) == month:
            rows[account].append((number, kind, delta))
    until = month_end(Month(month))
    return [
        (
            account,
            sum(delta for _, kind, delta in rows[account] if kind != "spend"),
            -sum(delta for _, kind, delta in rows[account] if kind == "spend"),
            sum(kind == "spend" for _, kind, _ in rows[account]),
            rows[account][0][0],
            rows[account][-1][0],
            sum(d for each, _, d, at in books.entered if each == account and at < until),
        )
        for account in sorted(rows)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_a_past_month_is_closed_with_the_sums_of_its_entries(books: Books, seed: int) -> None:
    random = Random(seed)
    months = [FIRST, FIRST + 1, FIRST + 3]  # one month between has no entries
    for month in months:
        books.trade(random, 12, month)
    now = month_end(Month(FIRST + 3)) - 1

    assert books.walk(now) == []
    assert books.closed() == months[:2]
    for month in months[:2]:
        assert [tuple(row) for row in books.db.execute(ROWS, (month,))] == expected_rows(
            books, month
        )
    assert books.walk(now + SETTLED_MS + 1) == []
    assert books.closed() == months
    books.trade(random, 9, FIRST + 4)
    assert books.walk(month_end(Month(FIRST + 4))) == []
    assert contradictions(books.db) == []


def test_a_month_is_closed_once_its_last_entry_is_settled(books: Books) -> None:
    books.add(1, 5, BEGIN)
    end = month_end(FIRST)

    assert books.walk_here(end) == []
    assert books.closed() == []
    assert books.walk_here(end + SETTLED_MS) == []
    assert books.closed() == [FIRST]


def test_the_hash_of_a_month_covers_its_rows_and_the_hash_before(books: Books) -> None:
    random = Random(5)
    books.trade(random, 8, FIRST)
    books.trade(random, 8, FIRST + 1)
    books.walk_here(month_end(Month(FIRST + 2)))

    before = bytes(32)
    for month in (FIRST, FIRST + 1):
        for row in books.db.execute(ROWS, (month,)):
            text = "balance:" + ",".join(str(each) for each in row)
            before = sha256(before + text.encode()).digest()
        for row in books.db.execute(
            "SELECT api_key, month, credits FROM closed_key WHERE closed_in = ?"
            " ORDER BY api_key, month",
            (month,),
        ):
            text = "key:" + ",".join(str(each) for each in row)
            before = sha256(before + text.encode()).digest()
        closed = books.db.execute(
            "SELECT month, last_entry, rotated, frozen, hash FROM closed_month WHERE month = ?",
            (month,),
        ).get
        text = "month:" + ",".join(str(each) for each in closed[:4])
        before = sha256(before + text.encode()).digest()
        assert bytes(closed[4]) == before


SPOILT: Final = {
    "spent, and the balance": "UPDATE closed_balance SET spent = spent + 1, balance = balance - 1"
    " WHERE month = {month} AND account = {account}",
    "received": "UPDATE closed_balance SET received = received + 1"
    " WHERE month = {month} AND account = {account}",
    "a number": "UPDATE closed_balance SET spend_count = spend_count + 1"
    " WHERE month = {month} AND account = {account}",
    "a hash": "UPDATE closed_month SET hash = {hash} WHERE month = {month}",
    "the end": "UPDATE closed_month SET rotated = rotated + 1 WHERE month = {month}",
    "a key": "UPDATE closed_key SET credits = credits + 1 WHERE closed_in = {month}",
    "a row": "DELETE FROM closed_balance WHERE month = {month} AND account = {account}",
    "a kept entry": "UPDATE credit_entry SET delta = delta + 1 WHERE id = 1",
}
GUARDS: Final = (
    ("closed_month_is_never_changed", "closed_month"),
    ("closed_balance_is_never_changed", "closed_balance"),
    ("closed_balance_is_never_deleted", "closed_balance"),
    ("closed_key_is_never_changed", "closed_key"),
    ("credit_entry_is_never_changed", "credit_entry"),
)


@pytest.mark.parametrize("what", SPOILT)
def test_any_change_of_a_closed_month_is_found(books: Books, what: str) -> None:
    books.add(1, 50, BEGIN)
    books.spend_by_key(1, BEGIN + 1)
    books.trade(Random(3), 9, FIRST + 1)
    now = month_end(Month(FIRST + 2))
    assert books.walk_here(now) == []
    assert books.closed() == [FIRST, FIRST + 1]
    books.unguard(*GUARDS)
    zeros = "zeroblob(32)" if books.engine == "sqlite" else "decode(repeat('00', 32), 'hex')"
    books.db.execute(SPOILT[what].format(month=int(FIRST), account=1, hash=zeros))

    found = books.walk_here(now + DAY_MS)
    assert found
    assert {each.invariant for each in found} <= {
        *(Invariant.BALANCE_IS_SUM, Invariant.MONTHS_ARE_CHAINED, Invariant.KEYS_ADD_UP)
    }


def test_each_walk_finds_a_purchase_without_a_payment_in_a_closed_month(
    books: Books,
) -> None:
    books.add(1, 50, BEGIN, kind="payment")
    books.add(1, -1, month_end(FIRST))
    now = month_end(FIRST) + SETTLED_MS + 1
    expected = [Violation(Invariant.ENTRY_IS_PAID, "1")]

    books.walk_here(now)
    assert books.closed() == [FIRST]
    assert books.walk_here(now + DAY_MS) == expected
    assert books.walk_here(now + 2 * DAY_MS) == expected


def test_an_interrupted_close_is_repeated(books: Books) -> None:
    books.trade(Random(4), 12, FIRST)
    now = month_end(Month(FIRST + 1))
    with closing(books.connect()) as database:
        walk = Walk(database, rows_a_part=A_PART)
        while not books.count("closed_balance"):
            walk.step(UnixMs(now), begins=False)
    books.db.execute("UPDATE audit_walk SET stage = 'finished'")

    assert books.walk(now) == []
    assert books.closed() == [FIRST]
    assert [tuple(row) for row in books.db.execute(ROWS, (FIRST,))] == expected_rows(books, FIRST)
    assert books.walk(now + DAY_MS) == []


def test_a_month_is_closed_with_correct_sums_after_an_upgrade_during_a_walk(books: Books) -> None:
    """The older version stored no sums of the month, so the upgraded audit begins again."""
    books.trade(Random(6), 12, FIRST)
    now = month_end(Month(FIRST + 1))
    with closing(books.connect()) as database:
        walk = Walk(database, rows_a_part=A_PART)
        walk.step(UnixMs(now), begins=True)
        database.execute("UPDATE audit_balance SET received = 0, spent = 0, spend_count = 0")
        database.execute("UPDATE audit_walk SET summed = 0")

    assert books.walk_here(now) == []
    assert [tuple(row) for row in books.db.execute(ROWS, (FIRST,))] == expected_rows(books, FIRST)


def test_a_month_is_not_closed_while_its_sums_contradict_its_balances(books: Books) -> None:
    books.trade(Random(7), 12, FIRST)
    now = month_end(Month(FIRST + 1))
    with closing(books.connect()) as database:
        walk = Walk(database, rows_a_part=A_PART)
        walk.step(UnixMs(now), begins=True)
        database.execute("UPDATE audit_balance SET received = received + 1")

    assert {each.invariant for each in books.walk_here(now)} == {Invariant.BALANCE_IS_SUM}
    assert books.closed() == []
    assert books.walk_here(now + DAY_MS) == []
    assert books.closed() == [FIRST]


def test_spends_of_closed_months_are_deleted_and_all_sums_stay_the_same(books: Books) -> None:
    random = Random(8)
    for month in (FIRST, FIRST + 1, FIRST + 2):
        books.trade(random, 15, month)
    now = month_end(Month(FIRST + 2))
    assert books.walk_here(now) == []
    books.fold()
    accounts = range(1, ACCOUNTS + 1)
    kinds = [
        [(line.kind, line.delta) for line in summary_of(books.db, CreditAccount(each))]
        for each in accounts
    ]
    count = books.count("credit_entry")
    kept = books.count("credit_entry WHERE kind <> 'spend'")
    later = now + 40 * DAY_MS  # the month after FIRST + 3

    books.forget(later, months=MONTHS_KEPT)
    assert books.count("credit_entry") == count
    books.forget(later, months=3)
    old = sum(kind == "spend" for _, kind, _, at in books.entered if at < month_end(FIRST))
    assert old
    assert books.count("credit_entry") == count - old
    books.forget(later, months=1)
    assert books.count("credit_entry WHERE kind <> 'spend'") == kept
    assert books.count("credit_entry") < count - old

    assert [
        [(line.kind, line.delta) for line in summary_of(books.db, CreditAccount(each))]
        for each in accounts
    ] == kinds
    assert books.walk_here(later) == []
    assert contradictions(books.db) == []
    books.trade(random, 9, FIRST + 4)
    assert books.walk_here(month_end(Month(FIRST + 4))) == []


def test_spends_stay_a_week_after_the_close_and_until_they_are_added_up_by_day(
    books: Books,
) -> None:
    books.add(1, 9, BEGIN)
    books.add(1, -1, BEGIN)
    books.add(1, 9, month_end(FIRST))
    now = month_end(Month(FIRST + 5))
    books.walk_here(now)

    books.forget(now + 7 * DAY_MS + 1)
    assert books.count("credit_entry") == 3
    books.fold()
    books.forget(now + 7 * DAY_MS)
    assert books.count("credit_entry") == 3
    books.forget(now + 7 * DAY_MS + 1)
    assert books.count("credit_entry") == 2


def test_the_number_of_a_deleted_entry_is_never_used_again(books: Books) -> None:
    books.add(1, 9, BEGIN)
    books.add(1, -1, BEGIN)
    books.fold()
    now = month_end(Month(FIRST + 5))
    books.walk_here(now)
    books.forget(now + 30 * DAY_MS)

    books.add(1, -1, now)
    assert int(books.db.execute("SELECT max(id) FROM credit_entry").get) == 3
    assert books.walk_here(now + 30 * DAY_MS) == []


@pytest.mark.parametrize(
    ("entry", "why"), [(1, "a grant"), (4, "of the open month"), (5, "the newest")]
)
def test_only_spends_of_closed_months_can_be_deleted(books: Books, entry: int, why: str) -> None:
    books.add(1, 9, BEGIN)
    books.add(1, -1, BEGIN)
    books.add(1, -1, BEGIN)
    books.add(1, -1, month_end(FIRST))
    books.add(1, -1, month_end(FIRST))
    books.walk_here(month_end(FIRST) + SETTLED_MS)
    assert books.closed() == [FIRST]

    with pytest.raises(DatabaseError, match="append-only"):
        books.db.execute("DELETE FROM credit_entry WHERE id = ?", (entry,))
    books.db.execute("DELETE FROM credit_entry WHERE id = 2")
    assert books.count("credit_entry") == 4, why


@pytest.mark.parametrize("table", ["closed_month", "closed_balance", "closed_key"])
def test_a_closed_month_can_neither_be_changed_nor_deleted(books: Books, table: str) -> None:
    books.add(1, 9, BEGIN)
    books.spend_by_key(1, BEGIN)
    books.walk_here(month_end(Month(FIRST + 1)))

    assert books.count(table) == 1
    with pytest.raises(DatabaseError, match="never changed"):
        books.db.execute(f"DELETE FROM {table}")
    with pytest.raises(DatabaseError, match="never changed"):
        books.db.execute(f"UPDATE {table} SET month = month + 1")


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=4, deadline=None, derandomize=True)
@given(random=st.randoms(use_true_random=True), days_max=st.integers(0, 12))
def test_the_books_agree_after_any_entries_in_any_months(
    tmp_path_factory: pytest.TempPathFactory, engine: str, random: Random, days_max: int
) -> None:
    """Between entries, the audit runs, entries are added up by day, and old spends are deleted."""
    with opened(engine, tmp_path_factory.mktemp("months")) as books:
        at = int(BEGIN)
        for _ in range(40):
            at += random.randint(0, days_max) * DAY_MS
            account = random.randint(1, ACCOUNTS)
            delta = random.choice([9, -1, -2, -3])
            if delta > 0 or books.balance(account) >= -delta:
                books.add(account, delta, at)
            if random.random() < 0.1:
                assert books.walk_here(at + SETTLED_MS) == []
                books.fold()
                books.forget(at, months=1)
        assert books.walk_here(at + SETTLED_MS + 1) == []
        assert contradictions(books.db) == []
        for month in books.closed():
            rows = [tuple(row) for row in books.db.execute(ROWS, (month,))]
            assert rows == expected_rows(books, month)
        for account in range(1, ACCOUNTS + 1):
            sums = {line.kind: line.delta for line in summary_of(books.db, CreditAccount(account))}
            assert sum(sums.values()) == books.balance(account)
            spent = [
                delta
                for each, kind, delta, _ in books.entered
                if each == account and kind == "spend"
            ]
            assert sums.get("spend", 0) == sum(spent)
