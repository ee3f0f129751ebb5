"""GET /v1/token/{tokenAddress}/swaps: newest first."""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from msgspec.structs import astuple

from mintscope.base.primitives import MICRO_USD, MINT_LENGTH_MIN, Mint, Slot
from mintscope.core.accounts.keys.scope import Scope
from mintscope.core.market.log import Evidence, PricedSwap, Uncounted
from mintscope.core.market.series.store import LoggedSwap, LoggedSwaps, SwapPlace
from mintscope.edges.api.data.cursor import decode_cursor, encode_cursor
from mintscope.edges.api.data.query import read_query
from mintscope.edges.api.data.series.recent import Made
from mintscope.edges.api.data.series.selling import SeriesShop, Wanted, made_of, not_tracked
from mintscope.edges.api.data.series.wire import (
    Amount,
    BeforeSwap,
    PriceOfSwap,
    SwapLine,
    SwapPage,
    SwapsQuery,
)
from mintscope.edges.api.description.operation import OF_A_TOKEN, PAYERS, Operation
from mintscope.edges.api.v1 import mint_of
from mintscope.edges.server.request import Request
from mintscope.edges.server.response import Response

UNKNOWN: Final = "unknown"
Excluded: TypeAlias = Literal["otherPool", "roundTrip", "noPrice", "quote"]


@dataclass(frozen=True, slots=True)
class SwapRoutes:
    """The route of swaps."""

    shop: SeriesShop

    @Operation(
        "GET",
        "/v1/token/{tokenAddress}/swaps",
        SwapPage,
        unit="a page",
        refusals=OF_A_TOKEN,
        proofs=PAYERS,
        is_charged=True,
        takes_key=True,
        query=SwapsQuery,
        scope=Scope.TRADE_READ,
    )
    async def get_swaps(self, request: Request) -> Response:
        """The newest swaps of a token, up to 500 for a credit; none for a page without any.

        Returns the swaps of a Solana token, newest first, up to 500 a page: slot, time, signature,
        program, pool, side, amounts and price. Costs one credit or one payment a page, and nothing
        for a page without swaps; errors cost nothing. nextCursor leads to older ones, as long as
        they are kept.
        """
        caller = await self.shop.gate.admit(request)
        mint = mint_of(request.path_params["tokenAddress"])
        query = read_query(request, SwapsQuery)
        before = _place(query.cursor)

        async def make() -> Made:
            logged = await self.shop.reader.swaps(mint, before, query.limit)
            if logged is None:
                raise not_tracked(mint)
            page = wire_swaps(mint, logged)
            return made_of(logged.tip, page, is_empty=not logged.swaps)

        return await self.shop.sell(request, caller, Wanted(mint, "swaps", query), make)


def wire_swaps(mint: Mint, logged: LoggedSwaps) -> SwapPage:
    """Return *logged* as it is sent."""
    final = Slot(-1) if logged.final is None else logged.final
    lines = [line for one in logged.swaps if (line := _line(one, is_final=one.place.slot <= final))]
    cursor = None
    if logged.has_older:
        cursor = encode_cursor(BeforeSwap(*astuple(logged.swaps[-1].place)))
    return SwapPage(mint, lines, cursor)


def decimal(raw: int, decimals: int | None) -> str | None:
    """Return *raw* units in whole tokens, exact: "1.5"; None without *decimals*."""
    if decimals is None:
        return None
    digits = str(raw)
    if not decimals:
        return digits
    digits = digits.zfill(decimals + 1)
    return f"{digits[:-decimals]}.{digits[-decimals:]}".rstrip("0").rstrip(".")


def _place(cursor: str) -> SwapPlace | None:
    if not cursor:
        return None
    at = decode_cursor(cursor, BeforeSwap)
    return SwapPlace(Slot(at.slot), at.transaction_index, at.outer, at.inner, at.leg)


def _line(one: LoggedSwap, *, is_final: bool) -> SwapLine | None:
    swap = one.swap
    detail = one.swap.detail
    if detail is None:
        return None
    price = swap.offered  # its own, also where SOL has the rate as its price
    if price is None and swap.price_usd is not None and swap.price_sol is not None:
        price = swap.price_usd, swap.price_sol
    # There are hundreds in a page: one by one is the fastest.
    return SwapLine(
        one.place.slot,
        one.time,
        detail.signature,
        detail.program,
        swap.pool,
        "buy" if swap.is_buy else "sell",
        Amount(str(detail.amount), decimal(detail.amount, detail.decimals)),
        detail.quote,
        Amount(str(detail.quote_amount), decimal(detail.quote_amount, detail.quote_decimals)),
        None if price is None else PriceOfSwap(*price),
        swap.price_usd is not None,
        is_final,
        "transfers" if _is_unlisted(detail.program) else "table",
        _reason(swap),
        *_excluded(swap),
    )


def _reason(swap: PricedSwap) -> Literal["otherPool", "roundTrip", "noPrice"] | None:
    """Return why *swap* sets no price, None if it does."""
    if swap.price_usd is not None:
        return None
    if swap.offered is None:
        return "noPrice"
    is_trip = swap.evidence is not None and swap.evidence.trip
    return "roundTrip" if is_trip else "otherPool"


def _excluded(swap: PricedSwap) -> tuple[float | None, Excluded | None]:
    """Return the USD of *swap* that are in no volume, and why; None if it counts."""
    evidence = swap.evidence
    if swap.volume or evidence is None or not evidence.flow:
        return None, None
    return evidence.flow / MICRO_USD, _excluded_reason(swap, evidence)


def _excluded_reason(swap: PricedSwap, evidence: Evidence) -> Excluded:
    match evidence.uncounted:
        case Uncounted.ROUND_TRIP:
            return "roundTrip"
        case Uncounted.QUOTE:
            return "quote"
        case None:  # a log of before, whose direct swaps count unless their signer bought and sold
            return "roundTrip" if evidence.is_direct or evidence.trip else "quote"
        case _ if swap.offered is None:
            return "noPrice"
        case _:
            return "roundTrip" if evidence.trip else "otherPool"


def _is_unlisted(program: str) -> bool:
    """Return whether *program* is no name of the table; "unknown" in logs of before."""
    return len(program) > MINT_LENGTH_MIN or program == UNKNOWN
