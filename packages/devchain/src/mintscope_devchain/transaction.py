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

    An empty source mints, an empty target burns.
    """

    source: str
    target: str
    amount: int


class Invocation(NamedTuple):
    """One instruction, with those its program invokes.

    says     first lines that the program logs
    moves    its own transfers
    log      lines after those of its inner calls
    fill     set on the instruction of an AMM that swaps
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

    version      None for a legacy one
    uses_table   its pools and mints come from a lookup table
    failed_at    the instruction that fails, and with it all of it but the fee
    """

    payer: str
    fee: int = SIGNATURE_FEE
    version: int | None = 0
    uses_table: bool = False
    failed_at: int | None = None


class MarketTransaction(NamedTuple):
    """A transaction the market made, to be rendered on request.

    build    its instructions, the same ones at every call
    before   balances of the accounts it names in a move, as they were
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
    """Return the log line that carries *event*."""
    return f"Program data: {b64encode(event).decode()}"
