"""The credit tables, and faults of the disk or of another process."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import apsw
import pytest

from mintscope.credits.ledger import Empty, Reversal, Spent
from mintscope.credits.sqlite import CHECKPOINT_DEBITS, CreditBook, SqliteCreditLedger
from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import ServiceUnavailable, UnusableStore
from mintscope.kit.primitives import CreditAccount
from mintscope.kit.sql.sqlite import transaction
from support.scenes.service import NOW, credit_token
from support.scenes.stores import PEPPER

TOKEN = credit_token(1)
ENTRY = "INSERT INTO credit_entry (account, kind, delta, balance, at) VALUES "


def written(ledger: SqliteCreditLedger) -> CreditBook:
    book: CreditBook = vars(ledger)["_writing"]
    return book


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "money.sqlite"


@pytest.fixture
def book(path: Path) -> Iterator[CreditBook]:
    book = CreditBook(path, pepper=PEPPER)
    yield book
    book.close()


@pytest.fixture
async def ledger(path: Path) -> AsyncIterator[SqliteCreditLedger]:
    ledger = SqliteCreditLedger(path, pepper=PEPPER, clock=ManualClock(NOW))
    yield ledger
    await ledger.close()


@pytest.fixture
async def impatient(path: Path) -> AsyncIterator[SqliteCreditLedger]:
    ledger = SqliteCreditLedger(path, pepper=PEPPER, clock=ManualClock(NOW), patience_s=0.4)
    yield ledger
    await ledger.close()


@pytest.fixture
def raw(path: Path, book: CreditBook) -> Iterator[apsw.Connection]:
    """Yield a raw connection to the file of *book*, which enforces only rules of the schema."""
    assert book.contradictions() == []
    db = apsw.Connection(str(path))
    db.execute("PRAGMA foreign_keys = ON")
    yield db
    db.close()


def entries(raw: apsw.Connection) -> list[tuple[object, ...]]:
    return list(raw.execute("SELECT account, kind, delta, balance, at FROM credit_entry"))


def test_every_movement_is_an_entry(book: CreditBook, raw: apsw.Connection) -> None:
    account = book.issue(TOKEN, 3, note="", at=NOW)
    book.spend([account], NOW)
    book.spend([account, account, account], NOW)
    book.give_back([Reversal(account, 1)], NOW)

    assert entries(raw) == [
        (account, "grant", 3, 3, NOW),
        (account, "spend", -1, 2, NOW),
        (account, "spend", -2, 0, NOW),
        (account, "reversal", 1, 1, NOW),
    ]
    assert book.contradictions() == []


def test_no_secret_is_stored(book: CreditBook, path: Path) -> None:
    book.issue(TOKEN, 3, note="", at=NOW)
    book.rest(NOW)

    kept = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert TOKEN.encode() not in kept
    assert TOKEN[11:40].encode() not in kept
    assert bytes.fromhex(TOKEN[11:-8]) not in kept
    assert PEPPER not in kept


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE credit_entry SET delta = 100",
        "UPDATE credit_entry SET at = 0",
        "DELETE FROM credit_entry",
        "DELETE FROM credit_account",
        "UPDATE credit_account SET balance = -1",
        # an entry that does not continue the balance
        ENTRY + "(1, 'spend', -1, 3, 0)",
        ENTRY + "(1, 'grant', 5, 5, 0)",
        # an entry that spends more than the balance
        ENTRY + "(1, 'spend', -4, -1, 0)",
        # a kind that does not exist, or with the wrong sign
        ENTRY + "(1, 'gift', 1, 4, 0)",
        ENTRY + "(1, 'spend', 1, 4, 0)",
        ENTRY + "(1, 'grant', -1, 2, 0)",
        ENTRY + "(1, 'rotate', 0, 3, 0)",
        # an entry of an unknown account
        ENTRY + "(9, 'grant', 1, 1, 0)",
    ],
)
def test_the_schema_refuses_to_break_the_books(
    book: CreditBook, raw: apsw.Connection, statement: str
) -> None:
    book.issue(TOKEN, 3, note="", at=NOW)
    before = entries(raw)

    with pytest.raises(apsw.ConstraintError):
        raw.execute(statement)
    assert entries(raw) == before
    assert book.contradictions() == []


def test_contradictions_are_found(book: CreditBook, raw: apsw.Connection) -> None:
    account = book.issue(TOKEN, 3, note="", at=NOW)
    raw.execute("UPDATE credit_account SET balance = 4")

    assert book.contradictions() == [account]


def test_money_is_durable_when_it_is_committed(ledger: SqliteCreditLedger) -> None:
    db = written(ledger)._db  # noqa: SLF001 - what an answer rests on

    assert db.pragma("journal_mode") == "wal"
    assert db.pragma("synchronous") == 2


def test_another_pepper_is_refused_at_the_start(book: CreditBook, path: Path) -> None:
    assert book.contradictions() == []

    with pytest.raises(UnusableStore, match="pepper"):
        CreditBook(path, pepper=bytes(32))


def test_the_write_ahead_log_is_reused_after_a_rest(book: CreditBook, path: Path) -> None:
    account = book.issue(TOKEN, 10_000, note="", at=NOW)
    for _ in range(CHECKPOINT_DEBITS):
        book.spend([account], NOW)
    log = path.with_name("money.sqlite-wal").stat().st_size
    book.rest(NOW)
    book.spend([account], NOW)

    assert log > CHECKPOINT_DEBITS * 1024
    assert path.with_name("money.sqlite-wal").stat().st_size == log  # rewritten, not extended


async def test_a_full_disk_is_503_for_every_waiter_and_charges_nothing(
    ledger: SqliteCreditLedger,
) -> None:
    account = await ledger.issue(TOKEN, 10_000, "")
    db = written(ledger)._db  # noqa: SLF001 - as a full disk would
    db.execute(f"PRAGMA max_page_count = {db.pragma('page_count')}")
    outcomes: list[Spent | Empty | BaseException] = []
    while not any(isinstance(outcome, ServiceUnavailable) for outcome in outcomes):
        outcomes += await asyncio.gather(
            *(ledger.spend(account) for _ in range(40)), return_exceptions=True
        )
    spent = sum(isinstance(outcome, Spent) for outcome in outcomes)

    assert {type(outcome) for outcome in outcomes[-40:]} == {ServiceUnavailable}
    assert await ledger.balance(account) == 10_000 - spent
    with pytest.raises(ServiceUnavailable):
        await ledger.issue(credit_token(2), 5, "")

    db.execute("PRAGMA max_page_count = 1000000")
    assert await ledger.spend(account) == Spent(10_000 - spent - 1)


async def once_it_answers(ledger: SqliteCreditLedger, account: CreditAccount) -> Spent | Empty:
    for _ in range(500):
        try:
            return await ledger.spend(account)
        except ServiceUnavailable:
            await asyncio.sleep(0.01)
    raise TimeoutError


async def test_a_debit_answered_503_and_committed_later_is_given_back(
    impatient: SqliteCreditLedger, path: Path
) -> None:
    account = await impatient.issue(TOKEN, 10, "")
    neighbour = apsw.Connection(str(path))
    with transaction(neighbour):
        waiting = [asyncio.ensure_future(impatient.spend(account)) for _ in range(3)]
        with pytest.raises(ServiceUnavailable):
            await waiting[0]
        with pytest.raises(ServiceUnavailable):  # stuck: nothing queues behind it
            await impatient.spend(account)
    neighbour.close()
    await asyncio.gather(*waiting, return_exceptions=True)

    assert await once_it_answers(impatient, account) == Spent(9)
    kinds = {line.kind: line.delta for line in written(impatient).summary(account)}
    assert kinds == {"grant": 10, "spend": -4, "reversal": 3}


async def test_a_request_cancelled_before_its_turn_is_not_charged(
    ledger: SqliteCreditLedger,
) -> None:
    account = await ledger.issue(TOKEN, 10, "")
    leaving = asyncio.ensure_future(ledger.spend(account))
    staying = asyncio.ensure_future(ledger.spend(account))
    await asyncio.sleep(0)
    leaving.cancel()

    assert await staying == Spent(9)
    assert await ledger.balance(CreditAccount(account)) == 9


async def test_a_closing_ledger_finishes_the_requests_it_has(path: Path) -> None:
    ledger = SqliteCreditLedger(path, pepper=PEPPER, clock=ManualClock(NOW))
    account = await ledger.issue(TOKEN, 10, "")
    waiting = [asyncio.ensure_future(ledger.spend(account)) for _ in range(5)]
    await asyncio.sleep(0)
    await ledger.close()

    assert await asyncio.gather(*waiting) == [Spent(left) for left in range(9, 4, -1)]
    with pytest.raises(ServiceUnavailable):
        await ledger.spend(account)


def test_a_statement_lists_the_newest_100_entries_except_spends(book: CreditBook) -> None:
    account = book.issue(TOKEN, 120, note="", at=NOW)
    book.spend([account] * 120, NOW)
    book.give_back([Reversal(account, 1)] * 120, NOW)

    statement = book.statement(account)

    assert [entry.balance for entry in statement.entries] == list(range(120, 20, -1))
    assert statement.spent == 120
