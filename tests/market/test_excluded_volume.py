"""A swap at a rejected price adds no volume; its evidence has the amount that was exchanged."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintscope.dex.outcome import Swap
from mintscope.history.backfill import decide_again
from mintscope.kit.primitives import Slot, UnixS
from mintscope.market.log import PricedSwap, Uncounted, volumes_of
from mintscope.market.pricing import Rate, price_slot
from mintscope.market.quotes import BASIC, Quotes
from mintscope.market.standing import Standing
from mintscope.market.standings import Standings
from mintscope.market.store.log_reader import swaps_blob, swaps_of
from mintscope.solana.blocks import USDC
from support.fakes.made_chain import MINTS, swap

TOKEN: Final = MINTS[0]
START: Final = 1_700_000_000
RATE: Final = Rate(150.0, UnixS(START))


def trade(pool: str, usd: float, *, tokens: float = 100.0, depth: int = 100_000) -> Swap:
    """Return a purchase of *tokens* in *pool* for *usd* each that leaves *depth* USD there."""
    made = swap(
        TOKEN, USDC, base_amount=round(tokens * 10**6), quote_amount=round(tokens * usd * 10**6)
    )
    return made._replace(pool=pool, signer=pool, in_left=depth * 10**6)


def begun() -> Standings:
    """Return the standings of an honest pool that has traded for ten minutes at 2 USD."""
    standings = Standings()
    for number in range(300):
        standings.begin(Slot(number))
        made = trade("honest", 2.0)._replace(signer=f"{number % 5}")
        price_slot([made], RATE, standings.sets_price, BASIC, UnixS(START + number * 2))
    return standings


def then(standings: Standings, *swaps: Swap) -> list[PricedSwap]:
    """Return *swaps*, priced as swaps of the next slot, each in a transaction of its own."""
    standings.begin(Slot(1_000))
    apart = [one._replace(transaction_index=at) for at, one in enumerate(swaps)]
    time = UnixS(START + 601)
    quotes = Quotes(standings.of, time)
    return price_slot(apart, RATE, standings.sets_price, quotes, time).swaps


@given(st.floats(0.001, 1_000.0).filter(lambda usd: not 1.9 < usd < 2.1), st.integers(1, 5))
def test_wash_trades_at_another_price_add_no_volume(usd: float, swaps: int) -> None:
    """The trades are up to five swaps of 1.5 million dollars, at any price but the market's."""
    washed = [trade("private", usd, tokens=1_500_000 / usd, depth=100)] * swaps
    priced = then(begun(), *washed, trade("honest", 2.01))

    assert volumes_of(priced) == (201 * 10**6, 0)
    for one in priced[:-1]:
        assert one.evidence is not None
        assert one.evidence.flow == pytest.approx(1_500_000 * 10**6, abs=10)
        assert one.evidence.uncounted == Uncounted.NOT
        assert one.offered is not None
        assert one.offered[0] == pytest.approx(usd)


def test_an_absurd_price_adds_no_volume() -> None:
    """A swap of a million dollars for a few raw units of the token has no usable price."""
    few = swap(TOKEN, USDC, base_amount=999, quote_amount=10**12)
    absurd = swap(TOKEN, USDC, base_amount=1_000, quote_amount=10**15, base_decimals=20)
    priced = then(begun(), few, absurd)

    assert [(one.volume, one.price_usd, one.offered) for one in priced] == [(0, None, None)] * 2
    assert [one.evidence and one.evidence.flow for one in priced] == [10**12, 10**15]


def dust(pool: str, micro_usd: int) -> Swap:
    """Return a purchase of 999 raw units, too few to set a price, for *micro_usd*."""
    made = swap(TOKEN, USDC, base_amount=999, quote_amount=micro_usd)
    return made._replace(pool=pool, in_left=10 * 10**6)


@pytest.mark.parametrize(("micro_usd", "volume"), [(100_000, 100_000), (100_001, 0)])
def test_dust_counts_up_to_ten_cents(micro_usd: int, volume: int) -> None:
    (priced,) = then(begun(), dust("honest", micro_usd))

    assert (priced.volume, priced.price_usd) == (volume, None)


def test_dust_in_a_pool_that_sets_no_price_adds_no_volume() -> None:
    """Otherwise swaps of ten cents for a few raw units, repeated at will, would make any volume."""
    known = trade("private", 2.0, depth=10)
    priced = then(begun(), known, *[dust("private", 99_999), dust("unknown", 99_999)] * 3)

    assert volumes_of(priced) == (0, 0)
    assert [one.evidence and one.evidence.flow for one in priced[1:]] == [99_999] * 6


def test_dust_counts_before_the_first_price() -> None:
    (priced,) = then(Standings(), dust("first", 99_999))

    assert priced.volume == 99_999


def test_a_joined_backfill_decides_the_volume_of_dust_again() -> None:
    older = begun()
    before = older.of(TOKEN)
    swaps = dust("private", 99_999), dust("honest", 99_999)
    live = then(Standings(), *swaps)
    whole = then(older, *swaps)

    assert [one.volume for one in live] == [99_999, 99_999]
    assert [one.volume for one in whole] == [0, 99_999]
    assert decide_again(before, UnixS(START + 601), live)[0] == whole
    assert decide_again(None, UnixS(START + 601), whole)[0] == live


def test_the_log_keeps_evidence_and_volume_of_swaps() -> None:
    priced = then(begun(), trade("private", 9.0), trade("honest", 2.0))
    again = swaps_of(TOKEN, swaps_blob(priced))

    assert [one.evidence for one in again] == [one.evidence for one in priced]
    assert [one.volume for one in again] == [0, 200 * 10**6]


def test_a_joined_backfill_decides_volume_again() -> None:
    """After the join, the swap that set the live log's first price is rejected, without volume.

    The next swap, which was rejected, now sets the price and adds volume.
    """
    younger, older = Standings(), begun()
    before: Standing | None = older.of(TOKEN)
    swaps = trade("private", 9.0, depth=10), trade("honest", 2.0)
    live, whole = then(younger, *swaps), then(older, *swaps)
    assert [one.volume for one in live] == [900 * 10**6, 0]
    assert [one.volume for one in whole] == [0, 200 * 10**6]
    again, decided = decide_again(before, UnixS(START + 601), live)

    assert again == whole
    assert decided == older.of(TOKEN)
