"""A fake `SeriesReader`, which reads candles and swaps from a log in memory."""

from collections.abc import Collection, Iterable

from msgspec.structs import astuple, replace
from typing_extensions import override

from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.market.engine.crowd_book import CrowdBook
from mintscope.market.engine.pool_book import POOL_CANDLES_S, PoolBook, booked, candles_of
from mintscope.market.log import LoadedMint, LogTip, PricedSwap, SlotHeader, TailSwap
from mintscope.market.mint_facts import MintFacts
from mintscope.market.series.past import Moment, OutOfReach, PastMint, SlotTime
from mintscope.market.series.pools import (
    AskedCandles,
    KeptCandles,
    KeptCrowds,
    KeptPools,
    KeptSwaps,
    LoggedSwap,
    LoggedSwaps,
    SeriesCandle,
    SwapPlace,
    UnpricedVolume,
)
from support.fakes.log import FakeLog, Kept, frames_after
from support.scenes.standings import packed_pool


class FakeSeries:
    """A SeriesReader of *log*; all swaps of final slots are added up in the candles."""

    def __init__(self, log: FakeLog) -> None:
        self._log = log
        self.known_facts: dict[Mint, MintFacts] = {}

    async def tip(self) -> LogTip:
        return self._log.tip_at(self._log.seq)

    async def candles(
        self,
        mint: Mint,
        asked: AskedCandles,
        known: KeptCandles | None = None,  # noqa: ARG002 - there is nothing to save
    ) -> KeptCandles | None:
        log = self._log
        if mint not in log.tracked_at(log.seq):
            return None
        swaps, folded, kept = log.swaps_at(log.seq, mint), log.folded_at(log.seq, mint), Kept()
        if folded:
            kept.fold(swaps[:folded])
        all_rows = [
            SeriesCandle(*astuple(row)) for row in kept.rows[asked.timeframe].values() if row.count
        ]
        rows = [row for row in all_rows if row.bucket <= asked.until]
        shown = rows[-asked.rows_max :] or all_rows[:1]
        has_older = bool(rows) and len(rows) > len(shown)
        oldest = shown[0].bucket if has_older else 0
        return KeptCandles(
            tip=log.tip_at(log.seq),
            state=kept.state,
            in_sol=kept.in_sol,
            rows=shown,
            has_older=has_older,
            newer=len(all_rows) - max(len(rows), len(shown[:1])),
            unpriced=[
                UnpricedVolume(row.bucket, row.buy_volume, row.sell_volume)
                for row in kept.rows[asked.timeframe].values()
                if not row.count and oldest <= row.bucket <= asked.until
            ],
            waypoints=[
                each
                for each in kept.waypoints[asked.timeframe]
                if shown and shown[0].bucket <= each.bucket <= asked.until
            ],
            tail=swaps[folded:],
        )

    def _crowds(self, swaps: Iterable[tuple[UnixS, PricedSwap]]) -> KeptCrowds:
        """Return the sums per trader that the store would have after one fold of *swaps*."""
        book = CrowdBook()
        for time, swap in swaps:
            book.apply(time, [swap])
        now = self._log.tip_at(self._log.seq).time or 0
        rows = [row for row in book.rows() if row.bucket > now - now % 300 - 86_400]
        return KeptCrowds(book.since, rows)

    async def swaps(
        self, mint: Mint, before: SwapPlace | None, limit: int, *, with_crowds: bool = False
    ) -> LoggedSwaps | None:
        log = self._log
        if mint not in log.tracked_at(log.seq):
            return None
        logged = [
            LoggedSwap(_place(slot.header.slot, swap), slot.header.time, swap)
            for slot in log.slots_at(log.seq)
            for swap in slot.swaps
            if swap.mint == mint and swap.detail is not None
        ]
        found = [one for one in reversed(logged) if before is None or one.place < before]
        return LoggedSwaps(
            tip=log.tip_at(log.seq),
            final=log.final_at(log.seq),
            swaps=found[:limit],
            has_older=len(found) > limit,
            is_whole=len(found) <= limit,
            crowds=self._crowds(log.swaps_at(log.seq, mint)) if with_crowds else None,
        )

    async def kept_swaps(self, mint: Mint, until: UnixS, spans: int) -> KeptSwaps | None:
        log = self._log
        if mint not in log.tracked_at(log.seq):
            return None
        swaps = [one for one in log.swaps_at(log.seq, mint) if one[0] <= until]
        newest = sorted({time // 15 for time, _ in swaps})[-spans:]
        shown = [one for one in swaps if one[0] // 15 in newest]
        has_older = len(shown) < len(swaps)
        tip = log.tip_at(log.seq)
        return KeptSwaps(tip=tip, swaps=shown, has_older=has_older, is_whole=not has_older)

    async def pools(self, mint: Mint, since_s: int = POOL_CANDLES_S) -> KeptPools | None:
        """Return the pools of *mint* as they are stored if final swaps are folded at once."""
        log = self._log
        if mint not in log.tracked_at(log.seq):
            return None
        final = log.final_at(log.seq)
        slots = [one for one in log.slots_at(log.seq) if final and one.header.slot <= final]
        swaps = log.swaps_at(log.seq, mint)[: log.folded_at(log.seq, mint)]
        book = PoolBook()
        for slot in slots:
            for swap in slot.swaps:
                if (slot.header.time, swap) in swaps:
                    book.apply(slot.header.slot, slot.header.time, [swap])
                    book.name([swap])
        change = book.changed()
        time = slots[-1].header.time if slots else None
        since = (time or 0) - (time or 0) % 300 - since_s
        stood = [one.standings[mint] for one in slots if mint in one.standings]
        pools = booked(change.state)
        rows = [*change.rows, *candles_of(pools)]
        return KeptPools(
            tip=log.tip_at(log.seq),
            time=time,
            standing=stood[-1] if stood else None,
            booked=pools,
            rows=sorted(row for row in rows if row.bucket > since),
            has_crowd=bool(self._crowds(swaps).rows),
        )

    async def facts(self, mint: Mint) -> MintFacts | None:
        return self.known_facts.get(mint)

    async def past(
        self, mint: Mint, moment: Moment, timeframes: Collection[str] = ()
    ) -> PastMint | OutOfReach | None:
        """Return the data of *mint* at *moment*, as if no swap was folded yet.

        Returns None if *mint* is not tracked.
        """
        log = self._log
        if mint not in log.tracked_at(log.seq):
            return None
        slots = log.slots_at(log.seq)
        if not slots:
            return OutOfReach(None, None)
        newest = SlotTime(slots[-1].header.slot, slots[-1].header.time)
        by_then = [one for one in slots if _is_by(one.header, moment)]
        is_over = (moment.slot or 0) <= newest.slot and (moment.time or 0) <= newest.time
        if not by_then or not is_over:
            return OutOfReach(slots[0].header.time, newest)
        timed = [
            TailSwap(one.header.slot, one.header.time, folded=False, swap=swap)
            for one in by_then
            for swap in one.swaps
            if swap.mint == mint
        ]
        stood = [(one.header.slot, one.standings[mint]) for one in by_then if mint in one.standings]
        loaded = LoadedMint(
            mint=mint,
            seq=log.seq,
            state=None,
            candles={},
            minutes=(),
            tail=timed,
            standings=stood,
            frames=frames_after((), timeframes),
        )
        last = by_then[-1].header
        return PastMint(SlotTime(last.slot, last.time), loaded)


def _is_by(header: SlotHeader, moment: Moment) -> bool:
    if moment.slot is not None:
        return header.slot <= moment.slot
    return moment.time is not None and header.time <= moment.time


def _place(slot: Slot, swap: PricedSwap) -> SwapPlace:
    return SwapPlace(slot, swap.transaction_index, swap.outer, swap.inner, swap.leg)


class MadeUpSeries(FakeSeries):
    """A `FakeSeries` over a log without final slots, in which one pool sets every price."""

    @override
    async def pools(self, mint: Mint, since_s: int = POOL_CANDLES_S) -> KeptPools | None:
        """Return the only pool of *mint*, as if the newest slot were final."""
        kept = await super().pools(mint, since_s)
        if kept is None or kept.tip.time is None:
            return kept
        pool = packed_pool(kept.tip.time, depth_usd=100_000)
        tip = replace(kept.tip, folded=kept.tip.slot)
        return replace(kept, tip=tip, time=tip.time, standing=pool)
