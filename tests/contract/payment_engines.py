"""Every PaymentStore for contract tests, with actions on the credits in the same database.

To test another engine, add it to `ENGINES`.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    closing,
    nullcontext,
)
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from mintscope.app.stores import postgres, sqlite
from mintscope.credits.rotation import RotationDenied
from mintscope.kit.credentials import CredentialHash
from mintscope.kit.primitives import CreditAccount, Signature, UnixMs
from mintscope.kit.sql.database import Database
from mintscope.kit.sql.postgres import PostgresDatabase
from mintscope.kit.sql.sqlite import SqliteDatabase
from mintscope.payments.payment import Evidence, NewToken, PaidItem, Payment, TopUp
from mintscope.payments.ports import AdoptionStore, PaymentStore, PendingPayment
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
        self.store.rotate(account, successor)
        return successor


@dataclass
class SqlEngine:
    store: SqlPaymentStore
    db: Database

    def credits(self, purchase: PaidItem) -> int:
        balance = f"SELECT balance FROM credit_account WHERE {_column(purchase)} = ?"
        return int(self.db.execute(balance, (_name(purchase),)).get or 0)

    def spend(self, purchase: PaidItem) -> None:
        self.db.execute(
            "INSERT INTO credit_entry (account, kind, delta, balance, at)"
            " SELECT id, 'spend', -1, balance - 1, 0 FROM credit_account"
            f" WHERE {_column(purchase)} = ?",
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
    if isinstance(purchase, NewToken):
        return purchase.token_hash
    return purchase.account if isinstance(purchase, TopUp) else None


def _column(purchase: PaidItem) -> str:
    return "token_hash" if isinstance(purchase, NewToken) else "id"


def _memory(_: Path) -> AbstractAsyncContextManager[Engine]:
    return nullcontext(MemoryEngine(MemoryPaymentStore()))


@asynccontextmanager
async def _sqlite(folder: Path) -> AsyncIterator[Engine]:
    store = sqlite.payment_store(folder / "money.sqlite")
    with closing(SqliteDatabase(folder / "money.sqlite", "money")) as db:
        yield SqlEngine(store, db)
        assert db.execute("SELECT count(*) FROM pragma_integrity_check").get == 1
    await store.close()


@asynccontextmanager
async def _postgres(folder: Path) -> AsyncIterator[Engine]:
    dsn = dsn_in(folder)
    store = postgres.payment_store(dsn)
    with closing(PostgresDatabase(dsn)) as db:
        yield SqlEngine(store, db)
    await store.close()


ENGINES: Final[dict[str, Callable[[Path], AbstractAsyncContextManager[Engine]]]] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "postgresql": _postgres,
}


@asynccontextmanager
async def every_engine(folder: Path) -> AsyncIterator[list[Engine]]:
    """Yield an empty payment store of each engine, each in a separate folder in *folder*."""
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
