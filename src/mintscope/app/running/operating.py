"""The data and actions of the administrators' pages, and the counts of each hour.

When a process ends, its counts of the last minute may be lost.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog
from prometheus_client import REGISTRY

from mintscope.accounts.rows import AccountRows, AccountStore
from mintscope.app.config.config import ChainConfig
from mintscope.app.config.groups import Config, PaymentsConfig
from mintscope.app.maintenance import running
from mintscope.app.payments import USDC_DECIMALS
from mintscope.app.sources import ask_facts
from mintscope.app.stores.stores import Market, Money
from mintscope.kit.audit import HOURS_KEPT, HourSeries, Series, hour_of, requests_of
from mintscope.kit.clock import Clock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.metrics import REQUESTS
from mintscope.kit.primitives import Mint
from mintscope.market.mint_facts import MintFacts
from mintscope.payments.payment import Assets, Coin
from mintscope.site.admin.operations import OperationParts
from mintscope.site.render import Operator
from mintscope.solana.blocks import SourceError

ROUND_S: Final = 60.0
COUNTERS: Final[dict[Series, tuple[str, dict[str, str]]]] = {
    HourSeries.PAID: ("mintscope_payments_issued_total", {}),
    HourSeries.CREDITS_SOLD: ("mintscope_credits_sold_total", {}),
    HourSeries.CREDITS_USED: ("mintscope_debits_total", {"outcome": "spent"}),
}

log = structlog.get_logger()


@dataclass(eq=False, repr=False)
class HourWriter:
    """Adds, once a minute, the new counts of this process (requests, sales) to those of the hour.

    age_ms   returns the age of the newest block in milliseconds; None if there is no block
    fund     returns the unreserved lamports of the fee payer, or None if unknown; None: they
             are not written
    """

    store: AccountStore
    clock: Clock
    age_ms: Callable[[], int | None]
    fund: Callable[[], Awaitable[int | None]] | None
    _written: Mapping[Series, int] = field(default_factory=dict, init=False)

    async def run(self) -> None:
        """Store the new counts of requests and sales once a minute until cancelled."""
        self._written = counted()
        while True:
            await asyncio.sleep(ROUND_S)
            await self.round()

    async def round(self) -> None:
        """Add the counts since the last round to those of the hour.

        Also store the age of the newest block, and the unreserved lamports of the fee payer.  If
        this fails, the next round adds the counts, unless it is unknown whether they were stored.
        """
        now = self.clock.now()
        total = counted()
        hour = hour_of(self.clock.now())
        new = {series: count - self._written.get(series, 0) for series, count in total.items()}
        values = {series: count for series, count in new.items() if count > 0}
        age_ms = self.age_ms()
        if age_ms is not None:
            values[HourSeries.LAG_MS] = age_ms

        has_run = False

        def write(rows: AccountRows) -> None:
            nonlocal has_run
            rows.hours.add(hour, values)
            rows.hours.purge(hour - HOURS_KEPT)
            has_run = True

        try:
            fund = None if self.fund is None else await self.fund()
            if fund is not None:
                values[HourSeries.FUND] = fund
            await self.store.transact(write)
        except ServiceUnavailable as trouble:
            log.warning("numbers of the hour could not be written", reason=str(trouble), at=now)
        # Once `write` has run, its commit may succeed even if `transact` raises: counts of a minute
        # may then be lost, but none is added twice.
        if has_run:
            self._written = total


def counted() -> dict[Series, int]:
    """Return the counts in this process since its start: of requests, payments and credits."""
    found = {requests_of(status): count for status, count in REQUESTS.by_status().items()}
    for series, (name, labels) in COUNTERS.items():
        found[series] = int(REGISTRY.get_sample_value(name, labels) or 0)
    return found


async def write_counted(money: Money, clock: Clock) -> None:
    """Store the counts of requests, payments and credits of this process, before it ends."""
    await HourWriter(money.accounts, clock, lambda: None, None).round()


def assets_of(terms: PaymentsConfig) -> Assets:
    """Return the symbol and the decimals of the payment token and of USDC."""
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
    """Yield the data and actions of the administrators' pages.

    Until the block ends, add the figures of this process to the stored figures of the hour once a
    minute.
    """
    sales = money.books if config.payments.enabled else None
    writer = HourWriter(money.accounts, clock, age_ms, None if sales is None else sales.fund)
    async with running(writer.run, "hours"):
        yield OperationParts(
            tracking=market.tracking,
            market=market.reader,
            coverage=market.reader,
            sales=sales,
            history=None if config.chain.source == "files" else market.backfill_jobs,
            payments=money.read_books if config.payments.enabled else None,
            assets=assets_of(config.payments),
            facts=None if config.chain.source == "files" else partial(facts_on_chain, config.chain),
            operator=Operator(**config.operator.model_dump()),
        )
