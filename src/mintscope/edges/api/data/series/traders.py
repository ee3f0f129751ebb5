"""GET /v1/token/{tokenAddress}/traders: who trades, of the swaps that are kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mintscope.base.primitives import MICRO_USD, Mint, UnixS
from mintscope.core.accounts.keys.scope import Scope
from mintscope.core.market.series.store import LoggedSwap
from mintscope.core.market.series.traders import TraderNow, crowd_of, newest, top_traders
from mintscope.edges.api.data.query import read_query
from mintscope.edges.api.data.series.recent import Made
from mintscope.edges.api.data.series.selling import SeriesShop, Wanted, made_of, not_tracked
from mintscope.edges.api.data.series.swaps import decimal
from mintscope.edges.api.data.series.trader_wire import (
    CrowdLine,
    TraderLine,
    TraderPage,
    TradersQuery,
)
from mintscope.edges.api.data.series.wire import Amount
from mintscope.edges.api.description.operation import OF_A_TOKEN, PAYERS, Operation
from mintscope.edges.api.v1 import mint_of
from mintscope.edges.server.request import Request
from mintscope.edges.server.response import Response

SWAPS_MAX: Final = 2_000  # that are read, and counted


@dataclass(frozen=True, slots=True)
class TraderRoutes:
    """The route of traders."""

    shop: SeriesShop

    @Operation(
        "GET",
        "/v1/token/{tokenAddress}/traders",
        TraderPage,
        unit="a page",
        refusals=OF_A_TOKEN,
        proofs=PAYERS,
        is_charged=True,
        takes_key=True,
        query=TradersQuery,
        scope=Scope.TRADE_READ,
    )
    async def get_traders(self, request: Request) -> Response:
        """Traders of a token: buyers, sellers, concentration, and the traders with the most.

        Returns who trades a Solana token, of its newest 2,000 kept swaps: buyers, sellers and
        concentration of 5 minutes and of all of them, and the traders with the most bought and
        sold, with what they gained on tokens that they bought and sold. A trader is the beginning
        of an address. Costs one credit or one payment, and nothing if no swap is kept; errors cost
        nothing.
        """
        caller = await self.shop.gate.admit(request)
        mint = mint_of(request.path_params["tokenAddress"])
        query = read_query(request, TradersQuery)

        async def make() -> Made:
            logged = await self.shop.reader.swaps(mint, None, SWAPS_MAX)
            if logged is None:
                raise not_tracked(mint)
            page = trader_page(mint, logged.swaps, logged.tip.time or UnixS(0), query.limit)
            return made_of(logged.tip, page, is_empty=not page.traders)

        return await self.shop.sell(request, caller, Wanted(mint, "traders", query), make)


def trader_page(mint: Mint, swaps: Sequence[LoggedSwap], now: UnixS, limit: int) -> TraderPage:
    """Return the traders in *swaps*, which are newest first, as the API sends them."""
    details = (one.swap.detail for one in swaps if one.swap.detail is not None)
    decimals = next((detail.decimals for detail in details if detail.decimals is not None), None)
    return TraderPage(
        token=mint,
        m5=CrowdLine.of(crowd_of(newest(swaps, now))),
        kept=CrowdLine.of(crowd_of(swaps)),
        traders=[_line(each, decimals) for each in top_traders(swaps, limit)],
        swaps_since=swaps[-1].time if swaps else None,
    )


def _line(one: TraderNow, decimals: int | None) -> TraderLine:
    return TraderLine(
        trader=one.trader,
        bought_usd=one.bought / MICRO_USD,
        sold_usd=one.sold / MICRO_USD,
        bought=Amount(str(one.bought_amount), decimal(one.bought_amount, decimals)),
        sold=Amount(str(one.sold_amount), decimal(one.sold_amount, decimals)),
        swaps=one.swaps,
        realised_usd=one.realised_usd,
        first_at=one.first_at,
        last_at=one.last_at,
    )
