"""Credits, payments and accounts over one database, whatever engine it is of."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import cached_property
from typing import Protocol, TypeVar

from mintscope.base.clock import Clock
from mintscope.core.accounts.signals.queue import WebhookQueue
from mintscope.core.accounts.store import AccountStore
from mintscope.core.credits.ledger import CreditAccounts, CreditLedger
from mintscope.core.credits.rotation import RotationStore
from mintscope.core.payments.books.history import PaymentHistory
from mintscope.core.payments.books.orphans import OrphanBooks
from mintscope.core.payments.books.store import (
    AuditBooks,
    AuditTurn,
    MaintenanceBooks,
    SalesBooks,
    TreasuryBooks,
)
from mintscope.core.payments.lost import AdoptionStore
from mintscope.core.payments.pricing.price_cache import PriceSource
from mintscope.core.payments.store import PaymentStore
from mintscope.core.payments.trials import Buyers
from mintscope.core.secrets.roots import Root
from mintscope.edges.storage.credit_ledger import GroupCreditLedger
from mintscope.edges.storage.sql.accounts.connections import AccountConnections
from mintscope.edges.storage.sql.accounts.signals.queue import SqlWebhookQueue
from mintscope.edges.storage.sql.accounts.store import SqlAccountStore
from mintscope.edges.storage.sql.money.books import SqlPaymentBooks
from mintscope.edges.storage.sql.money.payments import SqlPaymentStore


class Opened(Protocol):
    """Resources to release at the end."""

    async def close(self) -> None:
        """Let go of files and connections."""


class OpenedCredits(CreditAccounts, Opened, Protocol):
    """Credit accounts, for a command."""


class SharedSource(PriceSource, Opened, Protocol):
    """A price that many processes sell at."""


class MoneyEngine(Protocol):
    """The parts that differ in each engine.  Each method opens something that is to be closed."""

    def kept_pepper(self, *, signs: bool) -> bytes:
        """Return the pepper that is kept beside the database, made at first use.

        signs    no root has taken its place
        """

    def ledger(self, pepper: bytes, clock: Clock) -> GroupCreditLedger:
        """Return credits, for a process that serves."""

    def credits(self, pepper: bytes) -> OpenedCredits:
        """Return credit accounts, for a command."""

    def payments(self) -> SqlPaymentStore:
        """Return what was paid for."""

    def books(self) -> SqlPaymentBooks:
        """Return the books of payments."""

    def accounts(self) -> AccountConnections:
        """Return what reads and writes the accounts."""

    def shared(self, price: PriceSource) -> SharedSource | None:
        """Return *price* as all processes at this database have it; None: only one sells."""


Port = TypeVar("Port", bound=Opened)


class Money:
    """The ports of credits, payments and accounts; each is opened at first use.

    stack    lets go of them
    queue    opens the queue of webhooks
    pepper   None: the one kept beside the database
    roots    what signs in its place, one after the other
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
        """The key of every stored hash, and the root of every other secret until one is rotated."""
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
        """Gives rows to payments that are on chain and had none."""
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
    def audit_turn(self) -> AuditTurn:
        """Which process audits."""
        return self._books

    @property
    def treasury_books(self) -> TreasuryBooks:
        """The books of payments, for comparing the treasury's history."""
        return self._books

    @property
    def maintenance_books(self) -> MaintenanceBooks:
        """The books of payments, for payment maintenance."""
        return self._books

    @property
    def orphan_books(self) -> OrphanBooks:
        """The payments on chain that have no row."""
        return self._books

    @property
    def payment_search(self) -> SqlPaymentBooks:
        """The books of payments, for searches of support."""
        return self._books

    @property
    def payment_history(self) -> PaymentHistory:
        """The books of payments, for pages."""
        return self._books

    @property
    def sales_books(self) -> SalesBooks:
        """The books of payments, for an operator."""
        return self._books

    @cached_property
    def _books(self) -> SqlPaymentBooks:
        return self._opened(self._engine.books())

    @cached_property
    def accounts(self) -> AccountStore:
        """People, agents, API keys and e-mails."""
        return SqlAccountStore(self._opened(self._engine.accounts()))

    @cached_property
    def webhooks(self) -> WebhookQueue:
        """Webhooks that wait, and the outcome of those that do not."""
        return self._opened(self._queue())

    def shared(self, price: PriceSource) -> PriceSource:
        """Return *price* as all processes at this database have it."""
        shared = self._engine.shared(price)
        return price if shared is None else self._opened(shared)

    def _opened(self, port: Port) -> Port:
        self._stack.push_async_callback(port.close)
        return port
