"""GET /v1/token/{tokenAddress}/pools: the pools that decide the price, the heaviest first."""

from dataclasses import dataclass
from typing import Final

from mintscope.base.errors import InsufficientData, ServiceUnavailable
from mintscope.base.primitives import Mint
from mintscope.core.accounts.keys.scope import Scope
from mintscope.core.market.basis.packed import unpack
from mintscope.core.market.listing.listed import ListedTokens, TokenLists
from mintscope.core.market.series.pools import pools_of
from mintscope.core.market.series.store import LoggedSwaps
from mintscope.edges.api.data.query import read_query
from mintscope.edges.api.data.series.pool_wire import PoolLine, PoolPage, PoolsQuery
from mintscope.edges.api.data.series.recent import Made
from mintscope.edges.api.data.series.selling import SeriesShop, Wanted, made_of, not_tracked
from mintscope.edges.api.description.operation import OF_A_TOKEN, PAYERS, Operation
from mintscope.edges.api.v1 import mint_of
from mintscope.edges.server.request import Request
from mintscope.edges.server.response import Response

SWAPS_MAX: Final = 2_000  # that are read, and counted


@dataclass(frozen=True, slots=True)
class PoolRoutes:
    """The route of pools; *lists* knows what stands in them."""

    shop: SeriesShop
    lists: TokenLists

    @Operation(
        "GET",
        "/v1/token/{tokenAddress}/pools",
        PoolPage,
        unit="a page",
        refusals=OF_A_TOKEN,
        proofs=PAYERS,
        is_charged=True,
        takes_key=True,
        query=PoolsQuery,
        scope=Scope.TRADE_READ,
    )
    async def get_pools(self, request: Request) -> Response:
        """The pools of a token: what stands in each, what is traded, what a trade would move.

        Returns the pools that decide the price of a Solana token, up to 8, the heaviest first:
        venue, pair, price, share of what decides the price, US dollars on each side, volume, swaps
        and traders of 5 minutes and of all kept swaps, and by what part trades of 100, 1,000 and
        10,000 US dollars would move the price. Costs one credit or one payment; errors cost
        nothing. As of the newest final slot.
        """
        caller = await self.shop.gate.admit(request)
        mint = mint_of(request.path_params["tokenAddress"])
        query = read_query(request, PoolsQuery)

        async def make() -> Made:
            listed = self.lists.newest()
            logged = await self.shop.reader.swaps(mint, None, SWAPS_MAX)
            if logged is None:
                raise not_tracked(mint)
            return made_of(logged.tip, pool_page(mint, listed, logged), is_empty=False)

        return await self.shop.sell(request, caller, Wanted(mint, "pools", query), make)


def pool_page(mint: Mint, listed: ListedTokens, logged: LoggedSwaps) -> PoolPage:
    """Return the pools of *mint* as of *listed*, with the swaps in *logged* up to its slot.

    Raises InsufficientData before the first swap that sets a price is final.
    """
    slot = listed.folded.slot
    now = listed.folded.time
    if slot is None or now is None:
        raise ServiceUnavailable("No block has been read yet; try again shortly.")
    packed = listed.standing_of(mint)
    if packed is None:
        raise InsufficientData("There is no final swap of this token yet that sets a price.")
    swaps = [one for one in logged.swaps if one.place.slot <= slot]
    pools = pools_of(unpack(packed), swaps, now)
    since = swaps[-1].time if swaps else None
    return PoolPage(mint, [PoolLine.of(one) for one in pools], slot, now, since)
