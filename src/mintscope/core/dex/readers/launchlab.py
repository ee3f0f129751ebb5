"""LaunchLab: its event carries the reserve of the curve, of which the vault holds a part.

The launcher of a token chooses the other part, the virtual reserve: it could be millions that
have never been paid in.  So it counts at most as much as the virtual reserve of a common curve,
that of pump.fun.
"""

from typing import Final

from mintscope.base.primitives import Mint
from mintscope.base.solana import DOLLARS, WSOL
from mintscope.core.dex import base58, events, transfers
from mintscope.core.dex.program import Call, Leg
from mintscope.core.dex.token_accounts import TokenAccounts
from mintscope.core.market.swap import Swap

VIRTUAL_QUOTE: Final = 48
REAL_QUOTE_AFTER: Final = 80
RESERVE_MAX: Final = 10**18  # raw units: more than there are of any quote
VIRTUAL_SOL_MAX: Final = 40 * 10**9  # lamports; the common curve has 30 SOL
VIRTUAL_DOLLARS_MAX: Final = 6_000 * 10**6
# buy_exact_in, buy_exact_out
BUYS: Final = frozenset(map(bytes.fromhex, ("faea0d7bd59c13ec", "18d3742869039938")))


def read(call: Call, legs: tuple[Leg, ...], token_accounts: TokenAccounts) -> list[Swap]:
    """Return the swap of *call* by what moved, with the reserve of its curve, the virtual one too.

    Raises Unreadable
    """
    swaps = transfers.read(call, legs, token_accounts)
    if len(swaps) != 1:
        return swaps
    (swap,) = swaps
    is_buy = base58.head(call.instruction.data) in BUYS
    reserve = _reserve(call, swap.in_mint if is_buy else swap.out_mint)
    if reserve is None:
        return swaps
    return [swap._replace(in_left=reserve) if is_buy else swap._replace(out_left=reserve)]


def _reserve(call: Call, quote: Mint) -> int | None:
    """Return the *quote* reserve of the curve after the trade; None without its event."""
    for data, _ in events.told(call):
        virtual = min(events.u64(data, VIRTUAL_QUOTE), _virtual_max(quote))
        reserve = virtual + events.u64(data, REAL_QUOTE_AFTER)
        return reserve if 0 < reserve < RESERVE_MAX else None
    return None


def _virtual_max(quote: Mint) -> int:
    """Return the part of a virtual reserve of *quote* that counts, in raw units."""
    if quote == WSOL:
        return VIRTUAL_SOL_MAX
    return VIRTUAL_DOLLARS_MAX if quote in DOLLARS else 0
