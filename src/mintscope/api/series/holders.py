"""GET /v1/token/{tokenAddress}/holders: the largest holders, read from the node within a budget."""

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from mintscope.api.discovery.operation import sold_page
from mintscope.api.query import read_query
from mintscope.api.series.swaps import Made, SeriesShop, Wanted, decimal, made_of, not_tracked
from mintscope.api.series.wire import Amount, Token
from mintscope.api.v1 import mint_of
from mintscope.api.wire import EXAMPLE_WALLET, Wire
from mintscope.kit.http.request import Request
from mintscope.kit.http.response import Response
from mintscope.kit.primitives import Mint, about
from mintscope.kit.time import SECOND_MS
from mintscope.market.series.holder_reads import HolderReader
from mintscope.market.series.holders import Holder, Holders
from mintscope.market.series.pools import KeptPools


class HoldersQuery(Wire):
    """Query of GET /v1/token/{tokenAddress}/holders, which has no fields."""


class HolderLine(Wire):
    """One of the largest token accounts."""

    account: Annotated[str, about("The token account.", EXAMPLE_WALLET)]
    owner: Annotated[str | None, about("Its owner; null: not readable.", EXAMPLE_WALLET)]
    amount: Annotated[Amount, Meta(description="Its balance.")]
    share: Annotated[float | None, about("Share of the supply, 0 to 1; null: supply is 0.", 0.12)]
    kind: Annotated[
        Literal["burned", "locked", "pool", "other"],
        Meta(description="The kind of its owner."),
    ]
    name: Annotated[
        str | None, about("Name of the burn address, locker or exchange; null: other.", "pumpswap")
    ]


class HolderPage(Wire):
    """The largest accounts of a token, up to 20, the largest first."""

    token: Token
    holders: Annotated[list[HolderLine], Meta(description="Up to 20 token accounts.")]
    supply: Annotated[Amount, Meta(description="The whole supply, as the mint counts it.")]
    burned: Annotated[
        Amount, Meta(description="The supply that these accounts hold at burn addresses.")
    ]
    supply_without_burned: Annotated[Amount, Meta(description="The supply less what is burned.")]
    top20_share: Annotated[
        float | None,
        about("Share of supplyWithoutBurned in these accounts, except burned, locked, pool.", 0.31),
    ]
    slot: Annotated[int, about("As of this slot.", 380_000_000)]
    read_at: Annotated[int, about("When the node was asked, Unix seconds.", 1_763_460_000)]


@dataclass(frozen=True, slots=True)
class HolderRoutes:
    """The route of the largest holders of a token; *holders* reads them from the node."""

    shop: SeriesShop
    holders: HolderReader

    @sold_page("/v1/token/{tokenAddress}/holders", HolderPage, query=HoldersQuery)
    async def get_holders(self, request: Request) -> Response:
        """The 20 largest holders of a token, with burned, locked and pooled amounts named.

        Returns the 20 largest accounts of a Solana token with their shares; pools, burn addresses
        and lockers are named. Also the supply, its burned part and the rest. Read from the node at
        most every five minutes and within a daily budget; readAt says when. Costs one credit or one
        payment; errors, and a node that does not answer this, cost nothing.
        """
        caller = await self.shop.gate.admit_buyer(request)
        mint = mint_of(request.path_params["tokenAddress"])
        query = read_query(request, HoldersQuery)

        async def pools() -> KeptPools:
            kept = await self.shop.reader.pools(mint, 0)  # a span of 0: no candles are needed
            if kept is None:
                raise not_tracked(mint)
            return kept

        async def make() -> Made:
            kept = await pools()
            found = await self.holders.of(mint, kept.booked)
            return made_of(kept.tip, holder_page(mint, found), is_empty=False)

        # Reads only the store: the node is called for clients that can pay.
        async def look() -> Made:
            return Made((await pools()).tip, b"", is_empty=False)

        return await self.shop.sell(request, caller, Wanted(mint, "holders", query), make, look)


def holder_page(mint: Mint, found: Holders) -> HolderPage:
    """Return *found* as the body of the response."""

    def amount(raw: int) -> Amount:
        return Amount(str(raw), decimal(raw, found.decimals))

    def line(one: Holder) -> HolderLine:
        share = one.amount / found.supply if found.supply else None
        return HolderLine(
            one.account, one.owner, amount(one.amount), share, one.kind.value, one.name
        )

    left = found.supply - found.burned
    free = sum(one.amount for one in found.holders if one.kind == "other")
    return HolderPage(
        token=mint,
        holders=[line(one) for one in found.holders],
        supply=amount(found.supply),
        burned=amount(found.burned),
        supply_without_burned=amount(left),
        top20_share=free / left if left > 0 else None,
        slot=found.slot,
        read_at=found.read_at_ms // SECOND_MS,
    )
