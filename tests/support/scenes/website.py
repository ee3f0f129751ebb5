"""The whole service as people see it: pages, API and e-mails, over a real store, with one clock."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import apsw
from starlette.types import ASGIApp, Receive, Scope, Send

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.keys.scope import Scope as KeyScope
from mintscope.accounts.passwords import Argon2Hasher
from mintscope.accounts.session import Browser
from mintscope.accounts.signups.application import Form, SignupId, UserType
from mintscope.api.events import Streams
from mintscope.api.routes import ListParts
from mintscope.app.accounts import Accounts, open_accounts
from mintscope.app.config.config import MailConfig
from mintscope.app.config.groups import Config
from mintscope.app.following import stream_bounds
from mintscope.app.running.operating import assets_of
from mintscope.app.site import Pages, credit_sales, described
from mintscope.app.stores.stores import Money, open_market, open_money
from mintscope.app.web_api import create_api, other_limit
from mintscope.app.web_site import groups_of
from mintscope.credits.ledger import CreditLedger
from mintscope.kit.audit import COMMAND_LINE
from mintscope.kit.clock import ManualClock
from mintscope.kit.http.application import HttpApplication
from mintscope.kit.http.rate_limit import AddressLimits
from mintscope.kit.http.request import ClientAddresses
from mintscope.kit.http.response import Bounds
from mintscope.kit.limits import Limits, MemoryLimits
from mintscope.kit.primitives import Mint, UnixMs
from mintscope.market.follow.list_cache import ListCache
from mintscope.market.follow.tailer import look_again_soon
from mintscope.market.mint_facts import MintFacts
from mintscope.payments.merchant import Merchant
from mintscope.site.admin.operations import OperationParts
from mintscope.site.render import NO_OPERATOR, Features, Operator
from mintscope.site.routes import PageRoute
from mintscope.site.sol import MarketParts
from mintscope.site.status import ReadStatus
from mintscope.solana.blocks import WSOL
from support.fakes.facts import FACTS
from support.fakes.holders import FakeHolders
from support.fakes.list_reader import FakeListReader
from support.fakes.reports import FakeReports
from support.fakes.series import MadeUpSeries
from support.processes.served import served
from support.scenes.live_market import following, traded_log
from support.scenes.shown_market import ShownMarket, shown_market
from support.scenes.standings import packed_pool
from support.scenes.stores import config_in
from support.scenes.token_market import TokenMarket, open_token_market

NOW: Final = UnixMs(1_795_000_000_000)
PASSWORD: Final = "correct horse battery"
HERE: Final = Browser("127.0.0.1", "Mozilla/5.0 (X11; Linux x86_64) Chromium")
ADMINISTRATOR: Final = EmailAddress("admin@example.org")
MINUTE_MS: Final = 60_000


# The file of the accessibility checks that tests load into pages, its path, and the origins that
# serve it.
AXE: Final = Path(__file__).parents[2] / "browser" / "node_modules" / "axe-core" / "axe.min.js"
AXE_PATH: Final = "/axe.min.js"
SERVING_AXE: Final = set[str]()


@dataclass
class Website:
    """A running service; *administration* is the application that administrators use."""

    origin: str
    app: ASGIApp
    administration: ASGIApp
    api: HttpApplication
    accounts: Accounts
    clock: ManualClock
    folder: Path
    ledger: CreditLedger
    market: ShownMarket | None = None
    token_market: TokenMarket | None = None

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of *query*, read from `money.sqlite` over a separate connection."""
        db = apsw.Connection(str(self.folder / "money.sqlite"), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return list(db.execute(query))
        finally:
            db.close()

    def routes(self) -> list[PageRoute]:
        parts = replace(self.accounts, describe=described(self.api, self.origin))
        groups = groups_of(parts, Features(), [self.origin])
        return [route for group in groups for route in group.routes()]

    async def make_administrator(self) -> EmailAddress:
        hasher = Argon2Hasher()
        await self.accounts.review.make_administrator(
            ADMINISTRATOR, password_hash=await hasher.hash(PASSWORD), actor=COMMAND_LINE
        )
        hasher.close()
        return ADMINISTRATOR

    async def apply(
        self, email: str, motivation: str = "To trade by myself.", *scopes: KeyScope
    ) -> SignupId:
        """Apply as an agent; the e-mail address is not confirmed yet."""
        return (await self.apply_for_key(email, motivation, *scopes))[0]

    async def apply_for_key(
        self, email: str, motivation: str = "To trade.", *scopes: KeyScope
    ) -> tuple[SignupId, str]:
        """Apply as an agent; return the number of the application and its secret."""
        form = Form(
            email=EmailAddress(email),
            telegram="@agent",
            twitter=None,
            user_type=UserType.TRADER,
            motivation=motivation,
            asked_scopes=frozenset(scopes),
        )
        signup = await self.accounts.signup.apply(form, redelivery_key=None)
        return signup.signup_id, signup.secret

    async def exchange(self, email: str, secret: str) -> str:
        applicant = await self.accounts.exchange.recognise(EmailAddress(email), secret)
        assert applicant is not None
        issued = await self.accounts.exchange.exchange(applicant, secret, redelivery_key=None)
        return issued.api_key

    async def email(self, email: str) -> str:
        assert self.accounts.mailbox is not None
        posted = await self.accounts.mailbox.recent(limit=100)
        return next(each.email.text for each in posted if each.email.recipient == email)

    async def link(self, email: str) -> str:
        """Return the path of the link in the newest e-mail to *email*."""
        words = (await self.email(email)).split()
        return next(word for word in words if word.startswith(self.origin)).removeprefix(
            self.origin
        )


@asynccontextmanager
async def website(  # noqa: PLR0913 - one argument for each thing that can differ
    folder: Path,
    *,
    origin: str = "http://shop.example",
    has_payments: bool = False,
    clock: ManualClock | None = None,
    limits: Limits | None = None,
    merchant_of: Callable[[Money], Merchant] | None = None,
    expect_open: Callable[[], Awaitable[None]] | None = None,
    has_market: bool = False,
    has_token_market: bool = False,
    status: ReadStatus | None = None,
    operator: Operator = NO_OPERATOR,
    facts: Callable[[Mint], Awaitable[MintFacts | None]] | None = None,
    **parts: Any,
) -> AsyncIterator[Website]:
    """Build the service at *origin*; *parts* are sections of its configuration.

    limits             the counters of requests; None: they are in memory
    merchant_of        a function that creates the seller over the money of this service; None: the
                       service sells nothing
    expect_open        a function that raises if sales are closed; None: they are always open
    has_market         whether pages show the tokens and the status of `shown_market`
    has_token_market   whether pages show the tokens of `token_market`
    status             the status that pages show without `shown_market`
    operator           the operator of the service
    facts              reads the facts of a mint from the chain; None: they are not read
    """
    # Passkeys need a host name, so the service also accepts the origin with the name "localhost".
    origins = list(dict.fromkeys([origin, origin.replace("127.0.0.1", "localhost")]))
    clock, addresses = clock or ManualClock(NOW), ClientAddresses(())
    limits = limits or MemoryLimits(clock)
    config = config_in(folder, mail=MailConfig(delivery="page"), **parts)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        money = await enter(open_money(config, clock))
        accounts = await enter(
            open_accounts(
                config,
                store=money.accounts,
                pepper=money.pepper,
                origin=origin,
                limits=limits,
                clock=clock,
            )
        )
        kept = await enter(open_market(config))
        given = (folder, config, money.ledger, limits, clock)
        market = await enter(shown_market(*given)) if has_market else None
        token_market = await enter(open_token_market(*given)) if has_token_market else None
        shown = market or token_market
        merchant = None if merchant_of is None else merchant_of(money)
        api = create_api(
            config,
            **(await _made_up(config, clock) if shown is None else _shown(shown.parts)),
            ledger=money.ledger,
            checks=[],
            merchant=merchant,
            accounts=accounts,
            limits=limits,
            clock=clock,
        )
        run = OperationParts(
            tracking=kept.tracking,
            market=kept.reader,
            coverage=kept.reader,
            sales=money.books,
            history=None if config.chain.source == "files" else kept.backfill_jobs,
            payments=money.read_books,
            assets=assets_of(config.payments),
            operator=operator,
            facts=facts,
        )
        services = replace(
            accounts,
            ledger=money.ledger,
            market=None if shown is None else shown.parts,
            sales=credit_sales(merchant, money.ledger, expect_open or is_open),
            status=status if market is None else market.status,
            operations=run,
        )
        by_address = AddressLimits(limits, addresses)
        other = other_limit(config.api)
        pages = Pages(config.web, services, by_address, other, clock, has_payments)
        yield Website(
            origin,
            pages.beside(api, origins),
            pages.administration(origins),
            api,
            services,
            clock,
            folder,
            money.ledger,
            market,
            token_market,
        )


async def _made_up(config: Config, clock: ManualClock) -> dict[str, Any]:
    """Return arguments for the API with made-up reports, series, holders, list and streams."""
    log = traded_log(clock.now() // 1000)
    _, broadcaster = await following(log, clock)
    return {
        "reports": FakeReports(),
        "series": MadeUpSeries(log),
        "holders": FakeHolders(),
        "lists": ListParts(await _lister(clock)),
        "streams": Streams(broadcaster, clock, stream_bounds(config)),
    }


def _shown(parts: MarketParts) -> dict[str, Any]:
    return {
        "reports": parts.reports,
        "series": parts.series,
        "lists": ListParts(parts.lists),
        "streams": parts.streams,
    }


async def is_open() -> None:
    """Do nothing: sales are always open."""


async def _lister(clock: ManualClock) -> ListCache:
    """Return a list cache with wrapped SOL, which has a pool and no trade."""
    reader = FakeListReader()
    now = clock.now() // 1000
    reader.standings[WSOL] = packed_pool(now, depth_usd=10_000, usd=150.0)
    await reader.append(1, now)
    await reader.track(Mint(WSOL))
    await reader.learn(Mint(WSOL), FACTS)
    lister = ListCache(reader, clock, wait=look_again_soon)
    await lister.refresh()
    return lister


@asynccontextmanager
async def served_website(
    folder: Path, *, alone: bool = False, **parts: Any
) -> AsyncIterator[Website]:
    """Serve the service on the loopback address; if *alone*, serve only the administration."""
    app: ASGIApp | None = None

    async def door(scope: Scope, receive: Receive, send: Send) -> None:
        assert app is not None
        if scope["path"] == AXE_PATH:
            await _send_axe(send)
        else:
            await app(scope, receive, send)

    async with (
        served(door, Bounds()) as place,
        website(folder, origin=f"http://127.0.0.1:{place.port}", **parts) as site,
    ):
        app = site.administration if alone else site.app
        SERVING_AXE.add(site.origin)
        yield site


async def _send_axe(send: Send) -> None:
    kept = [(b"content-type", b"text/javascript"), (b"cache-control", b"max-age=86400, immutable")]
    await send({"type": "http.response.start", "status": 200, "headers": kept})
    await send({"type": "http.response.body", "body": AXE.read_bytes()})
