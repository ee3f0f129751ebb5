"""The share of the chain's token exchanges that was read, in total, by hour and by program.

Call      an instruction that exchanged tokens, or an instruction of a listed program that should
          have exchanged tokens.  The table in `dex.programs` lists the programs
Read      decoded as a call of a listed program, or read from its transfers if the program is not
          listed
Missed    quarantined for a reason: its swaps are in no candle and in no volume
Window    the hour of the newest block and the hour before it: 60 to 120 minutes
Volume    micro-USD of the calls that moved SOL or a dollar token, at the SOL rate of their block
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import floor
from typing import Annotated, Final, NamedTuple, Protocol

import msgspec

from mintscope.kit.primitives import Mint, Signature, Slot, UnixS, about
from mintscope.kit.time import HOUR_S

READ: Final = "read"
UNLISTED: Final = "unlisted"
# The name under which all programs, or mints, that are not counted by name are counted together.
OTHER: Final = "other"
WINDOW_HOURS: Final = 2
DAY_HOURS: Final = 24
WEEK_HOURS: Final = 7 * DAY_HOURS

# A program has a jump if more than JUMP_CALLS_MIN of its calls were missed in the window, if these
# are more than JUMP_SHARE_MIN of all its calls, and if they are more than JUMP_FACTOR times as many
# as in WINDOW_HOURS average hours of the day before.
JUMP_CALLS_MIN: Final = 20
JUMP_SHARE_MIN: Final = 0.01
JUMP_FACTOR: Final = 4
MISSED_NAMED: Final = 10  # the most programs named in /v1/health and on /status
SHARE_DIGITS: Final = 4


class Tally(NamedTuple):
    """Counts of the calls of a program.

    calls    the number of calls
    valued   the number of those whose volume is known
    volume   the sum of the known volumes, in micro-USD
    """

    calls: int = 0
    valued: int = 0
    volume: int = 0


NONE: Final = Tally()


class SlotCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """The program calls in one block that exchange tokens, by whether they were read.

    calls    the calls by program and outcome: READ, UNLISTED, or the reason why they were missed
    missed   the missed calls by mint; a call counts for the mints of the token accounts that it
             names, at most 8
    """

    slot: Slot
    parent_slot: Slot
    time: UnixS
    calls: Mapping[tuple[str, str], Tally]
    missed: Mapping[Mint, Tally]


class ProgramHour(NamedTuple):
    """The number of calls of a program in one hour with the same outcome, and their volume.

    hour      hours since 1970-01-01 UTC, by the time of blocks
    program   the name of the program, its address if it is not listed, or OTHER for all programs
              that are not counted by name
    outcome   READ, UNLISTED, or the reason why the calls were missed
    """

    hour: int
    program: str
    outcome: str
    tally: Tally


class Coverage(NamedTuple):
    """The numbers of token exchanges on the chain that were read and missed in the newest hours.

    since, time     the start of the first hour, and the time of the newest block, in Unix seconds
    blocks          the number of blocks that were read
    skipped_slots   slots proven to have no block, because the next block has an earlier parent
    missing_slots   slots in gaps that are still open
    """

    since: UnixS
    time: UnixS
    rows: Sequence[ProgramHour]
    blocks: int
    skipped_slots: int
    missing_slots: int

    def after(self, since: UnixS) -> Sequence[ProgramHour]:
        """Return the counts of each program in the hours that began at *since* or later."""
        return [row for row in self.rows if row.hour * HOUR_S >= since]

    def before(self, until: UnixS) -> Sequence[ProgramHour]:
        """Return the counts of each program in the hours that had ended by *until*."""
        return [row for row in self.rows if (row.hour + 1) * HOUR_S <= until]


class MintCoverage(NamedTuple):
    """The counts of the swaps of a mint that were read and set a price, and of its missed calls."""

    read: Tally
    missed: Tally


class MissedMints(NamedTuple):
    """The mints with calls that were missed in the hour of the newest block or the hour before it.

    is_whole   whether *by_mint* has all of these mints; if not, others are counted together
    """

    by_mint: Mapping[Mint, MintCoverage]
    is_whole: bool


class NotRead(msgspec.Struct, frozen=True, kw_only=True):
    """Program calls of one kind that could not be read, or were read from transfers.

    time        the time of the newest block with such a call
    program     the name of the program, its address if it is not listed, or OTHER for all others
    reason      why the calls were not read; `unknown_program`: read from transfers, because the
                program is not listed
    head        the first bytes of the instruction, hex, if the decoder does not know them;
                otherwise empty
    count       the number of calls
    volume      estimated micro-USD; a call without a known amount of SOL or dollars counts as 0,
                and so does SOL without a rate
    signature   the signature of an example; None if unknown
    """

    time: UnixS
    program: str
    reason: str
    head: str
    count: int
    volume: int
    signature: Signature | None


class CoverageReader(Protocol):
    """Reads, while ingest writes, which exchanges on the chain were read and which were missed.

    Every method raises ServiceUnavailable if the store does not answer.
    """

    async def coverage(self, hours: int) -> Coverage | None:
        """Return the numbers of exchanges that were read and missed in the newest *hours* hours.

        The last of these hours is that of the newest block.  None before the first block.

        hours   at most a week
        """

    async def missed_mints(self) -> MissedMints:
        """Return the mints with calls that were missed in this hour or the hour before it.

        This hour is that of the newest block.
        """

    async def not_read(self, limit: int) -> Sequence[NotRead]:
        """Return up to *limit* kinds of program calls that were not read in the newest 24 hours.

        Those with the most volume come first.  The last of these hours is that of the newest block.
        """


class Shares(NamedTuple):
    """The parts of the calls and of their volume that were read, 0 to 1; None without any.

    Parts are rounded down, so 1 means that no call, or no known volume, was missed.
    """

    by_calls: float | None
    by_volume: float | None


class ReadShare(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The share of exchanges that was read, from 0 to 1, rounded down to 4 digits."""

    by_calls: Annotated[
        float | None, about("The part of the calls; null if there was none.", 0.9987)
    ]
    by_volume: Annotated[
        float | None,
        about("The part of the volume, of calls whose volume is known; null if none is.", 0.9992),
    ]


class ReportCoverage(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={"from_": "from", "missing_slots": "missingSlots", "skipped_slots": "skippedSlots"},
):
    """The share of recent exchanges that was read, for this token and for all tokens."""

    from_: Annotated[
        UnixS,
        about("Since when: the start of the hour before that of `to`, Unix seconds.", 1763452800),
    ]
    to: Annotated[UnixS, about("Block time as of which it was counted.", 1763460000)]
    token: Annotated[
        ReadShare, about("Of calls that name an account of this token: 1 if none was missed.")
    ]
    overall: Annotated[ReadShare, about("Of all calls.")]
    missing_slots: Annotated[int, about("Slots of that time that no node could deliver.", 0)]
    skipped_slots: Annotated[int, about("Slots of that time proven to hold no block.", 12)]


class ReportCoverages(NamedTuple):
    """The shares of the exchanges of each mint that were read, as its report shows them.

    by_mint   the coverage of each mint whose missed calls are counted by name
    usual     the coverage of all other mints
    """

    usual: ReportCoverage
    by_mint: Mapping[Mint, ReportCoverage]

    def of(self, mint: Mint) -> ReportCoverage:
        """Return the share of the exchanges of *mint* that was read, for its report."""
        return self.by_mint.get(mint, self.usual)


class Totals(NamedTuple):
    """The calls of one program, or of all programs, by outcome.

    read       calls of listed programs that were read
    unlisted   calls of other programs, which were read from transfers
    missed     calls that could not be read
    """

    read: Tally
    unlisted: Tally
    missed: Tally

    @property
    def all(self) -> Tally:
        """The sum of all calls: those that were read, unlisted ones, and those that were missed."""
        return summed(self)

    @property
    def shares(self) -> Shares:
        """The shares of calls and of volume that were read, from instructions or transfers."""
        return shares_of(summed((self.read, self.unlisted)), self.missed)


class MissedProgram(NamedTuple):
    """A program of which calls were missed.

    missed    the missed calls
    reasons   the number of missed calls by reason, the most frequent first
    calls     the number of all calls of the program
    """

    program: str
    missed: Tally
    reasons: Mapping[str, int]
    calls: int


class Jump(NamedTuple):
    """A program of which many more calls than usual are missed, probably because it was upgraded.

    now      its calls in the hour of the newest block and the hour before it
    before   its calls in the 24 hours before these two hours
    """

    program: str
    now: Totals
    before: Totals


def summed(tallies: Iterable[Tally]) -> Tally:
    """Return one tally with the sums of the numbers in *tallies*."""
    calls = valued = volume = 0
    for tally in tallies:
        calls += tally.calls
        valued += tally.valued
        volume += tally.volume
    return Tally(calls, valued, volume)


def shares_of(read: Tally, missed: Tally) -> Shares:
    """Return the share of all exchanges that was read, by number of calls and by volume.

    read, missed   the counts of the calls that were read, and of those that were missed
    """
    return Shares(part(read.calls, missed.calls), part(read.volume, missed.volume))


def part(read: int, missed: int) -> float | None:
    """Return the part that was read, from 0 to 1, rounded down to four digits.

    read, missed   what was read and what was missed, in the same unit; the result is None if both
                   are 0
    """
    whole = read + missed
    # In integers: a float could be rounded up to 1 although something was missed.
    return None if not whole else read * 10**SHARE_DIGITS // whole / 10**SHARE_DIGITS


def percent(share: float) -> str:
    """Return *share* as text in percent, rounded down, so that only 1 gives 100 %."""
    # A product such as 0.0003 * 10_000 can be a float just below the integer.
    return f"{floor(share * 10_000 + 1e-6) / 100:g} %"


def totals(rows: Iterable[ProgramHour]) -> Totals:
    """Return the sums of *rows*: of calls that were read, of unlisted ones, and of missed ones."""
    found: dict[str, list[Tally]] = {READ: [], UNLISTED: [], "": []}
    for row in rows:
        found[row.outcome if row.outcome in {READ, UNLISTED} else ""].append(row.tally)
    return Totals(summed(found[READ]), summed(found[UNLISTED]), summed(found[""]))


def by_program(rows: Iterable[ProgramHour]) -> dict[str, list[ProgramHour]]:
    """Return *rows* grouped by the name of the program."""
    found: dict[str, list[ProgramHour]] = defaultdict(list)
    for row in rows:
        found[row.program].append(row)
    return found


def missed_programs(rows: Iterable[ProgramHour]) -> list[MissedProgram]:
    """Return the programs that have missed calls; those with the most missed volume come first.

    Programs with equal volume are in the order of their missed calls, the most first.
    """
    found = []
    for program, own in by_program(rows).items():
        missed = [row for row in own if row.outcome not in {READ, UNLISTED}]
        if missed:
            calls: dict[str, int] = defaultdict(int)
            for row in missed:
                calls[row.outcome] += row.tally.calls
            reasons = dict(sorted(calls.items(), key=lambda one: (-one[1], one[0])))
            whole = totals(own).all.calls
            sums = summed(row.tally for row in missed)
            found.append(MissedProgram(program, sums, reasons, whole))
    return sorted(found, key=lambda one: (-one.missed.volume, -one.missed.calls, one.program))


def unlisted_programs(rows: Iterable[ProgramHour]) -> list[tuple[str, Tally]]:
    """Return the programs whose calls were read from transfers, because they are not listed.

    Those with the most volume come first; of equal volumes, those with the most calls.
    """
    found = {
        program: summed(row.tally for row in own if row.outcome == UNLISTED)
        for program, own in by_program(rows).items()
    }
    seen = [(program, tally) for program, tally in found.items() if tally.calls]
    return sorted(seen, key=lambda one: (-one[1].volume, -one[1].calls, one[0]))


def jumps(coverage: Coverage) -> list[Jump]:
    """Return the programs of which many more calls were missed in the newest two hours than before.

    coverage   the coverage of the hour of the newest block, of the hour before it, and of the 24
               hours before these two
    """
    since = window_start(coverage.time)
    before_rows = by_program(coverage.before(since))
    found = []
    for program, rows in by_program(coverage.after(since)).items():
        now = totals(rows)
        before = totals(before_rows.get(program, ()))
        missed = now.missed.calls
        usual = before.missed.calls * WINDOW_HOURS / DAY_HOURS
        share = missed / max(1, now.all.calls)
        if missed > JUMP_CALLS_MIN and share > JUMP_SHARE_MIN and missed > JUMP_FACTOR * usual:
            found.append(Jump(program, now, before))
    return sorted(found, key=lambda jump: (-jump.now.missed.calls, jump.program))


def report_coverages(coverage: Coverage, missed: MissedMints) -> ReportCoverages:
    """Return, for reports, the share of the exchanges of each mint that was read.

    coverage   the coverage of the hour of the newest block and the hour before it
    missed     the mints with missed calls in these two hours
    """
    overall = _read_share(totals(coverage.rows).shares)
    # If some mints are counted together, any of the other mints may have missed calls.
    of_others = Shares(1.0, 1.0) if missed.is_whole else Shares(None, None)

    def made(shares: Shares) -> ReportCoverage:
        return ReportCoverage(
            from_=coverage.since,
            to=coverage.time,
            token=_read_share(shares),
            overall=overall,
            missing_slots=coverage.missing_slots,
            skipped_slots=coverage.skipped_slots,
        )

    by_mint = {mint: made(shares_of(one.read, one.missed)) for mint, one in missed.by_mint.items()}
    return ReportCoverages(made(of_others), by_mint)


def _read_share(shares: Shares) -> ReadShare:
    return ReadShare(shares.by_calls, shares.by_volume)


def window_start(time: UnixS) -> UnixS:
    """Return the start of the window of two hours that ends with the hour of *time*."""
    return first_hour(time, WINDOW_HOURS)


def first_hour(time: UnixS, hours: int) -> UnixS:
    """Return the start of the first of *hours* hours, the last of which contains *time*."""
    return UnixS((time // HOUR_S - hours + 1) * HOUR_S)
