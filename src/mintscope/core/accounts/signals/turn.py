"""How far the signals have been evaluated, and by whom: one row for the whole installation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mintscope.base.primitives import Mint, UnixMs


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalStanding:
    """How far the signals have been evaluated.

    seq        the position in the swap log that every state of a signal is as of
    version    one more at each change of the signals
    holder     the process that evaluates them; only it may until *held_until*
    """

    seq: int
    version: int
    holder: bytes
    held_until: UnixMs


@dataclass(frozen=True, slots=True)
class MintBase:
    """The base from which a mint is begun again; *packed* is opaque here, *seq* says as of when."""

    mint: Mint
    seq: int
    packed: bytes


class TurnRows(Protocol):
    """That row, and what mints are begun from, inside one transaction."""

    def standing(self) -> SignalStanding:
        """Return the row."""

    def hold(self, holder: bytes, until: UnixMs) -> None:
        """Let *holder* be the process that evaluates."""

    def advance(self, seq: int) -> None:
        """Note how far the signals have been evaluated."""

    def touch(self) -> None:
        """Note that a signal was made, changed or deleted."""

    def bases(self) -> Sequence[MintBase]:
        """Return what mints can be begun from."""

    def keep_bases(self, changed: Sequence[MintBase], seqs: Mapping[Mint, int]) -> None:
        """Replace the bases of *changed*, and the positions of others."""

    def drop_bases(self, mints: Sequence[Mint]) -> None:
        """Forget the bases of *mints*."""
