"""A mint's past, priced and folded as ingest would have done slot by slot at the time.

Given every transaction of the mint's pools, and of the pools of SOL and dollars, candles, state
and deciding pool come out bit for bit as of a service that had followed the mint since.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from mintscope.base.primitives import Mint, Slot, UnixS
from mintscope.base.solana import WSOL
from mintscope.core.market.basis.standings import Standings
from mintscope.core.market.engine.fold import MintFold
from mintscope.core.market.history.store import FoldedPast, PastSlot, PastSwaps
from mintscope.core.market.log import CandleRow, PricedSwap, SlotHeader
from mintscope.core.market.pricing import (
    RATE_WINDOW_S,
    Rate,
    dust_volume,
    offer_of,
    price_slot,
    sol_usd,
    sol_usd_samples,
)
from mintscope.core.market.quotes import Quotes, oriented
from mintscope.core.market.standing import Offer, Standing, counts_at, stand
from mintscope.core.market.swap import Swap
from mintscope.core.market.timeframe import Timeframe

# The log keeps the swaps of 15 minutes behind its checkpoint, and the checkpoint may be ahead.
KEPT_S: Final = 1_800


def concerns(swap: Swap, mint: Mint) -> bool:
    """Say whether *swap* can have a part in the past of *mint*: its own, or one of SOL."""
    seen = oriented(swap)
    return seen is not None and seen.base in (mint, WSOL)


class Past:
    """Slots of the past, applied oldest first."""

    def __init__(self, mint: Mint) -> None:
        self._mint = mint
        self._fold = MintFold()
        self._pools = Standings()
        self._headers: deque[SlotHeader] = deque()
        self._recent: deque[PastSwaps] = deque()
        self._since: Slot | None = None
        self._last_swap: UnixS | None = None
        self._deciding: Standing | None = None

    def apply(self, slot: PastSlot) -> None:
        """Price and fold one slot; slots come in order."""
        header = self._header(slot)
        if self._since is None:
            self._since = Slot(slot.slot - 1)
        self._pools.begin(slot.slot)
        rate = None
        if header.sol_usd is not None and header.sol_usd_time is not None:
            rate = Rate(header.sol_usd, header.sol_usd_time)
        quotes = Quotes(self._pools.of, header.time)
        priced = price_slot(slot.swaps, rate, self._pools.sets_price, quotes, header.time).swaps
        deciding = self._pools.changed().get(self._mint)
        self._pools.finalize(slot.slot)
        own = [swap for swap in priced if swap.mint == self._mint]
        if own:
            self._keep(PastSwaps(slot.slot, header.time, own, deciding))

    def changed(self) -> dict[Timeframe, list[CandleRow]]:
        """Return the candles touched since the last call, oldest first."""
        return self._fold.changed()

    def folded(self) -> FoldedPast | None:
        """Return what it came to so far; None before the first slot."""
        if self._since is None:
            return None
        return FoldedPast(
            since_slot=self._since,
            time=self._headers[-1].time,
            state=None if self._last_swap is None else self._fold.state(),
            in_sol=None if self._last_swap is None else self._fold.in_sol(),
            last_swap=self._last_swap,
            deciding=self._deciding,
            recent=tuple(self._recent),
        )

    def _header(self, slot: PastSlot) -> SlotHeader:
        """Return the header of *slot*, with the rate it was priced at."""
        newest = self._headers[-1] if self._headers else None
        previous = UnixS(0) if newest is None else newest.time
        time = previous if slot.time is None else max(slot.time, previous)
        samples = sol_usd_samples(slot.swaps, time, self._pools.agrees(WSOL))
        rate = sol_usd(reversed(self._headers), samples, time) if time else None
        header = SlotHeader(
            slot=slot.slot,
            parent_slot=Slot(-1) if newest is None else newest.slot,
            blockhash="",
            time=time,
            sol_usd=None if rate is None else rate.usd,
            sol_usd_time=None if rate is None else rate.at,
            samples=samples,
        )
        self._headers.append(header)
        while time - self._headers[0].time > RATE_WINDOW_S and len(self._headers) > 1:
            self._headers.popleft()
        return header

    def _keep(self, swaps: PastSwaps) -> None:
        for swap in swaps.swaps:
            self._fold.apply(swaps.time, swap)
        self._last_swap = swaps.time
        self._deciding = swaps.deciding or self._deciding
        self._recent.append(swaps)
        while swaps.time - self._recent[0].time > KEPT_S:
            self._recent.popleft()


def decide_again(
    decided: Standing | None,
    time: UnixS,
    swaps: Sequence[PricedSwap],
    sol_usd: float | None = None,
) -> tuple[list[PricedSwap], Standing | None]:
    """Return the logged *swaps* of one mint and slot as they are priced after *decided*.

    Their prices stay; which of them are shown, and count as volume, is decided again.

    sol_usd   the rate of the slot, which is the price of SOL itself
    """
    again = []
    pools: set[str | None] = set()
    if decided is not None:
        pools.update(one.pool for one in decided.pools)
    pools.update(one.pool for one in swaps if one.price_usd is not None or one.offered is not None)
    if len(pools) == 1:
        sol_usd = None  # each swap of SOL has its own price, as in `pricing`
    for swap in swaps:
        if swap.evidence is not None and swap.evidence.succeeds is not None:
            offer = offer_of(str(swap.pool), (0.0, 0.0), swap.evidence, time)
            decided, _ = stand(decided, offer)
            again.append(swap)
            continue
        price = swap.offered
        if price is None and swap.price_usd is not None and swap.price_sol is not None:
            price = swap.price_usd, swap.price_sol
        if price is None or swap.pool is None:
            again.append(_unpriced_again(swap, decided, time))
            continue
        decided, sets = stand(decided, _offer(swap, swap.pool, price, time))
        volume = _volume(swap, sets=sets)
        if sets:
            usd, sol = price
            if swap.mint == WSOL and sol_usd is not None:
                usd = sol_usd
            own = None if usd == price[0] else price
            new = replace(swap, volume=volume, price_usd=usd, price_sol=sol, offered=own)
        else:
            new = replace(swap, volume=volume, price_usd=None, price_sol=None, offered=price)
        again.append(new)
    return again, decided


def _unpriced_again(swap: PricedSwap, decided: Standing | None, time: UnixS) -> PricedSwap:
    """Return a logged *swap* without a price; its volume counts if its pool does."""
    evidence = swap.evidence
    if evidence is None or evidence.uncounted is None or swap.pool is None:
        return swap
    counts = counts_at(decided, swap.pool, time)
    return replace(swap, volume=dust_volume(evidence, counts=counts))


def _volume(swap: PricedSwap, *, sets: bool) -> int:
    """Return what a logged *swap* counts; one of before `Uncounted` counts what it did."""
    evidence = swap.evidence
    if evidence is None or evidence.uncounted is None:
        return swap.volume
    return evidence.flow if sets and not evidence.uncounted else 0


def _offer(swap: PricedSwap, pool: str, price: tuple[float, float], time: UnixS) -> Offer:
    """Return what a logged *swap* offers; one of before decision 60 shows its volume alone."""
    if swap.evidence is None:
        return Offer(pool, pool, *price, swap.volume, None, time)
    return offer_of(pool, price, swap.evidence, time, is_buy=swap.is_buy)
