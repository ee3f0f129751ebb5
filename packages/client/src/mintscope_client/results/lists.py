"""The list of tokens, and the on-chain metadata of one token."""

import msgspec

from mintscope_client.results.report import TokenPrice


class ChangeOfPrice(msgspec.Struct, frozen=True):
    """Price changes as fractions: 0.05 is five percent up; None if the token is too young.

    d1   of a token younger than a day since its first price
    """

    m5: float | None
    h1: float | None
    d1: float | None


class TokenLine(msgspec.Struct, frozen=True, rename="camel"):
    """One token of a list; unknown values are None.

    price               of one whole token at its newest swap that is final
    volume_usd_d1       bought and sold within a day, USD
    swaps_d1            those of a day that set the price
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
    in_words     what its owners may do, in sentences
    read_at      when the chain was asked, Unix seconds
    ui_multiplier   how many tokens wallets show for one; new_ui_multiplier: what takes its place,
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
