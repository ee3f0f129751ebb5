"""A DEX program: how its swaps look, and one call of it."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from mintscope.dex.entry import Instruction
from mintscope.dex.ledger import Ledger
from mintscope.market.swap import Swap


class Leg:
    """One pool that an instruction trades with, by positions among its accounts.

    owners   who own its vaults
    pool     the account that names it; None where no recorded swap settles which
    size     how many accounts the instruction must have for that
    """

    __slots__ = ("owners", "pool", "size")

    def __init__(self, owners: tuple[int, ...], pool: int | None = None) -> None:
        self.owners = owners
        self.pool = pool
        self.size = max(*owners, -1, -1 if pool is None else pool) + 1


class Call:
    """One call of a program, with what moved under it and under no DEX deeper down."""

    __slots__ = (
        "events",
        "inner",
        "instruction",
        "lamports",
        "outer",
        "program",
        "token_2022",
        "tokens",
    )

    def __init__(
        self, program: "Program", instruction: Instruction, outer: int, inner: int
    ) -> None:
        self.program = program
        self.instruction = instruction
        self.outer = outer
        self.inner = inner
        self.tokens: list[Instruction] = []
        self.lamports: list[Instruction] = []
        self.events: list[Instruction] = []
        self.token_2022 = False


Reader: TypeAlias = Callable[[Call, tuple[Leg, ...], Ledger], list[Swap]]


class Program(NamedTuple):
    """A row of the table.

    name        as it appears in every swap
    swaps       first bytes of each swap instruction, and the pools that it trades
                with; b"" for a closed program, whose calls are judged by what moved
    read        turns a call that passed the gate into swaps; None for a router,
                whose swaps are those of the programs it calls
    authority   owner of the vaults of every pool, where there is one
    proven      a recorded transaction was decoded and agreed
    how         for people: where the amounts come from
    """

    name: str
    address: str
    swaps: Mapping[bytes, tuple[Leg, ...]]
    read: Reader | None
    authority: str | None = None
    proven: bool = True
    how: str = "transfers"

    @property
    def is_closed(self) -> bool:
        """True where nobody published which instructions are swaps."""
        return b"" in self.swaps
