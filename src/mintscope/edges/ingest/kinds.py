"""Counts what a block held that was not read, by kind."""

from collections.abc import Iterator
from typing import Final

from mintscope.base.primitives import Mint, Signature
from mintscope.base.solana import WSOL
from mintscope.core.dex.outcome import Decoded, Moved
from mintscope.core.market.coverage import NotRead
from mintscope.core.market.log import SlotHeader
from mintscope.core.market.store import UNKNOWN_PROGRAM

# Anyone can make any number of them: the rest is counted as one.
KINDS_MAX: Final = 50
OTHER: Final = "other"
LAMPORTS_PER_MILLIONTH_SOL: Final = 1_000


class Kinds:
    """One block's; a kind is a program, a reason and the first bytes of an instruction."""

    def __init__(self, decoded: Decoded, dollars: frozenset[Mint]) -> None:
        """Count what *decoded* leaves out, and what it read without a name.

        dollars   the mints that are worth a dollar now, each of 6 decimals
        """
        self._dollars: frozenset[str] = dollars
        self._counts: dict[tuple[str, str, str], int] = {}
        self._micro_usd: dict[tuple[str, str, str], int] = {}
        self._lamports: dict[tuple[str, str, str], int] = {}
        self._examples: dict[tuple[str, str, str], Signature | None] = {}
        for one in decoded.quarantined:
            self._add((one.program, one.reason.value, one.head), one.moved, one.signature)
        for swap in decoded.unlisted:
            self._add((swap.address, UNKNOWN_PROGRAM, swap.head), swap.moved, swap.signature)

    def counted(self, header: SlotHeader) -> Iterator[NotRead]:
        """Yield each kind, its SOL in dollars at the rate of *header*, if it has one."""
        for key, count in self._counts.items():
            program, reason, head = key
            sol = self._lamports.get(key, 0) / LAMPORTS_PER_MILLIONTH_SOL * (header.sol_usd or 0)
            yield NotRead(
                time=header.time,
                program=program,
                reason=reason,
                head=head,
                count=count,
                volume=self._micro_usd.get(key, 0) + int(sol),
                signature=self._examples[key],
            )

    def _add(
        self, key: tuple[str, str, str], moved: Moved | None, signature: Signature | None
    ) -> None:
        if key not in self._counts and len(self._counts) >= KINDS_MAX:
            key = OTHER, key[1], ""
        self._counts[key] = self._counts.get(key, 0) + 1
        self._examples.setdefault(key, signature)
        if moved is None:
            return
        if moved.quote in self._dollars:
            self._micro_usd[key] = self._micro_usd.get(key, 0) + moved.amount
        elif moved.quote == WSOL:
            self._lamports[key] = self._lamports.get(key, 0) + moved.amount
