"""Opens the database that has credits, payments and accounts."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from mintscope.accounts.rows import AccountRows, AccountStore
from mintscope.accounts.store import (
    AccountConnections,
)
from mintscope.alerts.queue_store import SqlWebhookQueue
from mintscope.app.stores.folder import load_pepper
from mintscope.credits.ledger import CreditLedger
from mintscope.credits.store import CreditAccounts, GroupCreditLedger
from mintscope.kit.clock import Clock
from mintscope.kit.credentials import Root
from mintscope.kit.sql.database import Database
from mintscope.kit.sql.identity import IS_USED
from mintscope.payments.price_cache import PriceSource
from mintscope.payments.store.books import SqlPaymentBooks
from mintscope.payments.store.payments import SqlPaymentStore

if TYPE_CHECKING:
    from mintscope.payments.store.postgres import SharedPrice

T = TypeVar("T")


class SqlAccountStore:
    """Runs functions that read or change account rows, each in a transaction."""

    def __init__(self, connections: AccountConnections) -> None:
        self._connections = connections

    async def transact(self, work: Callable[[AccountRows], T]) -> T:
        """Run *work* in the writer's thread; return its result when its changes are durable."""
        return await self._connections.write(lambda db: work(AccountRows(db)))

    async def claim(self, work: Callable[[AccountRows], T]) -> T:
        """Return the result of *work*, which changes only rows that it has locked.

        It runs beside other work, in a transaction without the write lock.
        """
        return await self._connections.write(lambda db: work(AccountRows(db)), beside=True)

    async def read(self, work: Callable[[AccountRows], T]) -> T:
        """Return the result of *work*, which only reads account rows."""
        return await self._connections.read(lambda db: work(AccountRows(db)))


class Opened(Protocol):
    """A store with connections to close at the end."""

    async def close(self) -> None:
        """Close files and connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyEngine:
    """Opens the tables of credits and payments in SQLite or PostgreSQL.

    pepper_file   the file that has the pepper if none is configured; a new store creates it at
                  first use
    ledger        opens the credits for a process that serves clients; takes the pepper
    credits       opens the credits for a command; takes the pepper
    shared        returns a price source that all processes of the database share; takes a source,
                  and its settings as a hash
    """

    pepper_file: Path
    connect: Callable[[], Database]
    ledger: Callable[[bytes, Clock], GroupCreditLedger]
    credits: Callable[[bytes], CreditAccounts]
    payments: Callable[[], SqlPaymentStore]
    books: Callable[[], SqlPaymentBooks]
    accounts: Callable[[], AccountConnections]
    webhooks: Callable[[], SqlWebhookQueue]
    # None: there is only one process
    shared: Callable[[PriceSource, str], "SharedPrice"] | None = None


Port = TypeVar("Port", bound=Opened)


@dataclass(eq=False, repr=False)
class Money:
    """The tables of credits, payments and accounts; each group is opened at first use.

    stack               closes the opened ones when it is closed
    configured_pepper   the pepper of the configuration; None: the pepper is in the `pepper_file` of
                        *engine*
    roots               the roots from which signing keys derive instead of the pepper, each from
                        its time on
    """

    engine: MoneyEngine
    stack: AsyncExitStack
    _: KW_ONLY
    configured_pepper: bytes | None
    clock: Clock
    roots: Sequence[Root] = ()

    @cached_property
    def pepper(self) -> bytes:
        """The key of every stored hash; without roots, signing keys derive from it, too."""
        if self.configured_pepper is not None:
            return self.configured_pepper
        # With a new pepper, no stored credential would be valid.
        may_make = not self.is_used()
        return load_pepper(self.engine.pepper_file, signs=not self.roots, may_make=may_make)

    def is_used(self) -> bool:
        """Return whether the store was ever used with a pepper."""
        with closing(self.engine.connect()) as db:
            return bool(db.execute(IS_USED).get)

    @cached_property
    def ledger(self) -> CreditLedger:
        """The credits and their debits, for a process that serves clients."""
        return self._opened(self.engine.ledger(self.pepper, self.clock))

    @cached_property
    def credits(self) -> CreditAccounts:
        """The credit accounts and their journal, for commands of the operator."""
        return self._opened(self.engine.credits(self.pepper))

    @cached_property
    def payments(self) -> SqlPaymentStore:
        """Payments and their outcomes, rotations of credit tokens, and wallets that have paid."""
        return self._opened(self.engine.payments())

    @cached_property
    def books(self) -> SqlPaymentBooks:
        """The tables of payments, credits and their totals, for audits and operators."""
        return self._opened(self.engine.books())

    @cached_property
    def read_books(self) -> SqlPaymentBooks:
        """The payment and credit tables, over a connection of their own for lists and audits."""
        return self._opened(self.engine.books())

    @cached_property
    def accounts(self) -> AccountStore:
        """People, agents, API keys and e-mails."""
        return SqlAccountStore(self._opened(self.engine.accounts()))

    @cached_property
    def webhooks(self) -> SqlWebhookQueue:
        """Pending webhooks, and the outcomes of finished ones."""
        return self._opened(self.engine.webhooks())

    def shared(self, price: PriceSource, basis: str) -> PriceSource:
        """Return a source of *price* that asks only once for all processes of the database.

        With SQLite, there is only one process, and the result is *price* itself.

        basis   the settings of *price* as a hash: only processes with the same basis share it
        """
        shared = self.engine.shared
        return price if shared is None else self._opened(shared(price, basis))

    def _opened(self, port: Port) -> Port:
        self.stack.push_async_callback(port.close)
        return port
