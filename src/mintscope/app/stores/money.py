"""The stores of money and accounts in one database."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, TypeVar

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
from mintscope.credits.store import CreditAccounts, GroupCreditLedger
from mintscope.kit.clock import Clock
from mintscope.kit.credentials import Root
from mintscope.kit.sql.database import Database
from mintscope.payments.price_cache import PriceSource
from mintscope.payments.store.books import SqlHourRows, SqlPaymentBooks
from mintscope.payments.store.payments import SqlPaymentStore
from mintscope.watchlists.store import SqlWatchedRows, SqlWatchlistRows

if TYPE_CHECKING:
    from mintscope.payments.store.postgres import SharedPrice

T = TypeVar("T")


class SqlAccountStore:
    """Implements AccountStore."""

    def __init__(self, connections: AccountConnections) -> None:
        self._connections = connections

    async def transact(self, work: Callable[[AccountRows], T]) -> T:
        """Run *work* in the writer's thread; return its result when its changes are durable."""
        return await self._connections.write(lambda db: work(rows_of(db)))

    async def claim(self, work: Callable[[AccountRows], T]) -> T:
        """Return the result of *work*, which must change only rows that it has locked."""
        return await self._connections.write(lambda db: work(rows_of(db)), beside=True)

    async def read(self, work: Callable[[AccountRows], T]) -> T:
        """Return the result of *work*, which must change nothing."""
        return await self._connections.read(lambda db: work(rows_of(db)))


def rows_of(db: Database) -> AccountRows:
    """Return the tables of accounts in *db*, for use inside a transaction."""
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
    """An object with resources to release at the end."""

    async def close(self) -> None:
        """Close files and connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyEngine:
    """Functions that open the parts of money that differ between engines.

    kept_pepper   returns the pepper that is stored beside the database; creates it at first use
    ledger        opens credits, for a process that serves
    credits       opens credits, for a command
    shared        returns a price source that all processes of the database share
    """

    kept_pepper: Callable[[], bytes]
    ledger: Callable[[bytes, Clock], GroupCreditLedger]
    credits: Callable[[bytes], CreditAccounts]
    payments: Callable[[], SqlPaymentStore]
    books: Callable[[], SqlPaymentBooks]
    accounts: Callable[[], AccountConnections]
    webhooks: Callable[[], SqlWebhookQueue]
    shared: Callable[[PriceSource], "SharedPrice"] | None = None  # None: there is only one process


Port = TypeVar("Port", bound=Opened)


@dataclass(eq=False, repr=False)
class Money:
    """The ports of credits, payments and accounts; each is opened at first use.

    stack               closes the opened ports when it is closed
    configured_pepper   the pepper of the configuration; None: the pepper is stored beside the
                        database
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
        """The key of every stored hash; other secrets derive from it until a root replaces it."""
        return self.configured_pepper or self.engine.kept_pepper()

    @cached_property
    def ledger(self) -> CreditLedger:
        """The credits, for a process that serves clients."""
        return self._opened(self.engine.ledger(self.pepper, self.clock))

    @cached_property
    def credits(self) -> CreditAccounts:
        """The credits, for a command."""
        return self._opened(self.engine.credits(self.pepper))

    @cached_property
    def payments(self) -> SqlPaymentStore:
        """Payments and their outcomes, rotations of credit tokens, and wallets that have paid."""
        return self._opened(self.engine.payments())

    @cached_property
    def books(self) -> SqlPaymentBooks:
        """The books of payments, for audits and operators."""
        return self._opened(self.engine.books())

    @cached_property
    def read_books(self) -> SqlPaymentBooks:
        """The books over another connection, so that lists and audits do not delay each other."""
        return self._opened(self.engine.books())

    @cached_property
    def accounts(self) -> AccountStore:
        """People, agents, API keys and e-mails."""
        return SqlAccountStore(self._opened(self.engine.accounts()))

    @cached_property
    def webhooks(self) -> SqlWebhookQueue:
        """Pending webhooks, and the outcomes of finished ones."""
        return self._opened(self.engine.webhooks())

    def shared(self, price: PriceSource) -> PriceSource:
        """Return *price*, or a source that shares the price among all processes of the database."""
        shared = self.engine.shared
        return price if shared is None else self._opened(shared(price))

    def _opened(self, port: Port) -> Port:
        self.stack.push_async_callback(port.close)
        return port
