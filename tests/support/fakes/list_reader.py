"""A fake `ListReader`, in memory, which computes each answer on request."""

from array import array
from collections.abc import Sequence

import numpy as np

from mintscope.kit.errors import TokenNotFound
from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.market.engine.fold import MintFold
from mintscope.market.engine.kernels import ACC
from mintscope.market.log import LogTrimmed, PricedSwap, signer_number
from mintscope.market.mint_facts import MintFacts
from mintscope.market.screening.snapshot import (
    FactPlace,
    FoldedTo,
    MintAsFolded,
    MintPage,
    MintTrades,
    MinuteVolume,
    PartVolume,
    RecentCandles,
    SlotTrades,
)
from mintscope.market.timeframe import WIDTH_S, Timeframe


class FakeListReader:
    """A ListReader with methods that change its data."""

    def __init__(self) -> None:
        self.seq = 0
        self.trimmed = 0
        self.slots: list[tuple[FoldedTo, tuple[PricedSwap, ...]]] = []
        self.followed: dict[Mint, FoldedTo] = {}  # the start of tracking, by mint
        self.events: list[tuple[int, Mint]] = []
        self.facts: dict[Mint, MintFacts] = {}
        self.standings: dict[Mint, bytes] = {}  # the packed pools of each mint

    async def append(self, slot: int, time: int, *swaps: PricedSwap) -> None:
        """Append *slot*, as if it were already final and added up in the candles."""
        self.seq += 2
        known = tuple(swap for swap in swaps if swap.mint in self.followed)
        self.slots.append((FoldedTo(self.seq - 1, Slot(slot), UnixS(time)), known))

    async def track(self, mint: Mint) -> None:
        self.seq += 1
        self.followed[mint] = self._folded()
        self.events.append((self.seq, mint))

    async def untrack(self, mint: Mint) -> None:
        self.seq += 1
        del self.followed[mint]
        self.events.append((self.seq, mint))

    async def learn(self, mint: Mint, facts: MintFacts) -> None:
        self.facts[mint] = facts

    async def trim(self) -> None:
        self.trimmed = self.seq

    async def folded(self) -> tuple[FoldedTo, int]:
        return self._folded(), self.seq

    async def mints(self, after: int, limit: int) -> MintPage:
        found = list(self.followed)[after : after + limit]
        page = await self.some(found)
        return MintPage(folded=page.folded, mints=page.mints, last=after + len(found))

    async def some(self, mints: Sequence[Mint]) -> MintPage:
        known = [self._as_folded(mint) for mint in mints if mint in self.followed]
        return MintPage(folded=self._folded(), mints=known, last=0)

    async def trades(self, after_seq: int, until_seq: int, limit: int) -> Sequence[SlotTrades]:
        self._expect_kept(after_seq)
        found: list[SlotTrades] = []
        for folded, swaps in self.slots:
            if after_seq < folded.seq <= until_seq and sum(len(s.trades) for s in found) < limit:
                mints = dict.fromkeys(s.mint for s in swaps if self._counts(s.mint, folded))
                found.append(SlotTrades(folded, [_trades(mint, swaps) for mint in mints]))
        return found

    async def tracked(self, after_seq: int, until_seq: int) -> Sequence[Mint]:
        self._expect_kept(after_seq)
        return list(dict.fromkeys(m for seq, m in self.events if after_seq < seq <= until_seq))

    async def facts_after(
        self, place: FactPlace, limit: int
    ) -> Sequence[tuple[FactPlace, MintFacts]]:
        found = [
            (FactPlace(facts.read_at_ms, mint), facts)
            for mint, facts in self.facts.items()
            if mint in self.followed and (facts.read_at_ms, mint) > place
        ]
        return sorted(found, key=lambda one: one[0])[:limit]

    async def facts_of(self, mint: Mint) -> MintFacts | None:
        if mint not in self.followed:
            raise TokenNotFound("it is not tracked")
        return self.facts.get(mint)

    def _folded(self) -> FoldedTo:
        return self.slots[-1][0] if self.slots else FoldedTo(0, None, None)

    def _counts(self, mint: Mint, folded: FoldedTo) -> bool:
        since = self.followed.get(mint)
        return since is not None and folded.seq > since.seq

    def _expect_kept(self, after_seq: int) -> None:
        if after_seq < self.trimmed:
            raise LogTrimmed(f"expected at least {self.trimmed}, was {after_seq}")

    def _as_folded(self, mint: Mint) -> MintAsFolded:
        own = [
            (folded.time or UnixS(0), swap)
            for folded, swaps in self.slots
            for swap in swaps
            if swap.mint == mint and self._counts(mint, folded)
        ]
        fold = MintFold()
        for time, swap in own:
            fold.apply(time, swap)
        now = self._folded().time or 0
        priced = [(time, swap.price_usd) for time, swap in own if swap.price_usd is not None]
        minute, day = now // 60, now // 1440
        starts = ((minute - 4) * 60, (minute - 59) * 60, (day - 59) * 1440)
        m5, h1, d1 = (
            next((usd for time, usd in reversed(priced) if time < start), None) for start in starts
        )
        return MintAsFolded(
            mint=mint,
            since=self.followed[mint].time,
            state=fold.state() if own else None,
            facts=self.facts.get(mint),
            before=(m5, h1, d1),
            first_usd=priced[0][1] if priced else None,
            standing=self.standings.get(mint),
            minutes=[
                _minute(number, own)
                for number in dict.fromkeys(time // 60 for time, _ in own)
                if number > minute - 60
            ],
            parts=[
                _part(number, own)
                for number in dict.fromkeys(time // 1440 for time, _ in own)
                if number > day - 60
            ],
            recent={each: _recent(each, own) for each in Timeframe if priced},
            newest={each: _newest(each, own) for each in Timeframe if priced},
        )


def _recent(timeframe: Timeframe, own: Sequence[tuple[UnixS, PricedSwap]]) -> RecentCandles:
    closes = {
        time // WIDTH_S[timeframe]: swap.price_usd
        for time, swap in own
        if swap.price_usd is not None
    }
    return RecentCandles(0, bytes(8 * ACC), array("d", [*closes.values()][:-1]).tobytes())


def _newest(timeframe: Timeframe, own: Sequence[tuple[UnixS, PricedSwap]]) -> bytes:
    prices: dict[int, list[float]] = {}
    for time, swap in own:
        if swap.price_usd is not None:
            prices.setdefault(time // WIDTH_S[timeframe], []).append(swap.price_usd)
    closed = [(max(each), min(each), each[-1]) for each in prices.values()][:-1]
    return np.array(closed, float).tobytes()


def _minute(number: int, own: Sequence[tuple[UnixS, PricedSwap]]) -> MinuteVolume:
    _, volume, _, close = _part(number, own, 60)
    bought = sum(swap.volume for time, swap in own if time // 60 == number and swap.is_buy)
    return MinuteVolume(UnixS(number * 60), volume, bought, close)


def _part(number: int, own: Sequence[tuple[UnixS, PricedSwap]], part_s: int = 1440) -> PartVolume:
    swaps = [swap for time, swap in own if time // part_s == number]
    prices = [swap.price_usd for swap in swaps if swap.price_usd is not None]
    volume = sum(swap.volume for swap in swaps)
    return PartVolume(number, volume, len(prices), prices[-1] if prices else None)


def _trades(mint: Mint, swaps: Sequence[PricedSwap]) -> MintTrades:
    own = [swap for swap in swaps if swap.mint == mint]
    priced = [swap for swap in own if swap.price_usd is not None]
    volume = sum(swap.volume for swap in own)
    newest = priced[-1] if priced else None
    return MintTrades(
        mint,
        volume,
        sum(swap.volume for swap in own if swap.is_buy),
        len(priced),
        None if newest is None else newest.price_usd,
        None if newest is None else newest.price_sol,
        priced[0].price_usd if priced else None,
        None,
        max((swap.price_usd or 0.0 for swap in priced), default=None),
        min((swap.price_usd or 0.0 for swap in priced), default=None),
        tuple(sorted({signer_number(s.evidence.signer) for s in own if s.evidence})),
    )
