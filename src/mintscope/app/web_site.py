"""Assembles all groups of web pages; CONTRIBUTING.md explains how to add a group."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from mintscope.accounts.changes import AccountDeletion, AddressChanges
from mintscope.accounts.factor_pages import FactorPages, SecondStepPages
from mintscope.accounts.factors import Factors
from mintscope.accounts.keys.keys import ApiKeys
from mintscope.accounts.keys.pages import KeyPages
from mintscope.accounts.pages import (
    AccountDeletionPages,
    AccountPages,
    AddressPages,
    EntryPages,
    LinkPages,
)
from mintscope.accounts.people import People
from mintscope.accounts.second_step import SecondStep
from mintscope.accounts.signups.pages import ReviewPages
from mintscope.accounts.signups.reviews import Reviews
from mintscope.accounts.signups.signups import Signups
from mintscope.accounts.wallets.credits import AccountCredits, Wallets
from mintscope.alerts.alerts import Alerts
from mintscope.alerts.pages import AlertPages, TelegramPages
from mintscope.credits.ledger import CreditLedger
from mintscope.kit.clock import Clock
from mintscope.kit.http.application import HttpApplication
from mintscope.kit.http.rate_limit import AddressLimits, WriteBudget
from mintscope.kit.http.routes import Router
from mintscope.kit.limits import Limit, Limiter
from mintscope.payments.payment import NO_ASSETS
from mintscope.site.admin.operations import BackfillPages, OperationPages, OperationParts
from mintscope.site.admin.overview import OverviewPages, UserPages
from mintscope.site.admin.payments import MoneyPages
from mintscope.site.docs import DocsPages
from mintscope.site.endpoints import PageEndpoints
from mintscope.site.front import FrontPages, LiveFront
from mintscope.site.live import OpenPages
from mintscope.site.page import Page
from mintscope.site.reference import Reference
from mintscope.site.render import Features, PageWriter, static_files
from mintscope.site.routes import (
    SEGMENT,
    Mailbox,
    MailboxPages,
    OwnOrigins,
    PageGroup,
    PageRoute,
    get,
    shows,
)
from mintscope.site.sales.buying import BuyPages
from mintscope.site.sales.customer import PaymentPages, UsagePages, WalletPages
from mintscope.site.sales.selling import CreditSales, PricingPages, StatementPages
from mintscope.site.sol import MarketParts
from mintscope.site.status import ReadStatus, StatusPages
from mintscope.site.token.backtests import BacktestPages
from mintscope.site.token.listing import SearchPages, TokenLines, TokenSearch, Watching
from mintscope.site.token.listing_live import TokensPages
from mintscope.site.token.pages import TokenPages, UntrackedTokens, Views
from mintscope.watchlists.pages import WatchlistPages
from mintscope.watchlists.watchlists import Watchlists

FORMS: Final = Limit(name="forms", count=60, window_s=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebParts:
    """The services behind the pages; if a service is None, its pages are omitted.

    mailbox      has e-mails that are shown instead of being sent; None: no page shows e-mails
    operations   the data and actions of the administrators' pages
    sales        sells credits; None: nothing is for sale
    describe     returns the OpenAPI document of the API beside the pages; None: there is no API
    ledger       has the history of credits
    """

    people: People
    signup: Signups
    keys: ApiKeys
    credits: AccountCredits
    review: Reviews
    factors: Factors
    second_step: SecondStep
    addresses: AddressChanges
    deletion: AccountDeletion
    watchlists: Watchlists
    signals: Alerts
    signal_tests: Limiter
    wallets: Wallets
    mailbox: Mailbox | None = None
    operations: OperationParts | None = None
    market: MarketParts | None = None
    sales: CreditSales | None = None
    describe: Callable[[], Mapping[str, Any]] | None = None
    ledger: CreditLedger | None = None
    status: ReadStatus | None = None


def groups_of(parts: WebParts, features: Features, origins: Sequence[str]) -> Iterator[PageGroup]:
    """Yield the groups of web pages to serve: those in *features* that have services in *parts*."""
    people = parts.people
    yield from _market_pages(parts, features, origins[0])
    second_step = SecondStepPages(parts.second_step, asks_passkeys=features.has_people)
    yield EntryPages(people, second_step, may_sign_up=features.has_people)
    yield second_step
    if features.has_people:
        yield OperatorPages()
        yield LinkPages(people, parts.signup)
        yield KeyPages(parts.keys, parts.credits, origin=origins[0])
        yield AccountPages(people)
        yield from _sale_pages(parts, origins[0])
        yield AddressPages(parts.addresses)
        yield FactorPages(parts.factors)
        yield AccountDeletionPages(parts.deletion, parts.credits)
        if parts.mailbox is not None:
            yield MailboxPages(parts.mailbox, origins)
    if features.has_administration:
        yield ReviewPages(parts.review)
        yield UserPages(parts.review)
        run = parts.operations
        yield MoneyPages(
            parts.review,
            None if run is None else run.payments,
            NO_ASSETS if run is None else run.assets,
            parts.credits,
            parts.wallets,
            parts.signals,
            parts.ledger,
            parts.keys,
        )
        if parts.operations is not None:
            yield OverviewPages(parts.operations, parts.review)
            lists = None if parts.market is None else parts.market.lists
            yield OperationPages(parts.operations, parts.review, lists)
            yield BackfillPages(parts.operations, parts.review)


def _market_pages(parts: WebParts, features: Features, origin: str) -> Iterator[PageGroup]:
    """Yield the home page; with `has_people`, also pages of tokens, status, watchlists, alerts."""
    market = parts.market if features.has_people else None
    watching = Watching(parts.watchlists)
    lines = live = None
    if market is not None:
        lines = TokenLines(market)
        pages = OpenPages(market)
        live = LiveFront(market, lines, pages)
        searching = SearchPages(market, TokenSearch(lines))
        yield TokensPages(market, lines, watching, pages, searching)
        yield searching
        views = Views(market, parts.credits)
        untracked = UntrackedTokens(market, parts.operations, parts.review)
        yield BacktestPages(market, parts.credits)
        yield TokenPages(market, views, watching, pages, untracked, origin=origin)
    yield FrontPages(
        parts.review,
        parts.credits,
        parts.ledger,
        watching,
        live=live,
        lines=lines,
        has_mcp=market is not None and market.has_mcp,
        origin=origin,
    )
    if parts.status is not None and features.has_people:
        yield StatusPages(parts.status)
    if features.has_people:
        search = TokenSearch(lines)
        yield WatchlistPages(parts.watchlists, lines, search)
        reports = None if market is None else market.reports
        yield AlertPages(parts.signals, parts.signal_tests, search, reports)
        if parts.signals.bounds.telegram_bot:
            yield TelegramPages(parts.signals.telegram)


def _sale_pages(parts: WebParts, origin: str) -> Iterator[PageGroup]:
    """Yield pages of prices, purchases, statements, usage, payments, wallets and documentation."""
    describe = parts.describe
    # The reference is made only once, at first use.
    read_reference = None if describe is None else cache(lambda: Reference(describe()))
    yield PricingPages(parts.sales, read_reference)
    if parts.ledger is not None:
        yield StatementPages(parts.credits, parts.ledger, origin=origin)
        yield UsagePages(parts.credits)
        operations = parts.operations
        if operations is not None and operations.payments is not None:
            yield PaymentPages(operations.payments, operations.assets)
            yield WalletPages(parts.wallets, operations.payments, operations.assets)
        if parts.sales is not None:
            yield BuyPages(parts.sales, parts.credits, parts.ledger, origin=origin)
    if read_reference is not None:
        yield DocsPages(read_reference, origin=origin)


class OperatorPages:
    """The page about the operator of the service."""

    def routes(self) -> Iterator[PageRoute]:
        """Yield the routes of this group."""
        yield get("/operator", shows(Page("operator.html")))


def create_web(  # noqa: PLR0913 - one argument for each thing that can be replaced
    *,
    parts: WebParts,
    origins: Sequence[str],
    clock: Clock,
    limits: AddressLimits,
    limit: Limit,
    writes: WriteBudget | None = None,
    features: Features | None = None,
) -> HttpApplication:
    """Return the application that serves the pages.

    origins   the addresses of the pages; the first one is for links; forms are accepted only from
              pages at these addresses
    limit     the number of requests that a client may make, including forms
    writes    the budget for changes of accounts; None: a new budget
    features  the pages to serve; by default all, but the mailbox only if *parts* has one
    """
    features = features or Features()
    has_mailbox = features.has_people and parts.mailbox is not None
    features = replace(features, has_mailbox=has_mailbox)
    files = static_files()
    own = OwnOrigins(origins)
    pages = [page for group in groups_of(parts, features, origins) for page in group.routes()]
    endpoints = PageEndpoints(
        pages=pages,
        people=parts.people,
        writer=PageWriter(
            static=files.address,
            features=features,
            pages=frozenset(page.path for page in pages if page.method == "GET"),
            clock=clock,
            is_secure=own.are_secure,
        ),
        origins=own,
        clock=clock,
        client=limits.addresses.key,
        form_limit=limits.of(FORMS),
        writes=writes or WriteBudget(limits.limits),
        needs_second_factor=features.needs_second_factor,
    )
    router = Router([*endpoints.routes, *files.routes()], SEGMENT)
    return HttpApplication(router, limit=limits.of(limit), write_error=endpoints.write_error)
