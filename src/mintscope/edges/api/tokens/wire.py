"""What the free routes are asked, and what they answer."""

from typing import Annotated, Final, Literal

import msgspec

from mintscope.core.market.listing.listed import ListLine
from mintscope.core.market.report import Price
from mintscope.edges.api.wire import Wire

MICRO_USD: Final = 1_000_000
PAGE_MAX: Final = 100


class ListQuery(Wire):
    """Query of GET /v1/tokens."""

    query: Annotated[
        str,
        msgspec.Meta(
            max_length=64,
            description="Part of the name or symbol, in any case; or the beginning of the mint.",
        ),
    ] = ""
    sort: Annotated[
        Literal["volume", "change", "age", "price"],
        msgspec.Meta(
            description="By the volume or the change of a day, how long it is tracked, or the price"
            " in USD. Tokens that have no such value come last."
        ),
    ] = "volume"
    order: Annotated[
        Literal["asc", "desc"], msgspec.Meta(description="The least first, or the most.")
    ] = "desc"
    limit: Annotated[
        int, msgspec.Meta(ge=1, le=PAGE_MAX, description="Tokens on a page, at most.")
    ] = 50
    cursor: Annotated[
        str,
        msgspec.Meta(
            max_length=512,
            description="`nextCursor` of the page before, to the same query, sort and order.",
        ),
    ] = ""


class PriceChange(Wire):
    """How the price has changed, as a fraction: 0.05 is five percent more; null: too young."""

    m5: float | None
    h1: float | None
    d1: float | None


class ListedToken(Wire):
    """One token of the list: what is not known is null.

    price               of one whole token at its newest swap that is final
    change              since the newest price from before the span
    volume_usd_d1       bought and sold within a day, USD
    swaps_d1            those of a day that set the price
    market_cap_usd      price times supply; null until the chain was asked for the supply
    ready_timeframes    those with enough candles for all indicators
    tracked_since       Unix seconds; age_s: seconds from then to `asOf`
    """

    mint: str
    name: str | None
    symbol: str | None
    decimals: int | None
    price: Price | None
    change: PriceChange
    volume_usd_d1: float
    swaps_d1: int
    market_cap_usd: float | None
    ready_timeframes: list[str]
    tracked_since: int | None
    age_s: int | None

    @classmethod
    def of(cls, line: ListLine) -> "ListedToken":
        """Return *line* as it is sent."""
        listed, usd, sol = line.listed, line.usd, line.sol
        return cls(
            mint=listed.mint,
            name=listed.name,
            symbol=listed.symbol,
            decimals=listed.decimals,
            price=None if usd is None or sol is None else Price(usd, sol),
            change=PriceChange(*line.changes),
            volume_usd_d1=line.volume / MICRO_USD,
            swaps_d1=line.swaps,
            market_cap_usd=line.market_cap,
            ready_timeframes=[each.value for each in line.ready],
            tracked_since=listed.since,
            age_s=line.age_s,
        )


class TokenPage(Wire):
    """`data` of GET /v1/tokens, as of a final slot: `as_of` is its time in Unix seconds."""

    tokens: list[ListedToken]
    slot: int | None
    as_of: int | None
    next_cursor: str | None


class Metadata(Wire):
    """`data` of GET /v1/token/{tokenAddress}/metadata: what the chain says of the mint.

    supply               in the smallest unit, as text: it may need 64 bits
    mint_authority       who can make more; null: no more can be made
    freeze_authority     who can freeze accounts; null: they cannot be frozen
    transfer_fee_bps     of a transfer, in 1/100 percent; null: none
    transfer_hook        the program that runs at every transfer; null: none
    permanent_delegate   who can move or burn anyone's tokens; null: none
    in_words             the same in sentences
    slot, read_at        the chain was asked then: Unix seconds
    """

    mint: str
    name: str | None
    symbol: str | None
    decimals: int
    supply: str
    program: str
    mint_authority: str | None
    freeze_authority: str | None
    transfer_fee_bps: int | None
    transfer_hook: str | None
    permanent_delegate: str | None
    in_words: list[str]
    slot: int
    read_at: int
