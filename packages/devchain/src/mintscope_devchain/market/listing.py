"""The tokens of the simulated market, and the rules by which each is traded."""

from random import Random
from typing import Final, NamedTuple

from mintscope.kit.time import DAY_S
from mintscope.solana.blocks import USDC, WSOL
from mintscope_devchain.market.pool import Token, Venue

SOL: Final = Token(WSOL, "SOL", 9)
DOLLAR: Final = Token(USDC, "USDC", 6)
SOL_USD: Final = 162.0


class Listing(NamedTuple):
    """A token of the market, and how it is traded.

    price          the price at the start, in US dollars; later prices tend to return to it
    venues         its pools: the program and the quote token of each
    history, live  the expected number of swaps in a block of the history, and in a live block
    buys           the share of buys among random swaps; other swaps move a pool towards the price
    volatility     the standard deviation of the logarithm of the price over a day
    born, died     when trades begin and stop, in seconds before the end of the history;
                   negative: after the end; None: it has always traded, or never stops
    called         its symbol on chain; "": the same as *symbol*
    graduates      when it leaves its curve for the next venue, in seconds before the end of the
                   history; negative: after the end; None: never
    """

    symbol: str
    decimals: int
    price: float
    venues: tuple[tuple[Venue, Token], ...]
    history: float
    live: float
    buys: float = 0.5
    volatility: float = 0.3
    born: int | None = None
    died: int | None = None
    called: str = ""
    graduates: int | None = None


_V4 = (Venue.RAYDIUM_V4, SOL)
_CLMM = (Venue.RAYDIUM_CLMM, DOLLAR)
_ORCA = (Venue.WHIRLPOOL, SOL)
_DLMM = (Venue.METEORA_DLMM, DOLLAR)
_SWAP = (Venue.PUMP_SWAP, SOL)
_CURVE = (Venue.PUMP_FUN, SOL)
_CLMM_SOL = (Venue.RAYDIUM_CLMM, SOL)
_DLMM_SOL = (Venue.METEORA_DLMM, SOL)

LISTINGS: Final = (
    Listing("BONE", 5, 0.0000214, (_V4, _ORCA), 2.4, 1.2, 0.52, 0.25),
    Listing("WHIF", 6, 0.83, (_V4, _CLMM), 2.2, 1.0, 0.48, 0.3),
    Listing("MOON", 6, 0.0042, (_SWAP,), 2.0, 0.9, 0.61, 0.5),
    Listing("PEPA", 6, 0.0000193, (_CURVE,), 2.0, 0.8, 0.66, 0.6),
    Listing("LEAF", 9, 2.41, (_ORCA, _DLMM), 1.8, 0.6, 0.5, 0.2),
    Listing("STAR", 6, 0.97, (_CLMM_SOL, _DLMM), 1.6, 0.5, 0.45, 0.2),
    Listing("XAUR", 2, 0.0417, (_CLMM,), 1.3, 0.3, 0.55, 0.1),
    Listing("FROG", 6, 0.00061, (_SWAP,), 1.2, 0.25, 0.57, 0.6),
    Listing("LION", 9, 171.3, (_DLMM_SOL,), 1.1, 0.2, 0.5, 0.15),
    Listing("CATS", 6, 0.0000142, (_CURVE,), 1.0, 0.2, 0.7, 0.7),
    Listing("OWLS", 5, 0.00000077, (_ORCA,), 1.0, 0.1, 0.42, 0.4),
    Listing("RIVR", 6, 0.118, (_V4,), 0.8, 0.06, 0.5, 0.3),
    Listing("PINE", 9, 14.2, (_CLMM,), 0.6, 0.04, 0.38, 0.25),
    Listing("COAL", 2, 0.00305, (_V4,), 0.5, 0.02, 0.3, 0.2),
    Listing("GOAT", 6, 0.00031, (_SWAP,), 0.4, 0.015, 0.6, 0.8),
    Listing("MINT", 6, 0.25, (_ORCA,), 0.3, 0.01, 0.5, 0.3),
    Listing("SLOW", 9, 0.052, (_DLMM,), 0.15, 0.002, 0.5, 0.3),
    Listing("DOZE", 6, 0.0017, (_V4,), 0.05, 0.0001, 0.5, 0.3),
    Listing("GONE", 6, 0.0000255, (_CURVE,), 0.6, 0.0, 0.4, 0.9, died=3 * DAY_S),
    Listing("BABY", 6, 0.000021, (_CURVE,), 1.5, 0.00001, 0.8, 0.4, born=240),
)


# The further tokens of a market with a story: a token that leaves its curve, a token whose symbol
# looks like BONE (its O is Cyrillic), one with the symbol of MOON, and tokens that launch within an
# hour after the history.
STORY: Final = (
    Listing("GRAD", 6, 0.00006, (_CURVE, _SWAP), 2.4, 0.5, 0.6, 0.2, graduates=-180),
    Listing("TWIN", 5, 0.0000019, (_V4,), 0.2, 0.01, called="B\N{CYRILLIC CAPITAL LETTER O}NE"),
    Listing("SAME", 6, 0.00011, (_SWAP,), 0.3, 0.01, called="MOON"),
    *(
        Listing(f"NEW{number}", 6, 0.000021, (_CURVE,), 3.0, 0.1, 0.8, 0.4, born=-after_s)
        for number, after_s in enumerate((120, 300, 600, 1_200, 2_400), 1)
    ),
)


def numbered(number: int) -> Listing:
    """Return the token of the market with *number*; high numbers give variants with fewer swaps."""
    again, which = divmod(number, len(LISTINGS))
    listing = LISTINGS[which]
    if not again:
        return listing
    pick = Random(number)  # noqa: S311  # a market, not a secret
    on_a_curve = any(venue is Venue.PUMP_FUN for venue, _ in listing.venues)
    return listing._replace(
        symbol=f"{listing.symbol}{again}",
        price=listing.price * (1 if on_a_curve else pick.uniform(0.2, 5)),
        history=listing.history * pick.uniform(0.3, 1),
        live=listing.live * pick.uniform(0.1, 1),
    )
