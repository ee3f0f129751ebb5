"""Sums of volume over all widths agree with the swaps that count, in random markets.

Swaps are priced, folded in several writes, read as pages of candles, and applied to the live
engine.  All are paid in dollars, so the value of each is its amount of the quote.
"""

import os
from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple

from mintscope.dex.outcome import Swap
from mintscope.kit.primitives import Mint, Signature, Slot, UnixS
from mintscope.market.engine.engine import Engine, as_trades
from mintscope.market.engine.kernels import COUNTS, GRAINS, SHARES
from mintscope.market.log import LogTip, PricedSwap
from mintscope.market.pricing import Rate, price_slot
from mintscope.market.series.pools import KeptCandles, SeriesCandle, UnpricedVolume
from mintscope.market.series.series import WIDTHS, Range, page_of, series_of, widened
from mintscope.market.timeframe import Timeframe
from mintscope.solana.blocks import USDC
from support.fakes.log import Kept

FULL: Final = os.environ.get("STORM") == "full"  # noqa: TID251 - only how many
MARKETS: Final = 10_000 if FULL else 60
TOKEN: Final = Mint("TokenTokenTokenTokenTokenTokenTokenTokenToke")
START: Final = 1_700_000_000
ENGINE: Final = Engine(1)
ALWAYS: Final = UnixS(1 << 33)
DUST: Final = 20_000  # micro-USD of the quote


class Traded(NamedTuple):
    """A market: its logged swaps, and the micro-USD meant to be bought and sold in each second."""

    swaps: list[tuple[UnixS, PricedSwap]]
    intended: dict[int, tuple[int, int]]  # without swaps at a price that the rule rejects


def traded(seed: int, slots: int, gap_s: float) -> Traded:
    """Return a market with tiny swaps, unknown decimals, and round trips of one signer.

    About one of five prices is rejected.
    """
    random = Random(seed)
    time, logged, intended = START + random.randrange(100_000), [], dict[int, tuple[int, int]]()
    for _ in range(slots):
        time += int(random.expovariate(1 / gap_s)) if gap_s else random.randrange(2)
        swaps: list[Swap] = []
        for transaction in range(random.randrange(1, 4)):
            is_round_trip = random.random() < 0.15
            sides = [True, False] if is_round_trip else [random.random() < 0.5]
            for leg, is_buy in enumerate(sides):
                dollars = random.choice([1, 19_999, 20_000, random.randrange(10**11)])
                decimals = random.choice([6, 6, 6, None])
                swaps.append(_swap(transaction, leg, dollars, decimals, is_buy=is_buy))
                is_priced = decimals is not None and dollars >= DUST
                if not is_round_trip and not (is_priced and is_rejected(dollars)):
                    bought, sold = intended.get(time, (0, 0))
                    new = (bought + dollars, sold) if is_buy else (bought, sold + dollars)
                    intended[time] = new
        rate = Rate(150.0, UnixS(time))
        priced = price_slot(swaps, rate, lambda _, offer: not is_rejected(offer.volume))
        logged += [(UnixS(time), swap) for swap in priced.swaps]
    return Traded(logged, intended)


def is_rejected(dollars: int) -> bool:
    """Return whether the price of a swap of *dollars* micro-USD is rejected: about one of five."""
    return dollars // DUST % 5 == 0


def _swap(transaction: int, leg: int, dollars: int, decimals: int | None, *, is_buy: bool) -> Swap:
    token, quote = (TOKEN, 10**9, decimals), (USDC, dollars, 6)
    received, paid = (quote, token) if is_buy else (token, quote)
    place = (Signature(f"signature-{transaction}"), transaction, leg, -1, 0)
    return Swap(*place, "made", "pool", *received, *paid, f"signer-{transaction}")


def kept_of(swaps: Sequence[tuple[UnixS, PricedSwap]], folded: int, random: Random) -> Kept:
    """Fold the first *folded* of *swaps* in writes of random size; return the stored data."""
    kept, at = Kept(), 0
    while at < folded:
        until = min(folded, at + 1 + random.randrange(20))
        kept.fold(swaps[at:until])
        at = until
    return kept


def whole_series(
    kept: Kept, tail: Sequence[tuple[UnixS, PricedSwap]], within: Range, now: UnixS
) -> list[SeriesCandle]:
    asked = within.asked._replace(rows_max=1 << 40)
    rows = list(kept.rows[within.width.kept].values())
    read = KeptCandles(
        tip=LogTip(seq=1, slot=Slot(1), time=now, follows_files=True),
        state=kept.state,
        in_sol=kept.in_sol,
        rows=[SeriesCandle(*astuple(row)) for row in rows if row.count],
        has_older=False,
        newer=0,
        unpriced=[
            UnpricedVolume(row.bucket, row.buy_volume, row.sell_volume)
            for row in rows
            if not row.count
        ],
        waypoints=[],
        tail=tail,
    )
    return list(page_of(widened(series_of(read, asked), within.width), within, now).candles)


@pytest.mark.timeout(3_600 if FULL else 300)
@settings(max_examples=MARKETS, derandomize=True)
@given(
    st.integers(0, 2**32),
    st.integers(1, 60),
    st.sampled_from((0.0, 5.0, 60.0, 900.0, 20_000.0)),
    st.floats(0, 1),
)
def test_sums_over_all_widths_agree_with_the_swaps_that_count(
    seed: int, slots: int, gap_s: float, part_folded: float
) -> None:
    swaps, intended = traded(seed, slots, gap_s)
    if not any(swap.price_usd is not None for _, swap in swaps):
        return
    folded, now = int(part_folded * len(swaps)), swaps[-1][0]
    kept = kept_of(swaps, folded, Random(seed))

    for width in WIDTHS.values():
        sums: dict[int, tuple[int, int]] = {}
        for time, (bought, sold) in intended.items():
            begin = time - time % width.seconds
            before = sums.get(begin, (0, 0))
            sums[begin] = (before[0] + bought, before[1] + sold)
        limit = (now - swaps[0][0]) // width.seconds + 2
        within = Range(width=width, since=UnixS(0), until=ALWAYS, limit=limit, is_filled=True)
        filled = whole_series(kept, swaps[folded:], within, now)
        assert {
            each.bucket: (each.buy_volume, each.sell_volume)
            for each in filled
            if each.buy_volume + each.sell_volume
        } == sums
        plain = whole_series(kept, swaps[folded:], Range(width=width, since=UnixS(0), until=ALWAYS,
                                                         limit=limit), now)  # fmt: skip
        assert plain == [each for each in filled if each.count]
    _expect_pressure(swaps, intended, now)


def _expect_pressure(
    swaps: Sequence[tuple[UnixS, PricedSwap]], intended: dict[int, tuple[int, int]], now: UnixS
) -> None:
    """Assert that the pressure shares of the live engine agree with the sums in *intended*."""
    ENGINE.clear(0)
    ENGINE.apply(as_trades([(0, time, swap) for time, swap in swaps]))
    shares = ENGINE.snapshot(0, now)[SHARES:COUNTS].tolist()
    for grain, share in zip(GRAINS, shares, strict=True):
        inside = [flow for time, flow in intended.items() if time // grain > now // grain - 60]
        bought, sold = (sum(side) for side in zip(*inside, strict=True)) if inside else (0, 0)
        assert share == (bought / (bought + sold) if bought + sold else 0.0)


def test_the_widths_are_all_timeframes_and_m30_h4_and_d1() -> None:
    assert [width.name for width in WIDTHS.values()] == [*Timeframe, "m30", "h4", "d1"]
