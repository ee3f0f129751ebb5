"""The data and actions of administrators while the service runs."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from mintscope.app.config.config import ChainConfig
from mintscope.app.config.groups import Config, PaymentsConfig
from mintscope.app.maintenance import running
from mintscope.app.payments import USDC_DECIMALS
from mintscope.app.running.hours import HourWriter
from mintscope.app.sources import ask_facts
from mintscope.app.stores.stores import Market, Money
from mintscope.kit.clock import Clock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import Mint
from mintscope.market.mint_facts import MintFacts
from mintscope.payments.history import Assets, Coin
from mintscope.site.admin.operations import OperationParts
from mintscope.site.render import Operator
from mintscope.solana.blocks import SourceError


async def write_counted(money: Money, clock: Clock) -> None:
    """Write the counts of this process, for a command that ends at once."""
    await HourWriter(money.accounts, clock, lambda: None, None).round()


def assets_of(terms: PaymentsConfig) -> Assets:
    """Return the accepted tokens, as configured."""
    own = Coin(terms.asset_symbol, terms.decimals)
    usdc = Coin("USDC", USDC_DECIMALS)
    return Assets(own, {Mint(terms.usdc_mint): usdc, Mint(terms.asset): own})


async def facts_on_chain(chain: ChainConfig, mint: Mint) -> MintFacts | None:
    """Return the facts of *mint*; None if it is not a mint.  Raises ServiceUnavailable."""
    try:
        found = (await ask_facts(chain, [mint]))[mint]
    except SourceError as cause:
        raise ServiceUnavailable("The chain could not be asked.") from cause
    return found if isinstance(found, MintFacts) else None


@asynccontextmanager
async def operating(
    config: Config, market: Market, money: Money, clock: Clock, age_ms: Callable[[], int | None]
) -> AsyncIterator[OperationParts]:
    """Write the numbers of each hour during the block; *age_ms* is the newest block's age."""
    sales = money.sales_books if config.payments.enabled else None
    writer = HourWriter(money.accounts, clock, age_ms, None if sales is None else sales.fund)
    async with running(writer.run, "hours"):
        yield OperationParts(
            tracking=market.tracking,
            market=market.reader,
            coverage=market.coverage,
            sales=sales,
            history=None if config.chain.source == "files" else market.history_asks,
            payments=money.payment_history if config.payments.enabled else None,
            assets=assets_of(config.payments),
            facts=None if config.chain.source == "files" else partial(facts_on_chain, config.chain),
            operator=Operator(**config.operator.model_dump()),
        )
