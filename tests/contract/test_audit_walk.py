"""The audit finds a contradiction in any of the books, reading them in parts, on every engine."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from mintscope.credits import closing as closing_statements
from mintscope.credits.invariants import Invariant, Violation
from mintscope.credits.statements import ADD
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql.database import Database, translate
from mintscope.kit.sql.postgres import PostgresDatabase
from mintscope.kit.sql.sqlite import SqliteDatabase
from mintscope.payments.store import audit as walk_statements
from mintscope.payments.store.audit import SETTLED_MS, Walk
from support.scenes.postgres import dsn_in

pytestmark = pytest.mark.storm  # walks over many rows on each engine

Connect = Callable[[], Database]

NOW: Final = UnixMs(1_700_000_000_000)
OLD: Final = UnixMs(NOW - SETTLED_MS - 1)
A_PART: Final = 3  # rows: so few that a walk has many parts
ACCOUNTS: Final = 7
STEPS_MAX: Final = 500
MONTH: Final = 24_300
SPEND_BY_KEY: Final = """
INSERT INTO credit_entry (account, kind, delta, balance, at, api_key, month)
SELECT id, 'spend', -1, balance - 1, ?, ?, ? FROM credit_account WHERE id = ?
"""
UNGUARDED: Final = {
    "sqlite": ("DROP TRIGGER credit_entry_is_never_changed",),
    "postgresql": ("DROP TRIGGER credit_entry_is_never_changed ON credit_entry",),
}
IS_ONE: Final = r"\s*(?:SELECT|INSERT|UPDATE|DELETE|WITH)\b[^{]*$"
READS_ALL: Final = r"(?:Seq Scan on|^SCAN) credit_entry\b"
ENTRIES: Final = {"sqlite": 4_000, "postgresql": 60_000}
ROWS: Final = """
INSERT INTO credit_entry (account, kind, delta, balance, at)
WITH RECURSIVE count (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < {count})
SELECT 1, 'grant', 1, n, {at} FROM count
"""


def sqlite(folder: Path) -> Connect:
    return lambda: SqliteDatabase(folder / "money.sqlite", "money")


def postgresql(folder: Path) -> Connect:
    dsn = dsn_in(folder)
    return lambda: PostgresDatabase(dsn)


ENGINES: Final = {"sqlite": sqlite, "postgresql": postgresql}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def connect(engine: str, tmp_path: Path) -> Connect:
    return ENGINES[engine](tmp_path)


@pytest.fixture
def db(connect: Connect) -> Iterator[Database]:
    with closing(connect()) as database:
        for number in range(1, ACCOUNTS + 1):
            database.execute(
                "INSERT INTO credit_account (token_hash, hint, note, issued_at)"
                " VALUES (?, '', '', 0)",
                (bytes([number] * 32),),
            )
        yield database


def add(db: Database, account: int, delta: int, at: int = OLD) -> None:
    with db.transaction():
        db.execute(ADD, (account, "grant" if delta > 0 else "spend", delta, at))


def add_key(db: Database) -> int:
    with db.transaction():
        user = db.execute(
            """INSERT INTO "user" (kind, username, email, created_at)"""
            " VALUES ('agent', 'a', 'a@example.org', 0) RETURNING id"
        ).get
        key: int = db.execute(
            """INSERT INTO api_key ("user", key_hash, hint, name, scopes, created_at)"""
            " VALUES (?, ?, '', '', '[]', 0) RETURNING id",
            (user, bytes(32)),
        ).get
    return key


def trade(db: Database, random: Random, count: int, at: int = OLD) -> None:
    """Add *count* entries at *at* to the journal, each of a random account."""
    for _ in range(count):
        account = random.randint(1, ACCOUNTS)
        left = db.execute("SELECT balance FROM credit_account WHERE id = ?", (account,)).get
        add(db, account, -random.randint(1, left) if left and random.random() < 0.5 else 9, at)


def walked(
    connect: Connect, *, between: Callable[[], None] = lambda: None
) -> tuple[Sequence[Violation], int]:
    """Run a new audit; return the violations found, and the number of parts before the last one.

    Each part runs on a new connection, as in another process: the audit's state is in the database.

    between   called after each part, except the last
    """
    found, is_begun = list[Violation](), False
    for count in range(STEPS_MAX):
        with closing(connect()) as database:
            part = Walk(database, rows_a_part=A_PART).step(NOW, begins=not is_begun)
        is_begun = True
        found += part.violations
        if part.is_finished:
            return found, count
        between()
    raise AssertionError("expected the walk to end")


@pytest.mark.parametrize("seed", range(3))
def test_a_walk_finds_nothing_in_sound_books_while_entries_are_added(
    db: Database, connect: Connect, seed: int
) -> None:
    random = Random(seed)
    trade(db, random, 20)
    key = add_key(db)
    for account in (1, 1, 2):
        add(db, account, 5)
        with db.transaction():
            db.execute(SPEND_BY_KEY, (OLD, key, MONTH, account))
    trade(db, random, 5, at=NOW)

    def between() -> None:
        trade(db, random, random.randrange(2), at=random.choice([OLD, NOW]))
        if random.random() < 0.3:
            add(db, 3, 2, NOW)
            with db.transaction():
                db.execute(SPEND_BY_KEY, (NOW, key, MONTH, 3))

    assert walked(connect, between=between)[0] == []
    found, parts = walked(connect)
    # At least 31 entries: 20, 2 for each of 3 accounts, and 5.
    assert (found, parts >= 31 / A_PART) == ([], True)


def test_the_audit_finds_a_wrong_entry_at_any_position_and_its_contradictions(
    db: Database, connect: Connect, engine: str
) -> None:
    """The audit reads the journal in parts; the wrong balance may be at any position of a part.

    Each of these contradicts the wrong entry: its own amount; the next entry of its account; and
    the balance of its account, if the entry is the last one of the account that is added up.
    """
    random = Random(1)
    trade(db, random, 10)
    trade(db, random, 3, at=NOW)
    for statement in UNGUARDED[engine]:
        db.execute(statement)
    entries = list(db.execute("SELECT id, account, at FROM credit_entry ORDER BY id"))
    counts = set()
    for entry, account, _ in entries:
        change = "UPDATE credit_entry SET balance = balance + ? WHERE id = ?"
        db.execute(change, (1, entry))
        found, _ = walked(connect)
        db.execute(change, (-1, entry))

        own = [(other, at) for other, of, at in entries if of == account]
        is_last = entry == own[-1][0]
        is_last_of_sums = entry == max((other for other, at in own if at == OLD), default=None)
        count = 1 + (not is_last) + is_last_of_sums
        assert found == [Violation(Invariant.BALANCE_IS_SUM, f"{account}")] * count
        counts.add(count)
    assert counts == {1, 2, 3}
    assert walked(connect)[0] == []


def test_a_wrong_balance_is_found_in_each_account(db: Database, connect: Connect) -> None:
    trade(db, Random(2), 10)
    for number in range(1, ACCOUNTS + 1):
        change = "UPDATE credit_account SET balance = balance + ? WHERE id = ?"
        db.execute(change, (1, number))
        found, _ = walked(connect)
        db.execute(change, (-1, number))

        assert found == [Violation(Invariant.BALANCE_IS_SUM, f"{number}")]


@pytest.mark.parametrize("at", [OLD, NOW])
def test_a_wrong_or_missing_sum_of_a_key_is_found(db: Database, connect: Connect, at: int) -> None:
    key = add_key(db)
    add(db, 1, 5)
    with db.transaction():
        db.execute(SPEND_BY_KEY, (at, key, MONTH, 1))
    assert walked(connect)[0] == []
    db.execute("UPDATE key_month SET credits = 2")

    assert walked(connect)[0] == [Violation(Invariant.KEYS_ADD_UP, f"{key}")]
    db.execute("DELETE FROM key_month")
    assert walked(connect)[0] == [Violation(Invariant.KEYS_ADD_UP, f"{key}")]


def test_a_finished_walk_stays_finished_until_a_new_walk_is_requested(
    db: Database, connect: Connect
) -> None:
    trade(db, Random(3), 4)
    walked(connect)
    walk = Walk(db)
    number = "SELECT number FROM audit_walk"
    before = db.execute(number).get
    db.execute("UPDATE credit_account SET balance = balance + 1 WHERE id = 1")

    assert walk.step(NOW, begins=False).is_finished
    assert db.execute(number).get == before
    assert not walk.step(NOW, begins=True).is_finished
    assert db.execute(number).get == before + 1


def constants() -> Iterator[str]:
    """Yield each SQL statement of the audit that reads a bounded part of the journal."""
    for value in (*vars(walk_statements).values(), *vars(closing_statements).values()):
        texts = value.values() if isinstance(value, dict) else [value]
        for text in texts:
            is_part = isinstance(text, str) and "credit_entry" in text
            is_bounded = is_part and (":after" not in text or re.search(":(until|rows)", text))
            if is_bounded and re.match(IS_ONE, text):
                yield text


def plan_of(engine: str, db: Any, statement: str) -> list[str]:
    """Return the query plan of *statement*, executed for the entries 500 to 503 of the journal."""
    values = {"walk": 1, "entry": 99_999_999, "rotated": 0, "frozen": 0, "after": 500}
    values |= {"until": 503, "closed": 1, "month": 1, "first": 500, "last": 503, "rows": 3}
    values |= {"closed_before": NOW}
    if engine == "sqlite":
        given: Any = values if ":" in statement else (500, 3, NOW)[: statement.count("?")]
        rows = db.connection.execute(f"EXPLAIN QUERY PLAN {statement}", given)
        return [str(row[3]) for row in rows]
    text, names = translate(statement)
    used = [values[name] for name in names] or [500, 3, NOW][: text.count("$")]
    for place, value in reversed(list(enumerate(used, 1))):
        text = text.replace(f"${place}", f"{value}::bigint")
    return [str(row[0]) for row in db.execute(f"EXPLAIN {text}")]


def test_no_part_of_an_audit_scans_the_whole_journal(db: Database, engine: str) -> None:
    """The journal has many entries, because PostgreSQL plans by the statistics of its tables."""
    if engine == "postgresql":  # its trigger accepts one entry of an account per statement
        db.execute("ALTER TABLE credit_entry DISABLE TRIGGER ALL")
    db.execute(ROWS.format(count=ENTRIES[engine], at=OLD))
    db.execute("ANALYZE")
    found = list(constants())
    assert len(found) >= 15
    for statement in found:
        plan = plan_of(engine, db, statement)
        wrong = [line for line in plan if re.search(READS_ALL, line)]
        assert not wrong, (statement, plan)
