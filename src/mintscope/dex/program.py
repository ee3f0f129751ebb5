"""DEX programs, the layouts of their swaps, and their calls."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import msgspec

from mintscope.dex.base58 import HEAD_SIZE
from mintscope.dex.outcome import Swap
from mintscope.dex.token_accounts import TokenAccounts
from mintscope.solana.transaction import Instruction

# A program emits an event by calling itself with its event authority as the only account.
EVENT_ACCOUNTS_MAX: Final = 1

# First bytes, in hex, of Anchor instructions that many programs have.
SWAP: Final = "f8c69e91e17587c8"
SWAP_V2: Final = "2b04ed0b1ac91e62"
SWAP_2: Final = "414b3f4ceb5b5b88"
BUY: Final = "66063d1201daebea"
SELL: Final = "33e685a4017f83ad"


class Leg:
    """One pool with which an instruction trades, as positions among the instruction's accounts.

    shares   (vault, account with the pool's shares of this vault) if several pools share a vault
    size     minimum number of accounts of the instruction
    """

    __slots__ = ("owners", "pool", "shares", "size", "vaults")

    def __init__(
        self,
        owners: tuple[int, ...],  # owners of the pool's vaults
        pool: int | None = None,  # the account that names the pool; None: its two vaults do
        *,
        vaults: tuple[int, ...] = (),  # if their owners are not among the accounts
        shares: tuple[tuple[int, int], ...] = (),
    ) -> None:
        self.owners = owners
        self.pool = pool
        self.vaults = vaults
        self.shares = shares
        self.size = max(*owners, *vaults, -1, -1 if pool is None else pool) + 1


class Migration(NamedTuple):
    """The positions of accounts in an instruction that moves a token from a curve to a pool."""

    mints: tuple[int, ...]  # one mint, or a pair; the mint that is not SOL migrates
    curve: int  # the curve that the mint leaves
    pool: int  # the account whose address names the new pool in swaps


class Call(msgspec.Struct, gc=False):
    """One call of a DEX program or a router, with the instructions that it made.

    Those are the instructions of the token programs, of the system program, and its own events;
    those made by a deeper `Call`, a router or a transfer hook are not included.
    """

    program: "Program"
    instruction: Instruction
    outer: int  # the position of the top-level instruction
    inner: int  # the position of the call below it; -1 if the call is that instruction itself
    tokens: list[Instruction] = []  # readers get batches expanded, and all data as bytes
    lamports: list[Instruction] = []  # instructions of the system program
    events: list[Instruction] = []  # calls of the program by itself, which publish events
    token_2022: bool = False  # whether some of *tokens* are of Token-2022
    below_router: bool = False  # whether a router made the call; False if the program is listed


Reader: TypeAlias = Callable[[Call, tuple[Leg, ...], TokenAccounts], list[Swap]]


@dataclass(frozen=True, eq=False, slots=True)
class Program:
    """A DEX or a router, usually a row of the table `programs`.

    swaps       by the first bytes of an instruction, the pools with which it trades; b"" stands for
                every other instruction, which is judged by its transfers
    migrations  by the first bytes of an instruction, the accounts of a migration from a curve to a
                pool
    is_pooled   whether a vault holds tokens of several markets, or of a wallet, so that its balance
                does not show the reserve of one pool
    head_size   number of first bytes that identify an instruction: 1 or 8; 0 if b"" is the only key
                of *swaps*

    This is a dataclass, because a negative `isinstance` check of a msgspec struct takes twice as
    long.
    """

    name: str  # the name of the program in swaps
    address: str
    swaps: Mapping[bytes, tuple[Leg, ...]]
    read: Reader | None  # returns the swaps of a call; None for a router
    authority: str | None = None  # owner of the vaults of all pools; None if there is no such owner
    proven: bool = True  # whether a recorded transaction was decoded correctly
    no_swaps: frozenset[bytes] = frozenset()  # first bytes of instructions that never swap
    how: str = "transfers"  # the source of the amounts, as text for people
    migrations: Mapping[bytes, Migration] = field(default_factory=dict)
    is_pooled: bool = False
    head_size: int = field(init=False)

    def __post_init__(self) -> None:
        """Compute `head_size` from the keys of `swaps`."""
        sizes = {len(head) for head in self.swaps}
        size = 0 if sizes == {0} else 1 if sizes <= {0, 1} else HEAD_SIZE
        object.__setattr__(self, "head_size", size)
