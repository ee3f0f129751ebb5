"""Prices of the tokens that payments are taken in, as configured."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from decimal import Decimal
from typing import Final

from mintscope.base.clock import Clock
from mintscope.base.primitives import Mint, Wallet
from mintscope.base.solana import Endpoint
from mintscope.core.checkout.merchant import AcceptedToken
from mintscope.core.market.log import LogReader
from mintscope.core.payments.pricing.price_cache import PinnedPrice, PriceCache, PriceSource
from mintscope.core.payments.protocol.requirement import Terms
from mintscope.core.payments.settlement import PaymentChain
from mintscope.edges.settlement import price_sources
from mintscope.edges.settlement.reserves import RpcReserves, Vaults
from mintscope.shell.config.config import Config
from mintscope.shell.config.payments import PaymentsConfig
from mintscope.shell.wiring.selling.terms import CannotSell

USDC_NAME: Final = "USD Coin"
USDC_SYMBOL: Final = "USDC"
USDC_USD: Final = Decimal(1)  # by definition: where it is worth less, the treasury bears that


def payment_tokens_of(  # noqa: PLR0913 - one argument for each part
    payments: PaymentsConfig,
    price: PriceSource,
    *,
    accepted: Sequence[Terms],
    chain: PaymentChain,
    reader: LogReader,
    clock: Clock,
) -> Sequence[AcceptedToken]:
    """Return the tokens of the *accepted* terms; *price* is the payment token's, the first's."""
    own, *beside = accepted

    def token(
        terms: Terms, source: PriceSource, asset: Mint | None, name: str, symbol: str
    ) -> AcceptedToken:
        price_cache = PriceCache(
            price_sources.UsableToken(
                price_sources.OwnChain(
                    price_sources.TrueClock(source, chain, clock), chain, reader
                ),
                chain,
                asset,
            ),
            decimals=terms.decimals,
            clock=clock,
            sol=price_sources.SolPrice(reader),
            fee_share_max=payments.fee_share_max,
        )
        return AcceptedToken(terms=terms, price_cache=price_cache, name=name, symbol=symbol)

    return [
        token(own, price, None, payments.asset_name, payments.asset_symbol),
        *(
            token(each, PinnedPrice(USDC_USD), each.asset, USDC_NAME, USDC_SYMBOL)
            for each in beside
        ),
    ]


def price_source(
    config: Config, endpoint: Endpoint, reader: LogReader, stack: AsyncExitStack
) -> PriceSource:
    """Return the configured source; *stack* closes what it opens."""
    payments = config.payments
    match payments.price_source:
        case "pinned":
            return PinnedPrice(payments.price_usd)
        case "feed":
            if payments.price_feed_url is None:
                raise CannotSell("payments.price_feed_url: expected the feed of the price")
            feed = price_sources.FeedPrice(payments.price_feed_url.get_secret_value())
            stack.push_async_callback(feed.aclose)
            return feed
        case "market":
            asset = Mint(payments.asset)
            pairs = (pool.partition(":") for pool in payments.pools)
            pools = [Vaults(Wallet(base), Wallet(quote)) for base, _, quote in pairs]
            dollars = frozenset(map(Mint, config.market.dollars))
            reserves = RpcReserves(endpoint, base=asset, pools=pools, dollars=dollars)
            stack.push_async_callback(reserves.aclose)
            return price_sources.MarketPrice(
                reader, reserves, asset=asset, decimals=payments.decimals, dollars=dollars
            )
