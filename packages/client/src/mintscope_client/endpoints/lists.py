"""Lists of tokens, found by name or by a condition; and the on-chain metadata of one token."""

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
    """Price changes as fractions: 0.05 is five percent up; None if there is no earlier price.

    d1   the change within a day; if the first price is less than a day old, since that price
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
    ready_timeframes    the timeframes with enough candles for all indicators
    tracked_since       the time when tracking began, Unix seconds; age_s: the seconds from that
                        time until the list was made
    ui_multiplier       the number of tokens that wallets show for each token that the mint counts
                        (ScaledUiAmount of Token-2022); None: one
    change_since        the start of the minute of the first price, Unix seconds, if that price is
                        less than a day old; change.d1 is then the change since that price
    name_cleaned        whether the name or symbol had characters that are never shown
    look_alike_of       the mint of a token with more volume whose symbol or name looks the same
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
    """One page of the list of tokens.

    slot    the final slot after which the list was made
    as_of   the time of this slot, Unix seconds
    """

    tokens: list[TokenLine]
    slot: int | None
    as_of: int | None
    next_cursor: str | None


class TokenMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """The data of a mint on chain; `GET /openapi.json` describes each field.

    supply       the supply in the smallest unit, as text, because it can exceed the integers of
                 JSON in other languages
    in_words     sentences that describe what the authorities of the mint can do
    read_at      the time at which the data was read from the chain, Unix seconds
    ui_multiplier   the number of tokens that wallets show for each token that the mint counts;
                    None: one. new_ui_multiplier replaces it at new_ui_multiplier_at, Unix seconds
    name_cleaned    whether the name or symbol had characters that are never shown
    look_alike_of   the mint of a token with more volume whose symbol or name looks the same
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
    """One token for which a condition is true.

    values    the fields that were requested, by name; None: unknown, or too few candles yet
    """

    mint: str
    symbol: str | None
    name: str | None
    values: dict[str, float | str | None]


class ScreenPage(msgspec.Struct, frozen=True, rename="camel"):
    """One page of the tokens for which a condition is true.

    matches    the number of tokens on all pages
    slot       the final slot after which the condition was evaluated
    as_of      the time of this slot, Unix seconds
    """

    tokens: list[ScreenedToken]
    matches: int
    slot: int
    as_of: int
    next_cursor: str | None


class TokenQuery(TypedDict, total=False):
    """The options of a request for the list of tokens.

    sort     the sort key, one of those that GET /v1/tokens describes; `volume` (the default) and
             `change` are those of a day
    order    "asc": the smallest value first
    limit    the number of tokens on a page, up to 100; 50 by default
    """

    sort: Sort
    order: Literal["asc", "desc"]
    limit: int


def tokens(text: str = "", **asked: Unpack[TokenQuery]) -> PagedCall[TokensPage, TokenLine]:
    """Return the pages of tokens that match *text*.  Free.

    text    a part of the name or symbol, or the beginning of the mint; empty: all tokens
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
    """The options of a request for the tokens for which a condition is true.

    sort     the field to sort by, "volume_d1" by default
    order    "asc": the smallest value first
    fields   the fields in the answer: by default the price, the fields of the condition and the
             field *sort*
    limit    the number of tokens on a page, up to 100, the default; a page costs the same with
             fewer
    """

    sort: str
    order: Literal["asc", "desc"]
    fields: Sequence[str]
    limit: int


def screen(where: str = "", **asked: Unpack[ScreenQuery]) -> PagedCall[ScreenPage, ScreenedToken]:
    """Return the pages of tokens for which *where* is true.

    A page costs one credit, an empty page nothing.

    where    a condition, in the syntax of GET /v1/screen: "liquidity > 100000 and rsi_h1 < 30";
             empty: all tokens
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
