"""Money and accounts over one database."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import cached_property
from typing import Protocol, TypeVar

from mintscope.accounts.keys.store import SqlApiKeyRows, SqlKeyAddressRows
from mintscope.accounts.mail.store import SqlEmailRows, SqlProofRows
from mintscope.accounts.rows import AccountRows, AccountStore
from mintscope.accounts.signups.store import SqlApplicationRows
from mintscope.accounts.store import (
    AccountConnections,
    SqlAppRows,
    SqlEventRows,
    SqlIdempotencyRows,
    SqlPasskeyRows,
    SqlRecoveryRows,
    SqlSessionRows,
    SqlSignInRows,
    SqlUserRows,
)
from mintscope.accounts.wallets.store import SqlCreditRows, SqlMoveRows, SqlWalletRows
from mintscope.alerts.queue_store import SqlWebhookQueue
from mintscope.alerts.store import (
    SqlAlertRows,
    SqlFiringRows,
    SqlLeaseRows,
    SqlTelegramChatRows,
)
from mintscope.credits.ledger import CreditLedger
from mintscope.credits.rotation import RotationStore
from mintscope.credits.store import CreditAccounts, GroupCreditLedger
from mintscope.kit.clock import Clock
from mintscope.kit.credentials import Root
from mintscope.kit.sql.database import Database
from mintscope.payments.audit import AuditBooks, AuditLease, OrphanBooks, TreasuryBooks
from mintscope.payments.ports import PaymentStore
from mintscope.payments.price_cache import PriceSource
from mintscope.payments.reconciler import AdoptionStore
from mintscope.payments.store.books import SqlHourRows, SqlPaymentBooks
from mintscope.payments.store.payments import SqlPaymentStore
from mintscope.payments.trials import Buyers
from mintscope.watchlists.store import SqlWatchedRows, SqlWatchlistRows

T = TypeVar("T")


class SqlAccountStore:
    """Implements AccountStore."""

    def __init__(self, connections: AccountConnections) -> None:
        self._connections = connections

    async def transact(self, work: Callable[[AccountRows], T]) -> T:
        """Return the result of *work*, run in the writer's thread, once its changes are durable."""
        return await self._connections.write(lambda db: work(rows_of(db)))

    async def claim(self, work: Callable[[AccountRows], T]) -> T:
        """Return the result of *work*, which changes only rows that it has locked."""
        return await self._connections.write(lambda db: work(rows_of(db)), beside=True)

    async def read(self, work: Callable[[AccountRows], T]) -> T:
        """Return the result of *work*, which changes nothing."""
        return await self._connections.read(lambda db: work(rows_of(db)))


def rows_of(db: Database) -> AccountRows:
    """Return the tables of *db*, inside a transaction."""
    emails = SqlEmailRows(db)
    return AccountRows(
        users=SqlUserRows(db),
        applications=SqlApplicationRows(db),
        api_keys=SqlApiKeyRows(db),
        key_addresses=SqlKeyAddressRows(db),
        sessions=SqlSessionRows(db),
        proofs=SqlProofRows(db),
        apps=SqlAppRows(db),
        recovery_codes=SqlRecoveryRows(db),
        passkeys=SqlPasskeyRows(db),
        sign_ins=SqlSignInRows(db),
        emails=emails,
        outbox=emails,
        events=SqlEventRows(db),
        hours=SqlHourRows(db),
        credits=SqlCreditRows(db),
        moves=SqlMoveRows(db),
        wallets=SqlWalletRows(db),
        watchlists=SqlWatchlistRows(db),
        watched=SqlWatchedRows(db),
        made=SqlIdempotencyRows(db),
        signals=SqlAlertRows(db),
        firings=SqlFiringRows(db),
        chats=SqlTelegramChatRows(db),
        lease=SqlLeaseRows(db),
    )


class Opened(Protocol):
    """Resources to release at the end."""

    async def close(self) -> None:
        """Close files and connections."""


class SharedSource(PriceSource, Opened, Protocol):
    """A price that several processes share."""


class MoneyEngine(Protocol):
    """The parts of money that differ between engines.  Each method opens a resource to close."""

    def kept_pepper(self, *, signs: bool) -> bytes:
        """Return the pepper stored beside the database, created at first use.

        signs    no root has taken its place
        """

    def ledger(self, pepper: bytes, clock: Clock) -> GroupCreditLedger:
        """Return credits, for a process that serves."""

    def credits(self, pepper: bytes) -> CreditAccounts:
        """Return credit accounts, for a command."""

    def payments(self) -> SqlPaymentStore:
        """Return the store of payments."""

    def books(self) -> SqlPaymentBooks:
        """Return the books of payments."""

    def accounts(self) -> AccountConnections:
        """Return the connections to the accounts."""

    def shared(self, price: PriceSource) -> SharedSource | None:
        """Return *price* as shared by all processes of this database; None if only one sells."""


Port = TypeVar("Port", bound=Opened)


class Money:
    """The ports of credits, payments and accounts; each is opened at first use.

    stack    lets go of them
    queue    opens the queue of webhooks
    pepper   None: the one kept beside the database
    roots    the roots that sign in its place, one after the other
    """

    def __init__(  # noqa: PLR0913 - one argument for each part
        self,
        engine: MoneyEngine,
        stack: AsyncExitStack,
        *,
        queue: Callable[[], SqlWebhookQueue],
        pepper: bytes | None,
        clock: Clock,
        roots: Sequence[Root] = (),
    ) -> None:
        self._engine = engine
        self._stack = stack
        self._queue = queue
        self._configured_pepper = pepper
        self._clock = clock
        self.roots = roots

    @cached_property
    def pepper(self) -> bytes:
        """The key of every stored hash, and the source of other secrets until one is rotated."""
        return self._configured_pepper or self._engine.kept_pepper(signs=not self.roots)

    @cached_property
    def ledger(self) -> CreditLedger:
        """Credits, for a process that serves."""
        return self._opened(self._engine.ledger(self.pepper, self._clock))

    @cached_property
    def credits(self) -> CreditAccounts:
        """Credit accounts, for a command."""
        return self._opened(self._engine.credits(self.pepper))

    @property
    def payments(self) -> PaymentStore:
        """Payments and their outcomes."""
        return self._payments

    @property
    def adoptions(self) -> AdoptionStore:
        """Creates rows for payments that are on chain and have none."""
        return self._payments

    @property
    def rotations(self) -> RotationStore:
        """Moves the credits of a token to a new one."""
        return self._payments

    @property
    def buyers(self) -> Buyers:
        """Wallets that have paid before."""
        return self._payments

    @cached_property
    def _payments(self) -> SqlPaymentStore:
        return self._opened(self._engine.payments())

    @property
    def audit_books(self) -> AuditBooks:
        """The books of payments, for the auditor."""
        return self._books

    @property
    def audit_lease(self) -> AuditLease:
        """The lease of the audit."""
        return self._books

    @property
    def treasury_books(self) -> TreasuryBooks:
        """The books of payments, for comparing the treasury's history."""
        return self._books

    @property
    def maintenance_books(self) -> SqlPaymentBooks:
        """The books of payments, for payment maintenance."""
        return self._books

    @property
    def orphan_books(self) -> OrphanBooks:
        """The payments on chain that have no row."""
        return self._books

    @property
    def payment_search(self) -> SqlPaymentBooks:
        """The books of payments, for searches by support staff."""
        return self._read_books

    @property
    def payment_history(self) -> SqlPaymentBooks:
        """The books of payments, for pages."""
        return self._read_books

    @property
    def sales_books(self) -> SqlPaymentBooks:
        """The books of payments, for an operator."""
        return self._books

    @cached_property
    def _books(self) -> SqlPaymentBooks:
        return self._opened(self._engine.books())

    @cached_property
    def _read_books(self) -> SqlPaymentBooks:
        """Books over a connection of their own: long lists hold up no audit, and audits no list."""
        return self._opened(self._engine.books())

    @cached_property
    def accounts(self) -> AccountStore:
        """People, agents, API keys and e-mails."""
        return SqlAccountStore(self._opened(self._engine.accounts()))

    @cached_property
    def webhooks(self) -> SqlWebhookQueue:
        """Pending webhooks, and the outcomes of finished ones."""
        return self._opened(self._queue())

    def shared(self, price: PriceSource) -> PriceSource:
        """Return *price* as shared by all processes of this database."""
        shared = self._engine.shared(price)
        return price if shared is None else self._opened(shared)

    def _opened(self, port: Port) -> Port:
        self._stack.push_async_callback(port.close)
        return port
