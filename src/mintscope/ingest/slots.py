"""Decodes and prices slots in order, with the rate of SOL and the pegs of dollar tokens.

Slots that a reorg has abandoned are retracted.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import structlog

from mintscope.dex.decode import NO_PROGRAM
from mintscope.dex.outcome import Decoded, Quarantined, QuarantineReason, RecognisedBy, Swap
from mintscope.dex.programs import UNLISTED
from mintscope.ingest.coverage import CoverageMetrics, UnreadCounters, VenueWatch, slot_coverage
from mintscope.kit import metrics
from mintscope.kit.primitives import MINT_LENGTH_MIN, Mint, Slot, UnixS
from mintscope.market.engine.fold import Hole, Known, Tail
from mintscope.market.log import SlotHeader
from mintscope.market.ports import Change, FinalSlot, NewSlot, OrphanedSlot, Unread
from mintscope.market.pricing import Rate, price_slot, sol_usd_samples
from mintscope.market.quotes import PEG_MAX, QuoteMints, Quotes, RateAge
from mintscope.market.shard import WHOLE, Shard
from mintscope.market.standings import Standings
from mintscope.solana.blocks import WSOL, Block, Finalized, Gap, Tip, Update
from mintscope.solana.pace import Pace, PaceMeter
from mintscope.solana.transaction import Transaction, UnreadableTransaction

log = structlog.get_logger()

# The least seconds between two log lines about a dollar token, whose price may cross the limit of
# its peg with each block.
REPORTED_EVERY_S: Final = 60


class Pegs:
    """Exports the dollar tokens whose price differs from one dollar, as of the newest block."""

    def __init__(self) -> None:
        self._shown: Mapping[Mint, float] = {}
        self._reported: dict[Mint, tuple[bool, UnixS]] = {}

    def show(self, off_peg: Mapping[Mint, float], time: UnixS) -> None:
        """Set the metric of dollar tokens that are off their peg, and log each change.

        off_peg   by mint, the share by which a token's price differs from one dollar
        time      the block time of these prices
        """
        if off_peg == self._shown:
            return
        for mint in self._shown.keys() - off_peg.keys():
            metrics.DOLLAR_OFF_PEG.remove(mint)
        for mint, share in off_peg.items():
            metrics.DOLLAR_OFF_PEG.labels(mint).set(share)
            self._report(mint, share, time)
        self._shown = off_peg

    def _report(self, mint: Mint, share: float, time: UnixS) -> None:
        is_off = abs(share) > PEG_MAX
        was_off, reported_at = self._reported.get(mint, (False, UnixS(0)))
        if is_off == was_off or time - reported_at < REPORTED_EVERY_S:
            return
        self._reported[mint] = is_off, time
        log.warning("dollar_off_peg" if is_off else "dollar_on_peg", mint=mint, off=round(share, 4))


class RateWatch:
    """Exports the age of the SOL price in US dollars, and logs if the price is missing."""

    def __init__(self) -> None:
        self._age = RateAge()
        self._longest_s: int | None = None  # the largest age while the rate is late

    def note(self, header: SlotHeader) -> None:
        """Export the age of the SOL price in *header*; log when the price gets stale, or fresh."""
        self._age.note(header.time, header.sol_usd_time)
        metrics.SOL_RATE_AGE_S.set(self._age.seconds)
        if self._age.is_late:
            if self._longest_s is None:
                log.warning("sol_rate_missing", slot=header.slot, age_s=self._age.seconds)
            self._longest_s = self._age.seconds
        elif self._longest_s is not None:
            log.info("sol_rate_back", slot=header.slot, after_s=self._longest_s)
            self._longest_s = None


Decode: TypeAlias = Callable[[Iterable[Transaction | UnreadableTransaction]], Decoded]

DecodeBlock: TypeAlias = Callable[[Block], Decoded]

UNREAD_PER_BLOCK_MAX: Final = 100  # maximum number of rows; more would fill the disk
DISCRIMINATORS_MAX: Final = 200  # maximum number of labels of the metric of unknown instructions


class Slots:
    """Turns the updates of a source into changes of the swap log."""

    def __init__(  # noqa: PLR0913 - one argument for each part
        self,
        tail: Tail,  # the newest headers of the log
        decode: Decode,  # decodes transactions
        standings: Standings | None = None,  # the pools of each mint; None: there are none yet
        *,
        decode_block: DecodeBlock | None = None,  # decodes a whole block; None: *decode* does
        quote_mints: QuoteMints = QuoteMints(),  # noqa: B008 - immutable
        venues: VenueWatch | None = None,  # counts swaps by program; None: a new `VenueWatch`
        shard: Shard = WHOLE,  # the part of all mints whose swaps are logged
    ) -> None:
        self._tail = tail
        self._decode = decode
        self._decode_block = decode_block or (lambda block: decode(block.transactions))
        self.standings = standings or Standings()
        self._quote_mints = quote_mints
        self._shard = shard
        self._unknown: set[tuple[str, str]] = set()
        self._meter = PaceMeter((header.slot, header.time) for header in tail.headers)
        self._metrics = CoverageMetrics()
        self._pegs = Pegs()
        self._rate_watch = RateWatch()
        self._venues = venues or VenueWatch()

    @property
    def pace(self) -> Pace | None:
        """The pace of the chain; None before there are enough blocks."""
        return self._meter.pace

    @property
    def tip(self) -> Tip | None:
        """The newest block; None if the log has no block."""
        return self._tail.tip

    @property
    def time(self) -> UnixS | None:
        """The time of the newest block, which never decreases; None if the log has no block."""
        return self._tail.time

    def apply(self, updates: Sequence[Update], changes: list[Change]) -> Block | None:
        """Add to *changes* the changes of *updates* to the log, up to a block without its parent.

        Return this block, whose parent is missing; None if there is no such block.  If
        ForkBelowFinalized is raised, *changes* has all changes before the fork.
        """
        final: Slot | None = None
        try:
            for update in updates:
                match update:
                    case Block():
                        if not self._append(update, changes):
                            return update
                    case Finalized(slot):
                        final = self._finalize(slot) or final
                    case Gap():
                        if lost := self._tail.lose(update):
                            metrics.GAP_SLOTS.inc(lost)
                            changes.append(update)
        finally:
            # After an error, too, because the changes before it are written.
            if final is not None:
                changes.append(FinalSlot(final))
        return None

    def _append(self, block: Block, changes: list[Change]) -> bool:
        """Add the changes of *block* to *changes*; return False if its parent is missing."""
        place = self._tail.place(block)
        if isinstance(place, Known):
            return True
        for header in place.dead:
            self._tail.retract()
            self.standings.retract(header.slot)
            metrics.RETRACTED.inc()
            changes.append(OrphanedSlot(header.slot))
        if isinstance(place, Hole):
            return False
        decoded = self._read(block)
        swaps = decoded.swaps
        time = self._tail.effective(block.time)
        standings = self.standings
        quotes = Quotes(standings.of, time, self._quote_mints)
        self._pegs.show(quotes.off_peg, time)
        samples = sol_usd_samples(swaps, time, standings.agrees(WSOL), quotes)
        header = self._tail.header(block, samples)
        self._tail.append(header)
        self._note_pace(header)
        self._rate_watch.note(header)
        self._count_swaps(swaps, header.time)
        standings.begin(header.slot)
        in_block = [*swaps, *decoded.migrations] if decoded.migrations else swaps
        priced = price_slot(in_block, _rate(header), standings.sets_price, quotes, time)
        for reason, count in priced.unpriced.items():
            metrics.UNPRICED.labels(reason).inc(count)
        # A shard prices all swaps, because pools of other mints may decide the prices of its own.
        own = priced.swaps if self._shard == WHOLE else self._shard.own(priced.swaps)
        changes.append(NewSlot(header, own, standings.changed()))
        changes += _unread(block.slot, decoded)
        changes += UnreadCounters(decoded, quotes.dollars).counted(header)
        coverage = slot_coverage(header, decoded, quotes.dollars)
        self._metrics.count(coverage)
        changes.append(coverage)
        return True

    def _count_swaps(self, swaps: Iterable[Swap], time: UnixS) -> None:
        counts = Counter(map(_label, swaps))
        for program, count in counts.items():
            metrics.SWAPS.labels(program).inc(count)
        self._venues.note(time, counts)

    def _note_pace(self, header: SlotHeader) -> None:
        self._meter.note(header.slot, header.time)
        pace = self._meter.pace
        if pace is not None:
            metrics.SLOT_SECONDS.set(pace.slot_s)

    def _finalize(self, slot: Slot) -> Slot | None:
        final = self._tail.finalize(slot)
        if final is not None:
            self.standings.finalize(final)
        return final

    def _read(self, block: Block) -> Decoded:
        """Decode *block*; a transaction at which the decoder fails is quarantined."""
        try:
            decoded = self._decode_block(block)
        except Exception:
            log.exception("decoder_failed", slot=block.slot)
            decoded = self._read_one_by_one(block)
        for one in decoded.quarantined:
            program = _name(one.program)
            metrics.QUARANTINED.labels(program, one.reason).inc()
            if one.head:
                self._count_unknown(program, one.head)
        return decoded

    def _count_unknown(self, program: str, discriminator: str) -> None:
        """Count an unknown instruction in the metrics.

        Anyone can create new instructions, so the number of labels is limited.
        """
        key = program, discriminator
        if key not in self._unknown:
            if len(self._unknown) >= DISCRIMINATORS_MAX:
                key = program, "other"
            else:
                self._unknown.add(key)
        metrics.UNKNOWN_INSTRUCTIONS.labels(*key).inc()

    def _read_one_by_one(self, block: Block) -> Decoded:
        migrations: list[Swap] = []
        whole = Decoded([], [], [], migrations)
        for transaction in block.transactions:
            try:
                decoded = self._decode([transaction])
            except Exception:
                index = transaction.index
                log.exception("transaction_failed", slot=block.slot, transaction_index=index)
                reason = QuarantineReason.DECODER_BUG
                whole.quarantined.append(Quarantined(None, index, NO_PROGRAM, reason))
            else:
                whole.swaps.extend(decoded.swaps)
                whole.quarantined.extend(decoded.quarantined)
                whole.unlisted.extend(decoded.unlisted)
                migrations.extend(decoded.migrations)
        return whole


def _unread(slot: Slot, decoded: Decoded) -> list[Unread]:
    """Return a row for each quarantined call in *decoded*, at most UNREAD_PER_BLOCK_MAX rows."""
    return [
        Unread(slot=slot, signature=one.signature, program=one.program, reason=one.reason)
        for one in decoded.quarantined[:UNREAD_PER_BLOCK_MAX]
    ]


def _label(swap: Swap) -> str:
    """Return a metric label for the program of *swap*; all unlisted programs share one label."""
    return swap.program if swap.recognised_by is RecognisedBy.TABLE else UNLISTED.name


def _name(program: str) -> str:
    """Return a metric label for *program*; programs known only by address share one label."""
    return program if len(program) < MINT_LENGTH_MIN else UNLISTED.name


def _rate(header: SlotHeader) -> Rate | None:
    if header.sol_usd is None or header.sol_usd_time is None:
        return None
    return Rate(header.sol_usd, header.sol_usd_time)
