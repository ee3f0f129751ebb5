"""The whole API over a real store, with a clock that only tests move."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from hashlib import sha224
from pathlib import Path
from typing import Any

import httpx
from starlette.types import ASGIApp

from mintscope.accounts.store import AccountConnections
from mintscope.api.events import Streams
from mintscope.api.health import ReadCoverage, no_coverage
from mintscope.api.routes import ListParts
from mintscope.app.following import stream_bounds
from mintscope.app.web_api import create_api
from mintscope.credits.ledger import CreditLedger
from mintscope.kit.checks import Check
from mintscope.kit.clock import Clock, ManualClock
from mintscope.kit.credentials import CreditToken, make_credit_token
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.http.response import Bounds
from mintscope.kit.limits import MemoryLimits
from mintscope.kit.primitives import UnixMs
from mintscope.market.follow.list_cache import ListCache
from mintscope.market.follow.tailer import LogTailer, look_again_soon
from mintscope.market.report import Reports
from mintscope.market.series.holder_reads import HolderReader
from mintscope.market.series.pools import SeriesReader
from mintscope.payments.merchant import Merchant
from support.fakes.holders import FakeHolders
from support.fakes.list_reader import FakeListReader
from support.fakes.log import FakeLog
from support.fakes.reports import FakeReports
from support.fakes.series import MadeUpSeries
from support.processes.served import served
from support.scenes.accounts_service import Accounts, open_accounts_service
from support.scenes.engine import account_connections
from support.scenes.live_market import following, traded_log
from support.scenes.stores import PEPPER, config_in, money_in

NOW = UnixMs(1_750_000_000_000)
LASTING = Bounds(keep_alive_s_max=1e9, pause_s=0.0)  # clocks of tests move by minutes


def credit_token(number: int) -> CreditToken:
    return make_credit_token(sha224(b"%d" % number).digest())


def bearer(value: str) -> dict[str, str]:
    return {"authorization": f"Bearer {value}"}


def refusal(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


@dataclass
class Service:
    app: ASGIApp
    clock: ManualClock
    ledger: CreditLedger
    reports: FakeReports
    client: httpx.AsyncClient
    failing_check: list[str]
    accounts: Accounts
    market: FakeListReader
    lister: ListCache
    streams: Streams
    log: FakeLog
    follower: LogTailer
    limits: MemoryLimits
    issued_count: int = 0
    # Whether credit tokens are put into memory when issued, not at their first use
    remembers: bool = False

    async def issue(self, credit_count: int) -> CreditToken:
        self.issued_count += 1
        token = credit_token(self.issued_count)
        account = await self.ledger.issue(token, credit_count, "")
        if self.remembers:
            await self.ledger.find(token)
            await self.ledger.root(account)
        return token

    async def left(self, token: CreditToken) -> int:
        account = await self.ledger.find(token)
        assert account is not None
        return await self.ledger.balance(account)


@asynccontextmanager
async def running_service(  # noqa: PLR0913  one argument for each thing that can differ
    folder: Path,
    *,
    clock: ManualClock | None = None,
    pepper: bytes = PEPPER,
    merchant: Merchant | None = None,
    reports: Reports | None = None,
    series: SeriesReader | None = None,
    holders: HolderReader | None = None,
    more_checks: Sequence[Check] = (),
    open_file: Callable[[Path], AccountConnections] = account_connections,
    limit_clock: Clock | None = None,
    coverage: ReadCoverage = no_coverage,
    **parts: Any,
) -> AsyncIterator[Service]:
    """Open the API; *parts* are sections of its configuration.

    limit_clock    the clock of the limits; None: *clock*
    """
    clock, fake_reports = clock or ManualClock(NOW), FakeReports()
    market = FakeListReader()
    lister = ListCache(market, clock, wait=look_again_soon)
    failing: list[str] = []

    async def probe() -> None:
        if failing:
            raise ServiceUnavailable(failing[0])

    async with (
        open_accounts_service(
            folder,
            pepper=pepper,
            clock=clock,
            open_file=open_file,
            limit_clock=limit_clock,
            **parts,
        ) as accounts,
        money_in(folder, pepper=pepper, clock=clock) as money,
    ):
        ledger = money.ledger
        config = config_in(folder, pepper=pepper, **parts)
        log = traded_log(clock.now() // 1000)
        follower, broadcaster = await following(log, clock)
        limits = MemoryLimits(limit_clock or clock)
        streams = Streams(broadcaster, clock, stream_bounds(config))
        app = create_api(
            config,
            reports=reports or fake_reports,
            series=series or MadeUpSeries(log),
            holders=holders or FakeHolders(),
            ledger=ledger,
            checks=[
                Check("store", ledger.expect_writable),
                Check("chain", probe),
                *more_checks,
            ],
            merchant=merchant,
            accounts=accounts.built,
            lists=ListParts(lister),
            limits=limits,
            clock=clock,
            streams=streams,
            coverage=coverage,
        )
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url="http://test"
        ) as client:
            yield Service(
                app,
                clock,
                ledger,
                fake_reports,
                client,
                failing,
                accounts,
                market,
                lister,
                streams,
                log,
                follower,
                limits,
            )


@asynccontextmanager
async def service_by(way: str, folder: Path, **parts: Any) -> AsyncIterator[Service]:
    """Open the API with the sections *parts* of its configuration, reached by *way*.

    way   `application`: requests call the application.  `connection`: they go through a real
          server, and the fast path answers plain requests, because it knows the credit tokens of a
          test from the first request on
    """
    async with running_service(folder, **parts) as service:
        if way == "application":
            yield service
            return
        async with (
            served(service.app, LASTING, clock=service.clock) as server,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as client,
        ):
            yield replace(service, client=client, remembers=True)
