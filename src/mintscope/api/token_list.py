"""Request and response types of the free routes."""

from typing import Annotated, Final, Literal

import msgspec

from mintscope.api.wire import Wire
from mintscope.kit.primitives import MICRO_USD, about
from mintscope.market.listing.listed import ListLine, Sort
from mintscope.market.report import Price
from mintscope.payments.protocol.envelope import TOKEN_PROGRAM
from mintscope.solana.blocks import WSOL

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
        Sort,
        msgspec.Meta(
            description="Volume and change are of a day, age since it is tracked. Tokens without"
            " a value come last."
        ),
    ] = Sort.VOLUME
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
    """The change of the price."""

    m5: Annotated[
        float | None,
        about("Over 5 minutes, as a fraction: 0.05 is 5 % more; null: too young.", 0.004),
    ]
    h1: Annotated[float | None, about("Over an hour, as a fraction; null: too young.", 0.012)]
    d1: Annotated[
        float | None,
        about(
            "Over a day, as a fraction; of a younger token since its first price: changeSince."
            " Null before it.",
            -0.05,
        ),
    ]


MULTIPLIED: Final = (
    "How many tokens wallets show for each that the mint counts, now (ScaledUiAmount of"
    " Token-2022); null: one. All prices and amounts are of tokens as the mint counts them: a price"
    " divided by this is that of a token as wallets show it."
)


NAME_CLEANED: Final = (
    "Whether name or symbol held characters that are never shown, as control or zero-width ones:"
    " they are left out here."
)
LOOK_ALIKE: Final = (
    "The mint of a token of which more is traded in a day, and whose symbol or name is the same"
    " once characters that look alike (Unicode TR39), their case and spaces are folded; null:"
    " there is none."
)


class ListedToken(Wire):
    """One token of the list; unknown values are null."""

    mint: Annotated[str, about("The mint, base58.", WSOL)]
    name: Annotated[str | None, about("Its name, as the chain says.", "Wrapped SOL")]
    symbol: Annotated[str | None, about("Its symbol, as the chain says.", "SOL")]
    decimals: Annotated[int | None, about("Its decimals.", 9)]
    price: Annotated[
        Price | None,
        about("Of one whole token, at its newest swap that is final; its age is as of asOf."),
    ]
    change: Annotated[PriceChange, about("How the price has changed.")]
    volume_usd_d1: Annotated[float, about("Bought and sold within a day, US dollars.", 1250000.5)]
    swaps_d1: Annotated[int, about("Swaps of a day that set the price.", 8410)]
    market_cap_usd: Annotated[
        float | None,
        about(
            "Price times supply, US dollars; null until the supply is known, and where the chain"
            " counts none, as of wrapped SOL.",
            None,
        ),
    ]
    ready_timeframes: Annotated[
        list[str], about("Those with enough candles for all indicators.", ["m1", "m5"])
    ]
    tracked_since: Annotated[
        int | None, about("Since when it is tracked, Unix seconds.", 1_763_200_800)
    ]
    age_s: Annotated[int | None, about("Seconds from then to asOf.", 259_200)]
    ui_multiplier: Annotated[float | None, about(MULTIPLIED, None)]
    change_since: Annotated[
        int | None,
        about(
            "Start of the minute of the first price, Unix seconds, if that is younger than a day:"
            " change.d1 is since then. Null: it is over a whole day.",
            None,
        ),
    ]
    name_cleaned: Annotated[bool, about(NAME_CLEANED, False)]  # noqa: FBT003 - an example
    look_alike_of: Annotated[str | None, about(LOOK_ALIKE, None)]

    @classmethod
    def of(cls, line: ListLine) -> "ListedToken":
        """Return *line* in its wire form."""
        listed = line.listed
        return cls(
            mint=listed.mint,
            name=listed.name,
            symbol=listed.symbol,
            decimals=listed.decimals,
            price=line.price,
            change=PriceChange(*line.changes),
            volume_usd_d1=line.volume / MICRO_USD,
            swaps_d1=line.swaps,
            market_cap_usd=line.market_cap,
            ready_timeframes=[each.value for each in line.ready],
            tracked_since=listed.since,
            age_s=line.age_s,
            ui_multiplier=line.ui_multiplier,
            change_since=line.change_since,
            name_cleaned=listed.is_cleaned,
            look_alike_of=line.look_alike_of,
        )


class TokenPage(Wire):
    """A page of the list, as of a final slot."""

    tokens: Annotated[list[ListedToken], about("The tokens, in the order that was asked for.")]
    slot: Annotated[int | None, about("The final slot.", 380_000_000)]
    as_of: Annotated[int | None, about("Its time, Unix seconds.", 1_763_460_000)]
    next_cursor: Annotated[
        str | None, about("The cursor of the next page; null: there is none.", None)
    ]


class Metadata(Wire):
    """The facts of a mint on chain."""

    mint: Annotated[str, about("The mint, base58.", WSOL)]
    name: Annotated[str | None, about("Its name.", "Wrapped SOL")]
    symbol: Annotated[str | None, about("Its symbol.", "SOL")]
    decimals: Annotated[int, about("Its decimals.", 9)]
    supply: Annotated[str, about("In the smallest unit, as text: it may need 64 bits.", "0")]
    program: Annotated[str, about("The program that owns the mint, base58.", TOKEN_PROGRAM)]
    mint_authority: Annotated[
        str | None, about("The address that can mint more; null: no more can be made.", None)
    ]
    freeze_authority: Annotated[
        str | None,
        about("The address that can freeze accounts; null: they cannot be frozen.", None),
    ]
    transfer_fee_bps: Annotated[
        int | None, about("Of a transfer, in 1/100 percent; null: none.", None)
    ]
    transfer_hook: Annotated[
        str | None, about("The program that runs at every transfer; null: none.", None)
    ]
    permanent_delegate: Annotated[
        str | None, about("The address that can move or burn all tokens; null: none.", None)
    ]
    ui_multiplier: Annotated[float | None, about(MULTIPLIED, None)]
    new_ui_multiplier: Annotated[
        float | None, about("The multiplier that takes its place; null: none is announced.", None)
    ]
    new_ui_multiplier_at: Annotated[
        int | None, about("When that holds, Unix seconds; null: none is announced.", None)
    ]
    name_cleaned: Annotated[bool, about(NAME_CLEANED, False)]  # noqa: FBT003 - an example
    look_alike_of: Annotated[str | None, about(LOOK_ALIKE, None)]
    in_words: Annotated[list[str], about("The same in sentences.", ["No more can be made."])]
    slot: Annotated[int, about("The slot at which the chain was asked.", 380_000_000)]
    read_at: Annotated[int, about("When it was asked, Unix seconds.", 1_763_460_000)]
