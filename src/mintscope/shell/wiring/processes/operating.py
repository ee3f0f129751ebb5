"""The data and actions of administrators while the service runs."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from mintscope.base.clock import Clock
from mintscope.edges.maintenance.hours import HourWriter
from mintscope.edges.web.review.operations import OperationParts
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.maintenance import running
from mintscope.shell.wiring.stores import Market, Money


async def write_counted(money: Money, clock: Clock) -> None:
    """Write what this process counted since it began, as a command does that ends at once."""
    await HourWriter(money.accounts, clock, lambda: None, None).round()


@asynccontextmanager
async def operating(
    config: Config, market: Market, money: Money, clock: Clock, age_ms: Callable[[], int | None]
) -> AsyncIterator[OperationParts]:
    """Write the numbers of each hour during the block; *age_ms* is that of the newest block."""
    sales = money.sales_books if config.payments.enabled else None
    writer = HourWriter(money.accounts, clock, age_ms, None if sales is None else sales.fund)
    async with running(writer.run, "hours"):
        yield OperationParts(
            tracking=market.tracking,
            market=market.reader,
            coverage=market.coverage,
            sales=sales,
            history=None if config.chain.source == "files" else market.history_asks,
        )
