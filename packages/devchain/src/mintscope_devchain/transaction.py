"""Transactions of the simulated market: the payer, instructions and transfers of each."""

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from mintscope_devchain.market.pool import Fill, Token

TOKEN_ACCOUNT_RENT: Final = 2_039_280
OTHER_RENT: Final = 1_461_600
SIGNATURE_FEE: Final = 5_000

Json = dict[str, object]


class Holding(NamedTuple):
    """The owner and the token of a token account in the simulated market."""

    owner: str
    token: Token


class Move(NamedTuple):
    """A transfer from one account to another: tokens between token accounts, lamports otherwise.

    If the source is "", the tokens are minted; if the target is "", they are burned.
    """

    source: str
    target: str
    amount: int


class Invocation(NamedTuple):
    """One instruction, with the inner instructions of its program.

    says     the text of the log line before those of its inner instructions; "": no such line
    moves    the transfers that the instruction itself makes
    log      the log lines after those of its inner instructions
    fill     the swap that the instruction itself executes; None: it executes none
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
    """The properties of a transaction other than its instructions.

    version      the version of the transaction; None: it is a legacy transaction
    uses_table   whether a lookup table has its keys, except the payer, the token accounts of the
                 payer and the programs of its outer instructions
    failed_at    the index of the instruction that fails, so that only the fee is paid; None: no
                 instruction fails
    """

    payer: str
    fee: int = SIGNATURE_FEE
    version: int | None = 0
    uses_table: bool = False
    failed_at: int | None = None


class MarketTransaction(NamedTuple):
    """A transaction of the simulated market; its JSON is made only when it is requested.

    build    a function that returns its instructions, the same at every call
    before   the balances, before the transaction, of the payer and of the accounts in its transfers
    """

    build: Callable[[], tuple[Invocation, ...]]
    envelope: Submission
    before: Mapping[str, int]


def moves(calls: Iterable[Invocation]) -> list[Move]:
    """Return all transfers that *calls* and the calls inside them make, in order of execution."""
    made: list[Move] = []
    for call in calls:
        if call.inner:
            made += moves(call.inner)
        made += call.moves
    return made


def logged(event: bytes) -> str:
    """Return the log line with which a program publishes *event*."""
    return f"Program data: {b64encode(event).decode()}"
