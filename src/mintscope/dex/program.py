"""A DEX program: the layout of its swaps, and one call of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import msgspec

from mintscope.dex.base58 import HEAD_SIZE
from mintscope.dex.outcome import Swap
from mintscope.dex.token_accounts import TokenAccounts
from mintscope.solana.transaction import Instruction

# A program that calls itself with its authority as the sole account emits an event.
EVENT_ACCOUNTS_MAX: Final = 1


class Leg:
    """One pool that an instruction trades with, by the positions of its accounts.

    owners   who own its vaults
    pool     the account that names it; None: its two vaults do
    vaults   its vaults, if their owners are not among the accounts
    shares   (vault, the account with the pool's shares of it) if pools share their vaults
    size     how many accounts the instruction must have for that
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

    mints   of the pair: the one that is not SOL leaves the curve
    curve   which it leaves
    pool    which takes the curve's place, as its swaps name it
    """

    mints: tuple[int, ...]
    curve: int
    pool: int


class Call(msgspec.Struct, gc=False):
    """One call of a program, with the moves under it that no deeper DEX call made.

    tokens   instructions of the token programs; readers get those of a batch one by one, and the
             data of all as bytes
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
    swaps       first bytes of each swap instruction, and the pools that it trades
                with; b"" stands for any other of a closed program, whose calls are
                judged by its transfers
    read        turns a call that passed the gate into swaps; None for a router,
                whose swaps are those of the programs it calls
    authority   owner of the vaults of every pool, if there is one
    proven      a recorded transaction was decoded and agreed
    no_swaps    first bytes of instructions whose transfers look like a swap, and are none
    how         for people: where the amounts come from
    migrations  first bytes of each instruction that moves a mint from its curve to a pool
    is_pooled   what its vaults hold is not the pool's alone: many markets share them, or they are
                a wallet.  So they show nothing of what stands in the pool
    head_size   how many bytes separate its instructions: 1 or 8; 0: nothing does

    A dataclass: `isinstance` of a struct type takes twice as long if the answer is no.
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
        """Store the size of the heads; a 1-byte head is followed by varying amounts."""
        sizes = {len(head) for head in self.swaps}
        size = 0 if sizes == {0} else 1 if sizes <= {0, 1} else HEAD_SIZE
        object.__setattr__(self, "head_size", size)
