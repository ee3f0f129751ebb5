"""Credit ledger: ports, debits, instant answers.

A balance is the sum of the entries of its account, and never negative.  Only the ledger decides
whether a spend is covered, in one statement.  Accounts are never deleted.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, runtime_checkable

import msgspec

from mintscope.kit.credentials import CreditToken
from mintscope.kit.primitives import CreditAccount, UnixMs
from mintscope.kit.time import Month

NUMBERS: Final[Mapping[str, int]] = {
    "GET /v1/token/{tokenAddress}": 1,
    "POST /v1/tokens/batch": 2,
    "GET /v1/token/{tokenAddress}/candles": 3,
    "GET /v1/token/{tokenAddress}/indicators": 4,
    "GET /v1/token/{tokenAddress}/swaps": 5,
    "GET /v1/token/{tokenAddress}/traders": 6,
    "GET /v1/token/{tokenAddress}/pools": 7,
    "GET /v1/token/{tokenAddress}/backtest": 8,
    "POST /v1/backtest": 9,
    "POST /v1/prices": 10,
    "GET /v1/screen": 11,
    "POST /v1/screen": 12,
    "GET /v1/udf/history": 13,
    "GET /v1/stream": 14,
    "GET /v1/token/{tokenAddress}/holders": 15,
}
NAMES: Final[Mapping[int, str]] = {number: name for name, number in NUMBERS.items()}


STATEMENT_LINES: Final = 100
STATEMENT_DAYS: Final = 30
ACCOUNTS_A_PAGE: Final = 200
FIRST: Final = CreditAccount(0)  # before every account


class Spent(msgspec.Struct, frozen=True, gc=False):
    """One credit was taken, durably; the remaining *balance* is >= 0."""

    balance: int


class Empty(msgspec.Struct, frozen=True, gc=False):
    """The account holds no credit; nothing was taken."""


class LedgerEntry(msgspec.Struct, frozen=True, gc=False):
    """An entry that changed a balance, and the balance after it."""

    kind: str
    delta: int
    balance: int
    at: UnixMs


class DayUse(msgspec.Struct, frozen=True, gc=False):
    """Credits that requests took on one day, in UTC, minus those given back.

    day    since 1970-01-01
    """

    day: int
    credits: int


class Statement(msgspec.Struct, frozen=True, gc=False):
    """The credits that an account received and spent, as of one moment.

    spent      total spent on requests; credits that were given back are an entry
    entries    the newest STATEMENT_LINES entries other than spends, newest first
    days       the newest STATEMENT_DAYS days with spends, newest first
    """

    balance: int
    spent: int
    entries: Sequence[LedgerEntry]
    days: Sequence[DayUse] = ()


class CreditLedger(Protocol):
    """The ledger as the API uses it; each method is atomic.

    Every method raises ServiceUnavailable if the store does not answer.  Then no credits
    were taken, or a reversal gives them back.
    """

    async def issue(self, token: CreditToken, credit_count: int, note: str) -> CreditAccount:
        """Open the account of *token* with a grant of *credit_count* (>= 1)."""

    async def find(self, bearer: str) -> CreditAccount | None:
        """Return the account of the credit token *bearer*; None if unknown or rotated.

        Malformed, mistyped and unknown tokens take the same path, in the same time.
        """

    async def root(self, account: CreditAccount) -> CreditAccount:
        """Return the first account of the chain of rotations that *account* came from."""

    async def spend(self, account: CreditAccount) -> Spent | Empty:
        """Take one credit if there is one; return once that is durable."""

    async def balance(self, account: CreditAccount) -> int:
        """Return the credits left."""

    async def statement(self, account: CreditAccount) -> Statement:
        """Return the credits that *account* received and spent."""

    async def expect_writable(self) -> None:
        """Test that the store can write durably; raise ServiceUnavailable if it cannot."""


class AccountLine(msgspec.Struct, frozen=True):
    """A credit account for operators.

    credit_count   the total it received; None until most of the journal is added up
    """

    account: CreditAccount
    hint: str
    note: str
    issued_at: UnixMs
    credit_count: int | None
    balance: int


class KindLine(msgspec.Struct, frozen=True):
    """The sum of all entries of one kind in one account."""

    kind: str
    delta: int
    first_at: UnixMs
    last_at: UnixMs


KEPT_MS: Final = 10 * 60_000  # how long a paid answer can be sent again


class Debit(msgspec.Struct, frozen=True, gc=False):
    """*credit_count* credits of *account*, >= 1, spent by the API key of id *key*.

    once      the name of the answer that the credits buy, unique in the account; for KEPT_MS a
              debit with the same name takes no credits.  None: the answer has no name
    endpoint  the number of the endpoint, as in NUMBERS; None: it has none
    """

    account: CreditAccount
    credit_count: int
    key: int | None = None
    once: str | None = None
    endpoint: int | None = None


class Reversal(msgspec.Struct, frozen=True, gc=False):
    """Credits to give back; those of an API key also reduce its use in the month of the debit.

    minute    the number of the minute that the credits paid for in advance; they are given back
              only while the store has that minute, and so at most once
    once      the name of the answer that the credits bought; the name is forgotten
    endpoint  the endpoint of the debit
    """

    account: CreditAccount
    credit_count: int
    key: int | None = None
    month: Month | None = None
    minute: int | None = None
    once: str | None = None
    endpoint: int | None = None


class Debited(msgspec.Struct, frozen=True, gc=False):
    """All credits of *debit* were taken durably in *month*; the remaining *balance* is >= 0.

    minute      the number of the minute that the credits paid for in advance; None: they paid for
                an answer that is sent at once
    is_repeat   no credits were taken, because an answer of this name was paid for before
    """

    debit: Debit
    balance: int
    month: Month
    minute: int | None = None
    is_repeat: bool = False

    def reversal(self, credit_count: int | None = None) -> Reversal:
        """Return the reversal of *credit_count* of the debited credits, or of all by default."""
        taken = self.debit
        count = credit_count
        if count is None:
            count = taken.credit_count
        assert 1 <= count <= taken.credit_count
        assert not self.is_repeat
        month = None if taken.key is None else self.month
        return Reversal(
            taken.account, count, taken.key, month, self.minute, taken.once, taken.endpoint
        )


class TooFew(msgspec.Struct, frozen=True, gc=False):
    """The account holds *balance* credits, fewer than requested; nothing was taken."""

    balance: int


class CapReached(msgspec.Struct, frozen=True, gc=False):
    """The debit would exceed the API key's spending cap in *month*; nothing was taken."""

    month: Month


DebitOutcome = Debited | TooFew | CapReached


@runtime_checkable
class DebitLedger(Protocol):
    """The ledger for callers that take several credits at once, or pay with an API key.

    Raises ServiceUnavailable from every method when the store does not answer.
    """

    async def debit(self, debit: Debit) -> DebitOutcome:
        """Take all credits of *debit* or none; return once that is durable.

        If the caller is cancelled before, its credits are given back, even if this process dies.
        """

    async def expect_cap(self, key: int, credit_count: int) -> CapReached | None:
        """Return CapReached if *key* may not spend *credit_count* more in this month, else None."""

    async def prepay(self, debit: Debit) -> DebitOutcome:
        """Debit as `debit` does, for a new minute of a stream.

        The same commit stores that minute.  If this process dies before it has sent anything of the
        minute, another process gives the credits back.
        """

    def note_sent(self, debited: Debited) -> None:
        """Record that part of the minute *debited* was sent, or that the minute has ended.

        A later commit stores this.  If this process dies before it, the credits are given back.
        """

    async def give_back(self, debited: Debited, credit_count: int) -> None:
        """Give back *credit_count* of the debited credits; return once the refund is durable.

        If the store does not answer, the credits are given back as soon as it does.
        """

    def owe(self, reversal: Reversal) -> None:
        """Give back *reversal* with a later commit, because the response could not be sent."""


class Remembered(msgspec.Struct, frozen=True, gc=False):
    """A cached account; *root* is the first account of its chain of rotations."""

    account: CreditAccount
    root: CreditAccount


class DebitWaiter(Protocol):
    """Receives the outcome of a debit once, in the event loop; a future is a DebitWaiter.

    Its methods must return quickly, because other debits of the batch wait for them.
    """

    def done(self) -> bool:
        """Return whether the waiter has its outcome, or was cancelled."""

    def set_result(self, outcome: Spent | Empty, /) -> None:
        """Report the outcome."""

    def set_exception(self, failure: Exception, /) -> None:
        """Report the error that prevented an outcome."""


@runtime_checkable
class InstantLedger(Protocol):
    """A CreditLedger that answers from memory for accounts it has seen before."""

    def recall(self, bearer: bytes) -> Remembered | None:
        """Return the cached results of `find` and `root` for *bearer*.

        None if they are not in memory, or if the account was empty when it last spent: another
        process may have filled it since, so ask `find` then.
        """

    def spend_for(self, account: CreditAccount, waiter: DebitWaiter) -> None:
        """Take one credit if there is one; *waiter* gets the outcome once that is durable.

        If the waiter is cancelled before, its credit is given back.  Raises ServiceUnavailable.
        """
