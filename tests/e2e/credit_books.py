"""Reads the books of credits in a test, after all processes of the service have ended."""

from contextlib import closing
from pathlib import Path

from mintscope.app.stores.folder import MONEY_FILE
from mintscope.credits.postgres import DEAD_MS, PostgresCreditBook
from mintscope.credits.sqlite import CreditBook
from mintscope.kit.clock import SystemClock
from mintscope.kit.credentials import CreditToken
from mintscope.kit.sql.postgres import PostgresDatabase
from support.scenes.stores import PEPPER

Book = CreditBook | PostgresCreditBook


def open_book(folder: Path, dsn: str = "") -> Book:
    """Open the credit book in the database *dsn* or, if *dsn* is "", in *folder*."""
    if dsn:
        return PostgresCreditBook(dsn, pepper=PEPPER)
    return CreditBook(folder / MONEY_FILE, pepper=PEPPER)


def issue(book: Book, token: CreditToken, credit_count: int) -> None:
    book.issue(token, credit_count, note="", at=SystemClock().now())


def clear_up(book: Book) -> None:
    """Refund the debits that ended processes have left open, and check the book."""
    book.rest(SystemClock().now())
    if isinstance(book, PostgresCreditBook):
        bury(book)
    assert book.contradictions() == []


def left(book: Book, token: CreditToken) -> int:
    account = book.find(token)
    assert account is not None
    return book.balance(account)


def bury(book: PostgresCreditBook) -> None:
    """Change the database so that all processes except that of *book* seem to have ended."""
    with closing(PostgresDatabase(vars(vars(book)["_db"])["_dsn"])) as db:
        db.execute("UPDATE credit_writer SET since = since - ?", (DEAD_MS,))
        others = "UPDATE credit_writer SET seen_at = seen_at - ? WHERE id <> ?"
        db.execute(others, (DEAD_MS + 1, vars(book)["_writer"]))
    vars(book)["_seen_at_s"] = None
    book.rest(SystemClock().now())
