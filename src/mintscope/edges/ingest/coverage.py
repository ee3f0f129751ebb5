"""Counts the calls of a block by what came of them: read, read by transfers, or missed."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from mintscope.base.metrics import EXCHANGED_USD, EXCHANGES
from mintscope.base.primitives import MICRO_USD, MINT_LENGTH_MIN, Mint
from mintscope.base.solana import STABLES, WSOL
from mintscope.core.dex.outcome import Decoded, Moved
from mintscope.core.market.coverage import OTHER, READ, UNLISTED, SlotCoverage, Tally
from mintscope.core.market.log import SlotHeader
from mintscope.core.market.swap import RecognisedBy, Swap

LAMPORTS_PER_MILLIONTH_SOL: Final = 1_000
# More than one call can move: a mistake, or invalid tokens.
CALL_VOLUME_MAX: Final = 10**15
# Labels of metrics: of programs that are not in the table anyone can make any number.
MISSED: Final = "missed"
ADDRESSES_MAX: Final = 100


def slot_coverage(
    header: SlotHeader, decoded: Decoded, dollars: frozenset[Mint] = STABLES
) -> SlotCoverage:
    """Return what the block of *header* held; its SOL is worth what *header* says.

    dollars   the mints that are worth a dollar now, each of 6 decimals
    """
    values = _Values(header.sol_usd, dollars)
    calls: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    missed: dict[Mint, list[int]] = defaultdict(lambda: [0, 0, 0])
    _add_swaps(decoded.swaps, values, calls)
    for one in decoded.unlisted:
        _add(calls[one.address, UNLISTED], values.of(one.moved))
    for lost in decoded.quarantined:
        value = values.of(lost.moved)
        _add(calls[lost.program, lost.reason.value], value)
        for mint in lost.mints:
            _add(missed[mint], value)
    return SlotCoverage(
        slot=header.slot,
        parent_slot=header.parent_slot,
        time=header.time,
        calls={key: Tally(*sums) for key, sums in calls.items()},
        missed={mint: Tally(*sums) for mint, sums in missed.items()},
    )


class _Values:
    """The values of amounts in micro-USD; None if neither SOL nor a dollar."""

    def __init__(self, sol_usd: float | None, dollars: frozenset[Mint]) -> None:
        self._sol_usd = sol_usd
        self._dollars: frozenset[str] = dollars

    def of(self, moved: Moved | None) -> int | None:
        return None if moved is None else self.amount(moved.quote, moved.amount)

    def exchanged(self, swap: Swap) -> int | None:
        """Return the value of its dollars, else of its SOL."""
        paid = self.amount(swap.out_mint, swap.out_amount)
        if paid is not None and swap.out_mint in self._dollars:
            return paid
        received = self.amount(swap.in_mint, swap.in_amount)
        if received is not None and (paid is None or swap.in_mint in self._dollars):
            return received
        return paid

    def amount(self, mint: str, amount: int) -> int | None:
        if mint in self._dollars:
            value = amount
        elif mint == WSOL and self._sol_usd is not None:
            value = int(amount / LAMPORTS_PER_MILLIONTH_SOL * self._sol_usd)
        else:
            return None
        return value if value <= CALL_VOLUME_MAX else None


def _add(sums: list[int], value: int | None) -> None:
    sums[0] += 1
    if value is not None:
        sums[1] += 1
        sums[2] += value


def _add_swaps(
    swaps: Iterable[Swap], values: _Values, calls: dict[tuple[str, str], list[int]]
) -> None:
    """Add the calls of *swaps*, of which several legs are one."""
    before = None
    for swap in swaps:
        if swap.recognised_by is RecognisedBy.TRANSFERS:
            continue  # by its address, in Decoded.unlisted
        sums = calls[swap.program, READ]
        value = values.exchanged(swap)
        at = swap.transaction_index, swap.outer, swap.inner
        if at != before:
            _add(sums, value)
        elif value is not None:
            sums[1] = min(sums[0], sums[1] + 1)
            sums[2] += value
        before = at


class CoverageMetrics:
    """Shows what is counted, of a bounded number of programs."""

    def __init__(self) -> None:
        self._addresses: set[str] = set()

    def count(self, coverage: SlotCoverage) -> None:
        """Add what one block held."""
        for (program, outcome), tally in coverage.calls.items():
            labels = self._named(program), outcome if outcome in {READ, UNLISTED} else MISSED
            EXCHANGES.labels(*labels).inc(tally.calls)
            EXCHANGED_USD.labels(*labels).inc(tally.volume / MICRO_USD)

    def _named(self, program: str) -> str:
        if len(program) < MINT_LENGTH_MIN or program in self._addresses:
            return program
        if len(self._addresses) >= ADDRESSES_MAX:
            return OTHER
        self._addresses.add(program)
        return program


def show_programs(programs: Iterable[str]) -> None:
    """Show those of the table as 0 from the start: a rise from nothing is a rise, too."""
    for program in programs:
        for outcome in (READ, MISSED):
            EXCHANGES.labels(program, outcome)
            EXCHANGED_USD.labels(program, outcome)
