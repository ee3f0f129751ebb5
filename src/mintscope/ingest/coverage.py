"""Counts the exchanges that were read or not read, by program, and checks for silent venues."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from mintscope.dex.outcome import Decoded, Moved, RecognisedBy, Swap
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.metrics import EXCHANGED_USD, EXCHANGES, VENUE_SILENT_S
from mintscope.kit.primitives import MICRO_USD, MINT_LENGTH_MIN, Mint, Signature, UnixS
from mintscope.kit.time import HOUR_S, MINUTE_S
from mintscope.market.coverage import OTHER, READ, UNLISTED, NotRead, SlotCoverage, Tally
from mintscope.market.log import SlotHeader
from mintscope.market.ports import UNKNOWN_PROGRAM
from mintscope.solana.blocks import STABLES, WSOL

LAMPORTS_PER_MILLIONTH_SOL: Final = 1_000
# Maximum value of a call in micro-USD; a larger value is an error, and counts as unknown.
CALL_VOLUME_MAX: Final = 10**15
# MISSED labels all outcomes but READ and UNLISTED.  Anyone can create programs, so at most
# ADDRESSES_MAX addresses become labels of metrics.
MISSED: Final = "missed"
ADDRESSES_MAX: Final = 100


def slot_coverage(
    header: SlotHeader, decoded: Decoded, dollars: frozenset[Mint] = STABLES
) -> SlotCoverage:
    """Return the numbers of exchanges of one block that were read or missed, by program.

    header    the block; its rate of SOL values the exchanges in USD
    dollars   mints that are worth a dollar now; each has 6 decimals
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
    """Values amounts of SOL and dollar tokens in micro-USD; an unknown value is None."""

    def __init__(self, sol_usd: float | None, dollars: frozenset[Mint]) -> None:
        self._sol_usd = sol_usd
        self._dollars: frozenset[str] = dollars

    def of(self, moved: Moved | None) -> int | None:
        return None if moved is None else self.amount(moved.quote, moved.amount)

    def exchanged(self, swap: Swap) -> int | None:
        """Return the value of *swap* in micro-USD; None if it is unknown.

        The dollars in it count, or else its SOL.
        """
        out_mint = swap.out_mint
        in_mint = swap.in_mint
        paid = self.amount(out_mint, swap.out_amount)
        if paid is not None and out_mint in self._dollars:
            return paid
        received = self.amount(in_mint, swap.in_amount)
        if received is not None and (paid is None or in_mint in self._dollars):
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
    """Count the calls that made *swaps*, by program; several swaps of one call count once."""
    before = None
    is_valued = False
    for swap in swaps:
        if swap.recognised_by is RecognisedBy.TRANSFERS:
            continue  # `Decoded.unlisted` counts these by their address
        sums = calls[swap.program, READ]
        value = values.exchanged(swap)
        at = swap.transaction_index, swap.outer, swap.inner
        if at != before:
            _add(sums, value)
            is_valued = value is not None
        elif value is not None:
            sums[1] += not is_valued
            sums[2] += value
            is_valued = True
        before = at


class CoverageMetrics:
    """Exports the numbers of read and missed exchanges, for a bounded number of programs."""

    def __init__(self) -> None:
        self._addresses: set[str] = set()

    def count(self, coverage: SlotCoverage) -> None:
        """Add the exchanges of one block to the metrics."""
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
    """Set the metrics of exchanges to 0 for *programs*, so that their first one is an increase."""
    for program in programs:
        for outcome in (READ, MISSED):
            EXCHANGES.labels(program, outcome)
            EXCHANGED_USD.labels(program, outcome)


SILENT_S_MIN: Final = 30
STILL_S: Final = 10  # a longer time between two blocks counts for no venue
SILENT_FACTOR: Final = 4  # multiple of the longest silence of the last one to two hours
KEPT_S: Final = HOUR_S
WATCHED_S_MIN: Final = 10 * MINUTE_S  # a venue with swaps for a shorter time is never silent
SWAPS_MIN: Final = 100
NAMED_MAX: Final = 3


@dataclass(slots=True)
class _Venue:
    """Counts the swaps of one program, and measures the time between them.

    Time is in seconds, and stands still while no blocks are read (`VenueWatch`).
    """

    first: int
    last: int
    begun: int  # start of the current hour of observation
    swaps: int = 0
    longest_s: int = 0  # longest silence in this hour
    longest_before_s: int = 0  # longest silence in the hour before

    def note(self, time: int, count: int) -> None:
        if time - self.begun >= KEPT_S:
            self.begun = time
            self.longest_before_s = self.longest_s
            self.longest_s = 0
        self.longest_s = max(self.longest_s, time - self.last)
        self.last = time
        self.swaps += count

    @property
    def usual_s(self) -> int:
        """The longest time between two swaps in the last one to two hours, at least one second."""
        return max(self.longest_s, self.longest_before_s, 1)

    def is_silent(self, now: int) -> bool:
        is_known = self.swaps >= SWAPS_MIN and self.last - self.first >= WATCHED_S_MIN
        return is_known and now - self.last > max(SILENT_S_MIN, SILENT_FACTOR * self.usual_s)


class VenueWatch:
    """Watches for venues (programs) that no longer have swaps.

    A venue is silent if it has had no swap for more than four times its longest silence of the last
    one to two hours, and for more than 30 s.  Before that, it must have had SWAPS_MIN swaps over
    WATCHED_S_MIN seconds.

    Blocks that do not arrive must not make a venue silent.  So time is measured by the times of
    blocks, and the time between two blocks does not count if it is longer than STILL_S seconds: the
    chain stood still, or blocks were missed.
    """

    def __init__(self) -> None:
        self._venues: dict[str, _Venue] = {}
        self._newest = UnixS(0)  # the time of the newest block
        self._now = 0  # seconds of observation

    def note(self, time: UnixS, swaps: Mapping[str, int]) -> None:
        """Add the number of swaps in a block at *time*, by program."""
        passed_s = time - self._newest
        if passed_s > 0:
            self._newest = time
            self._now += passed_s if passed_s <= STILL_S else 0
        now = self._now
        for program, count in swaps.items():
            venue = self._venues.get(program)
            if venue is None:
                venue = self._venues[program] = _Venue(now, now, now)
                # The default value binds this venue; the variable changes with the loop.
                VENUE_SILENT_S.labels(program).set_function(
                    lambda venue=venue: self._now - venue.last  # type: ignore[misc]
                )
            venue.note(now, count)

    async def expect_none_silent(self) -> None:
        """Raise ServiceUnavailable while a venue is silent."""
        silent = {
            program: venue for program, venue in self._venues.items() if venue.is_silent(self._now)
        }
        if not silent:
            return
        said = ", ".join(
            f"{program} for {self._now - venue.last} s, and lately never for more than"
            f" {venue.usual_s} s"
            for program, venue in list(silent.items())[:NAMED_MAX]
        )
        raise ServiceUnavailable(
            f"{len(silent)} programs no longer have swaps: {said}: the programs may have been"
            " upgraded, or the blocks may lack transactions: run mintscope programs --unread"
        )


# Anyone can create more kinds: in a block, those beyond this number are one kind for each reason.
KINDS_MAX: Final = 50
OTHER_KIND: Final = "other"


class UnreadCounters:
    """Counts the unread calls of a block by kind: program, reason and first bytes of the data."""

    def __init__(self, decoded: Decoded, dollars: frozenset[Mint]) -> None:
        """Count the unread exchanges in *decoded*, a block.

        These are the quarantined calls, and the swaps of programs that are not in the list of
        DEXes.

        dollars   mints that are worth a dollar now; each has 6 decimals
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
        """Yield number and volume of the unread exchanges, by program, reason and instruction.

        header    the newest block; SOL is valued at its rate, or at 0 if it has none
        """
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
            key = OTHER_KIND, key[1], ""
        self._counts[key] = self._counts.get(key, 0) + 1
        self._examples.setdefault(key, signature)
        if moved is None:
            return
        if moved.quote in self._dollars:
            self._micro_usd[key] = self._micro_usd.get(key, 0) + moved.amount
        elif moved.quote == WSOL:
            self._lamports[key] = self._lamports.get(key, 0) + moved.amount
