"""LaunchLab: its event says what a curve trades against, of which the vault holds a part."""

from typing import Final

from mintscope.core.dex import base58, events, transfers
from mintscope.core.dex.program import Call, Leg
from mintscope.core.dex.token_accounts import TokenAccounts
from mintscope.core.market.swap import Swap

VIRTUAL_QUOTE: Final = 48
REAL_QUOTE_AFTER: Final = 80
RESERVE_MAX: Final = 10**18  # raw units: more than there are of any quote
# buy_exact_in, buy_exact_out
BUYS: Final = frozenset(map(bytes.fromhex, ("faea0d7bd59c13ec", "18d3742869039938")))


def read(call: Call, legs: tuple[Leg, ...], token_accounts: TokenAccounts) -> list[Swap]:
    """Return the swap of *call* by what moved, with the reserve of its curve, the virtual one too.

    Raises Unreadable
    """
    swaps = transfers.read(call, legs, token_accounts)
    reserve = _reserve(call)
    if len(swaps) != 1 or reserve is None:
        return swaps
    if base58.head(call.instruction.data) in BUYS:
        return [swaps[0]._replace(in_left=reserve)]
    return [swaps[0]._replace(out_left=reserve)]


def _reserve(call: Call) -> int | None:
    """Return the quote that the curve trades against after the trade; None if no event tells."""
    for data, _ in events.told(call):
        reserve = events.u64(data, VIRTUAL_QUOTE) + events.u64(data, REAL_QUOTE_AFTER)
        return reserve if 0 < reserve < RESERVE_MAX else None
    return None
