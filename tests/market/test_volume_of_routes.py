"""A route over several pools counts once for each mint that it trades."""

from collections import Counter
from typing import Final

import pytest

from mintscope.dex.outcome import Swap
from mintscope.kit.primitives import Mint, Signature, UnixS
from mintscope.market.pricing import Rate, price_slot
from mintscope.solana.blocks import USDC, USDT, WSOL

RATE: Final = Rate(150.0, UnixS(1_700_000_000))
A, B = Mint("A" * 44), Mint("B" * 44)
DECIMALS: Final = {USDC: 6, USDT: 6, WSOL: 9, A: 6, B: 6}
USD: Final = 300  # the value of a route
WORTH: Final = {  # raw units of each mint that have this value
    USDC: USD * 10**6,
    USDT: USD * 10**6,
    WSOL: 2 * 10**9,
    A: 10**9,
    B: 10**10,
}


def leg(number: int, received: Mint, paid: Mint, share: float = 1.0) -> Swap:
    place = (Signature("signature"), 0, 0, number, 0)
    ins = (received, int(WORTH[received] * share), DECIMALS[received])
    outs = (paid, int(WORTH[paid] * share), DECIMALS[paid])
    return Swap(*place, "made", f"pool-{number}", *ins, *outs, "signer")


@pytest.mark.parametrize(
    ("route", "counted"),
    [
        ([leg(0, USDC, WSOL), leg(1, WSOL, A)], {WSOL: USD, A: USD}),
        ([leg(0, A, WSOL), leg(1, WSOL, B)], {A: USD, B: USD}),
        ([leg(0, A, USDC), leg(1, USDC, WSOL), leg(2, WSOL, B)], {A: USD, WSOL: USD, B: USD}),
        # Parts of one amount in two pools.
        ([leg(0, WSOL, A, 0.25), leg(1, WSOL, A, 0.75)], {A: USD}),
        ([leg(0, USDC, A, 0.5), leg(1, USDC, WSOL, 0.5), leg(2, WSOL, A, 0.5)],
         {A: USD, WSOL: USD / 2}),
        # Through a token: after the route no one has more of it than before.
        ([leg(0, WSOL, A), leg(1, A, USDC)], {}),
        ([leg(0, WSOL, A), leg(1, A, WSOL)], {}),
    ],
)  # fmt: skip
def test_a_route_counts_once_for_each_mint(route: list[Swap], counted: dict[Mint, float]) -> None:
    found: Counter[Mint] = Counter()
    for swap in price_slot(route, RATE).swaps:
        found[swap.mint] += swap.volume
    assert {mint: volume / 10**6 for mint, volume in found.items() if volume} == counted
