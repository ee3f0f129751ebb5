"""DEX programs, the layouts of their swaps, and their calls."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import msgspec

from mintscope.dex.base58 import HEAD_SIZE
from mintscope.dex.outcome import Swap
from mintscope.dex.token_accounts import TokenAccounts
from mintscope.solana.transaction import Instruction

# A program emits an event by calling itself with no account but its authority.
EVENT_ACCOUNTS_MAX: Final = 1

# First bytes, in hex, of Anchor instructions that many programs have.
SWAP: Final = "f8c69e91e17587c8"
SWAP_V2: Final = "2b04ed0b1ac91e62"
SWAP_2: Final = "414b3f4ceb5b5b88"
BUY: Final = "66063d1201daebea"
SELL: Final = "33e685a4017f83ad"


class Leg:
    """One pool that an instruction trades with, by the positions of its accounts.

    owners   owners of its vaults
    pool     the account whose address names it; None: its two vaults name it
    vaults   its vaults, if their owners are not among the accounts
    shares   (vault, the account with the pool's shares of it) if pools share their vaults
    size     minimum number of accounts of the instruction
    """

    __slots__ = ("owners", "pool", "shares", "size", "vaults")

    def __init__(
        self,
        owners: tuple[int, ...],
        pool: int | None = None,
        *,
        vaults: tuple[int, ...] = (),
        shares: tuple[tuple[int, int], ...] = (),
    ) -> None:
        self.owners = owners
        self.pool = pool
        self.vaults = vaults
        self.shares = shares
        self.size = max(*owners, *vaults, -1, -1 if pool is None else pool) + 1


class Migration(NamedTuple):
    """The accounts of a migration, by their positions.

    mints   the pair, of which the mint that is not SOL migrates
    curve   the curve that it leaves
    pool    the address that names the new pool in its swaps
    """

    mints: tuple[int, ...]
    curve: int
    pool: int


class Call(msgspec.Struct, gc=False):
    """One call of a program, with the instructions below it that belong to no deeper DEX call.

    tokens   instructions of the token programs; before a reader runs, batches are expanded, and all
             data are bytes
    """

    program: "Program"
    instruction: Instruction
    outer: int
    inner: int
    tokens: list[Instruction] = []
    lamports: list[Instruction] = []
    events: list[Instruction] = []
    token_2022: bool = False
    below_router: bool = False


Reader: TypeAlias = Callable[[Call, tuple[Leg, ...], TokenAccounts], list[Swap]]


@dataclass(frozen=True, eq=False, slots=True)
class Program:
    """A row of the table.

    name        as it appears in every swap
    swaps       first bytes of each swap instruction, and the pools with which it trades; b"" stands
                for every other instruction of a closed program, which is judged by its transfers
    read        returns the swaps of a call; None for a router, which calls other programs to swap
    authority   owner of the vaults of all pools; None if there is no such owner
    proven      whether a recorded transaction was decoded correctly
    no_swaps    first bytes of instructions whose transfers look like a swap but are none
    how         source of the amounts, for people
    migrations  first bytes of the instructions that move a mint from its curve to a pool
    is_pooled   whether its vaults hold tokens of several markets, or of a wallet, so that they do
                not show the content of a pool
    head_size   number of first bytes that identify an instruction: 1 or 8; 0: none

    It is a dataclass, because a negative `isinstance` check of a struct takes twice as long.
    """

    name: str
    address: str
    swaps: Mapping[bytes, tuple[Leg, ...]]
    read: Reader | None
    authority: str | None = None
    proven: bool = True
    no_swaps: frozenset[bytes] = frozenset()
    how: str = "transfers"
    migrations: Mapping[bytes, Migration] = field(default_factory=dict)
    is_pooled: bool = False
    head_size: int = field(init=False)

    def __post_init__(self) -> None:
        """Compute the size of the heads."""
        sizes = {len(head) for head in self.swaps}
        size = 0 if sizes == {0} else 1 if sizes <= {0, 1} else HEAD_SIZE
        object.__setattr__(self, "head_size", size)
