"""Every PaymentStore for contract tests, with actions on the credits in the same database.

To test another engine, add it to `ENGINES`.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import pytest

from mintscope.app.stores import postgres as openers
from mintscope.app.stores.sqlite import payment_store
from mintscope.credits.rotation import RotationDenied
from mintscope.kit.credentials import CredentialHash
from mintscope.kit.primitives import CreditAccount, Signature, UnixMs
from mintscope.kit.sql.database import Database
from mintscope.kit.sql.postgres import PostgresDatabase
from mintscope.kit.sql.sqlite import SqliteDatabase
from mintscope.payments.payment import Evidence, NewToken, PaidItem, PaidReport, Payment, TopUp
from mintscope.payments.ports import PaymentStore, PendingPayment
from mintscope.payments.reconciler import AdoptionStore
from mintscope.payments.store.payments import SqlPaymentStore
from mintscope.payments.trials import Buyers
from support.fakes.payment_memory import MemoryPaymentStore
from support.scenes.payments.pending_payments import AGAIN_MS, NOW, named
from support.scenes.postgres import dsn_in


class Store(PaymentStore, AdoptionStore, Buyers, Protocol):
    """All interfaces for payments, which one store implements."""


class Engine(Protocol):
    """A store, and actions on the credits and the state of its database."""

    @property
    def store(self) -> Store: ...
    def credits(self, purchase: PaidItem) -> int: ...
    def spend(self, purchase: PaidItem) -> None: ...
    def close_sales(self) -> None: ...
    def open_account(self, credit_count: int) -> CreditAccount: ...
    def fill_fund(self, lamports: int) -> None: ...
    def acknowledge(self, signature: Signature) -> None: ...
    async def rotate(self, account: CreditAccount) -> CreditAccount: ...


@dataclass
class MemoryEngine:
    store: MemoryPaymentStore

    def credits(self, purchase: PaidItem) -> int:
        return self.store.balances[_name(purchase)]

    def spend(self, purchase: PaidItem) -> None:
        self.store.spend(_name(purchase))

    def close_sales(self) -> None:
        self.store.is_closed = True

    def open_account(self, credit_count: int) -> CreditAccount:
        self.store.balances[CreditAccount(1)] = credit_count
        return CreditAccount(1)

    def fill_fund(self, lamports: int) -> None:
        self.store.fund_lamports = lamports

    def acknowledge(self, signature: Signature) -> None:
        self.store.acknowledged.add(signature)

    async def rotate(self, account: CreditAccount) -> CreditAccount:
        successor = CreditAccount(100 + len(self.store.balances) + len(self.store.successors))
        self.store.rotate(account, successor, NOW)
        return successor


@dataclass
class SqlEngine:
    store: SqlPaymentStore
    db: Database

    def credits(self, purchase: PaidItem) -> int:
        return int(self.db.execute(f"SELECT {_balance(purchase)}", (_name(purchase),)).get or 0)

    def spend(self, purchase: PaidItem) -> None:
        self.db.execute(
            "INSERT INTO credit_entry (account, kind, delta, balance, at)"
            f" SELECT id, 'spend', -1, balance - 1, 0 FROM credit_account WHERE {_where(purchase)}",
            (_name(purchase),),
        )

    def close_sales(self) -> None:
        self.db.execute("INSERT INTO sales_stop VALUES (1, 0, 'a test')")

    def open_account(self, credit_count: int) -> CreditAccount:
        account = self.db.execute(
            "INSERT INTO credit_account (token_hash, hint, note, issued_at)"
            " VALUES (?, '', '', 0) RETURNING id",
            (bytes(32),),
        ).get
        self.db.execute(
            "INSERT INTO credit_entry (account, kind, delta, balance, at)"
            " VALUES (?1, 'grant', ?2, ?2, 0)",
            (account, credit_count),
        )
        return CreditAccount(account)

    def fill_fund(self, lamports: int) -> None:
        self.db.execute(
            "INSERT INTO fee_fund (id, lamports) VALUES (1, ?)"
            " ON CONFLICT (id) DO UPDATE SET lamports = excluded.lamports",
            (lamports,),
        )

    def acknowledge(self, signature: Signature) -> None:
        self.db.execute(
            "INSERT INTO orphan (signature, found_at, acknowledged_at, note) VALUES (?, 0, 0, 'x')",
            (signature,),
        )

    async def rotate(self, account: CreditAccount) -> CreditAccount:
        token_hash = CredentialHash(
            named(f"successor {self.db.execute('SELECT count(*) FROM credit_account').get}")
        )
        moved = await self.store.rotate(account, token_hash, "successor", now=NOW)
        if isinstance(moved, RotationDenied):
            return account
        return CreditAccount(int(self.db.execute("SELECT max(id) FROM credit_account").get))


def _name(purchase: PaidItem) -> Any:
    match purchase:
        case NewToken(token_hash=token_hash):
            return token_hash
        case TopUp(account=account):
            return account
        case PaidReport():
            return None


def _where(purchase: PaidItem) -> str:
    return "token_hash = ?" if isinstance(purchase, NewToken) else "id = ?"


def _balance(purchase: PaidItem) -> str:
    return f"(SELECT balance FROM credit_account WHERE {_where(purchase)})"


@asynccontextmanager
async def memory(_: Path) -> AsyncGenerator[Engine, None]:
    yield MemoryEngine(MemoryPaymentStore())


@asynccontextmanager
async def sqlite(folder: Path) -> AsyncGenerator[Engine, None]:
    store = payment_store(folder / "money.sqlite")
    db = SqliteDatabase(folder / "money.sqlite", "money")
    yield SqlEngine(store, db)
    assert db.connection.execute("SELECT count(*) FROM pragma_integrity_check").get == 1
    db.close()
    await store.close()


@asynccontextmanager
async def postgres(folder: Path) -> AsyncGenerator[Engine, None]:
    dsn = dsn_in(folder)
    store, db = openers.payment_store(dsn), PostgresDatabase(dsn)
    yield SqlEngine(store, db)
    db.close()
    await store.close()


ENGINES: Final[dict[str, Callable[[Path], AbstractAsyncContextManager[Engine]]]] = {
    "memory": memory,
    "sqlite": sqlite,
    "postgresql": postgres,
}


@pytest.fixture(params=ENGINES)
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Engine]:
    async with ENGINES[request.param](tmp_path) as engine:
        yield engine


@asynccontextmanager
async def every_engine(folder: Path) -> AsyncGenerator[list[Engine], None]:
    """Yield an empty engine of each kind, each in a separate folder in *folder*."""
    async with AsyncExitStack() as stack:
        engines = []
        for name, opened in ENGINES.items():
            (folder / name).mkdir()
            engines.append(await stack.enter_async_context(opened(folder / name)))
        yield engines


async def resolve(
    engine: Engine, asked: PendingPayment, evidence: Evidence, now: int = NOW
) -> Payment:
    return await engine.store.resolve(
        asked.payment.message_hash, evidence, now=UnixMs(now), again_ms=AGAIN_MS
    )
