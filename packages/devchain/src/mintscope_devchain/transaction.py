"""A transaction of the market: its payer, instructions and transfers."""

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from mintscope_devchain.market.pool import Fill, Token

TOKEN_ACCOUNT_RENT: Final = 2_039_280
OTHER_RENT: Final = 1_461_600
SIGNATURE_FEE: Final = 5_000

Json = dict[str, object]


class Holding(NamedTuple):
    """The owner and the token of a token account."""

    owner: str
    token: Token


class Move(NamedTuple):
    """A transfer from one account to another: tokens between token accounts, else lamports.

    With an empty source it mints, with an empty target it burns.
    """

    source: str
    target: str
    amount: int


class Invocation(NamedTuple):
    """One instruction, with the inner instructions of its program.

    says     log lines before those of its inner calls
    moves    transfers of the instruction itself
    log      log lines after those of its inner calls
    fill     the swap of an instruction of an AMM
    """

    program: str
    accounts: tuple[str, ...]
    data: bytes
    says: str = ""
    inner: tuple["Invocation", ...] = ()
    moves: tuple[Move, ...] = ()
    log: tuple[str, ...] = ()
    fill: Fill | None = None


class Submission(NamedTuple):
    """The envelope of a transaction.

    version      None for a legacy transaction
    uses_table   whether its pools and mints are in a lookup table
    failed_at    the instruction that fails, so that only the fee is paid
    """

    payer: str
    fee: int = SIGNATURE_FEE
    version: int | None = 0
    uses_table: bool = False
    failed_at: int | None = None


class MarketTransaction(NamedTuple):
    """A transaction of the market, which is rendered on request.

    build    returns its instructions, the same at every call
    before   balances before it of the accounts in its transfers
    """

    build: Callable[[], tuple[Invocation, ...]]
    envelope: Submission
    before: Mapping[str, int]


def moves(calls: Iterable[Invocation]) -> Iterator[Move]:
    """Yield the moves of *calls*, in order of execution."""
    for call in calls:
        yield from moves(call.inner)
        yield from call.moves


def logged(event: bytes) -> str:
    """Return the log line that contains *event*."""
    return f"Program data: {b64encode(event).decode()}"
