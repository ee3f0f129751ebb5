"""Lists of tokens: by name, or by a condition; and the on-chain metadata of one token."""

from collections.abc import Sequence
from typing import Literal, TypeAlias, TypedDict

import msgspec
from typing_extensions import Unpack

from mintscope_client.calls.call import ApiCall
from mintscope_client.calls.known import expect_known
from mintscope_client.calls.paged import PagedCall
from mintscope_client.calls.requests import query_of, segment
from mintscope_client.endpoints.reports import TokenPrice

Sort: TypeAlias = Literal[
    "volume", "change", "age", "price",
    "change_m5", "change_h1", "market_cap", "rsi_h1", "pressure_h1",
]  # fmt: skip


class ChangeOfPrice(msgspec.Struct, frozen=True):
    """Price changes as fractions: 0.05 is five percent up; None if the token is too young.

    d1   of a token younger than a day since its first price
    """

    m5: float | None
    h1: float | None
    d1: float | None


class TokenLine(msgspec.Struct, frozen=True, rename="camel"):
    """One token of a list; unknown values are None.

    price               the price of one whole token at its newest final swap
    volume_usd_d1       USD bought and sold within a day
    swaps_d1            the swaps of a day that set the price
    market_cap_usd      price times supply
    ready_timeframes    those with enough candles for all indicators
    tracked_since       Unix seconds; age_s: seconds from then until the list was made
    ui_multiplier       how many tokens wallets show for one (ScaledUiAmount of Token-2022)
    change_since        when the first price was, Unix seconds, if that is younger than a day:
                        change.d1 is since then
    name_cleaned        name or symbol held characters that are never shown
    look_alike_of       the mint of a larger token whose symbol or name looks the same
    """

    mint: str
    name: str | None
    symbol: str | None
    decimals: int | None
    price: TokenPrice | None
    change: ChangeOfPrice
    volume_usd_d1: float
    swaps_d1: int
    market_cap_usd: float | None
    ready_timeframes: list[str]
    tracked_since: int | None
    age_s: int | None
    ui_multiplier: float | None = None
    change_since: int | None = None
    name_cleaned: bool = False
    look_alike_of: str | None = None


class TokensPage(msgspec.Struct, frozen=True, rename="camel"):
    """Tokens as of a final slot, whose time is *as_of*, in Unix seconds."""

    tokens: list[TokenLine]
    slot: int | None
    as_of: int | None
    next_cursor: str | None


class TokenMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """The facts of a mint on chain; `GET /openapi.json` describes each field.

    supply       in the smallest unit, as text: it may need 64 bits
    in_words     the powers of its owners, in sentences
    read_at      time of the read from the chain, Unix seconds
    ui_multiplier   how many tokens wallets show for one; new_ui_multiplier: its replacement,
                    at new_ui_multiplier_at, Unix seconds
    name_cleaned    name or symbol held characters that are never shown
    look_alike_of   the mint of a larger token whose symbol or name looks the same
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
    ui_multiplier: float | None = None
    new_ui_multiplier: float | None = None
    new_ui_multiplier_at: int | None = None
    name_cleaned: bool = False
    look_alike_of: str | None = None


class ScreenedToken(msgspec.Struct, frozen=True):
    """One token that was found.

    values    the fields that are shown, by their names; None: not known, or too few candles yet
    """

    mint: str
    symbol: str | None
    name: str | None
    values: dict[str, float | str | None]


class ScreenPage(msgspec.Struct, frozen=True, rename="camel"):
    """Tokens that were found, as of a final slot, whose time is *as_of*, in Unix seconds.

    matches    the number of tokens on all pages
    """

    tokens: list[ScreenedToken]
    matches: int
    slot: int
    as_of: int
    next_cursor: str | None


class TokenQuery(TypedDict, total=False):
    """The options of a list of tokens.

    sort     the sort key, as GET /v1/tokens lists them; of a day if no other span is named
    order    "asc": the smallest first
    limit    the number of tokens on a page, up to 100
    """

    sort: Sort
    order: Literal["asc", "desc"]
    limit: int


def tokens(text: str = "", **asked: Unpack[TokenQuery]) -> PagedCall[TokensPage, TokenLine]:
    """Return pages of tokens whose name or symbol has *text* or whose mint starts with it.

    Free.
    """
    expect_known(asked, TokenQuery)
    fields = {"query": text or None, **asked}

    def call_at(cursor: str | None) -> ApiCall[TokensPage]:
        return ApiCall(
            name="tokens",
            method="GET",
            path="/v1/tokens",
            kind=TokensPage,
            query=query_of({**fields, "cursor": cursor}),
        )

    return PagedCall(call_at, lambda page: page.tokens)


class ScreenQuery(TypedDict, total=False):
    """The options of a screen.

    sort     the field to sort by, "volume_d1" by default
    order    "asc": the smallest first
    fields   that are shown: by default price, those of the condition, and that of *sort*
    limit    the number of tokens on a page, 100 by default and at most: each page costs the same
    """

    sort: str
    order: Literal["asc", "desc"]
    fields: Sequence[str]
    limit: int


def screen(where: str = "", **asked: Unpack[ScreenQuery]) -> PagedCall[ScreenPage, ScreenedToken]:
    """Return the pages of tokens for which *where* is true.  A page costs a credit unless empty.

    where    a condition, as GET /v1/screen describes it: "liquidity > 100000 and rsi_h1 < 30"
    """
    expect_known(asked, ScreenQuery)
    fields = {"where": where or None, **asked}
    if "fields" in asked:
        fields["fields"] = ",".join(asked["fields"]) or None

    def call_at(cursor: str | None) -> ApiCall[ScreenPage]:
        return ApiCall(
            name="screen",
            method="GET",
            path="/v1/screen",
            kind=ScreenPage,
            query=query_of({**fields, "cursor": cursor}),
            credits_max=1,
            credits_of=lambda page: 1 if page.tokens else 0,
        )

    return PagedCall(call_at, lambda page: page.tokens)


def metadata(mint: str) -> ApiCall[TokenMetadata]:
    """Return the call for the on-chain metadata of *mint*.  Free."""
    return ApiCall(
        name="metadata",
        method="GET",
        path=f"/v1/token/{segment(mint)}/metadata",
        kind=TokenMetadata,
    )
