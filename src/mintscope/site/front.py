"""The front page: live market data for visitors, and a start page for signed-in users."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from mintscope.accounts.session import Session
from mintscope.accounts.signups.application import ApplicationState
from mintscope.accounts.signups.reviews import Reviews
from mintscope.accounts.wallets.credits import AccountCredits
from mintscope.credits.ledger import CreditLedger, DayUse
from mintscope.kit.audit import UserId
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.http.response import Outlet
from mintscope.kit.http.server_sent import encode_event
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS, SECOND_MS
from mintscope.market.screening.listed import ListQuestion
from mintscope.payments.pricing import BUNDLES, REQUEST_USD
from mintscope.site.figures import DAYS, day_bars, day_text
from mintscope.site.live import NEWS, Channel, News, OpenPages, PageStream
from mintscope.site.page import Macros, NoContent, Page, PageResponse
from mintscope.site.programs import examples_of
from mintscope.site.routes import START, PageRequest, PageRoute, get
from mintscope.site.sol import LiveSol, MarketParts, SolNow
from mintscope.site.token.listing import WATCHED_SHOWN, LinePage, TokenLines, Watching
from mintscope.solana.blocks import WSOL

PAUSE_S: Final = 0.5  # pause between two reads, in seconds
VIEW: Final = "front"  # the only view: all visitors see the same page


class _Drawn(NamedTuple):
    """The live parts of the front page, as HTML by name; *mark* contains the slots of the data."""

    mark: tuple[int, int | None]
    parts: Mapping[str, str]


class LiveFront:
    """Reads SOL and the tokens that moved most, and sends both to open front pages."""

    def __init__(self, market: MarketParts, lines: TokenLines, pages: OpenPages) -> None:
        self._market = market
        self._lines = lines
        self._pages = pages
        self._sol = LiveSol(market)
        self._channel: Channel[str] | None = None
        self._newest: _Drawn | None = None

    async def facts(self) -> dict[str, Any]:
        """Return the template values of the live part of the front page.

        Unknown values are None.
        """
        return {
            "sol": await self._sol.read(),
            "movers": await self._movers(),
            "has_market": True,
            "degraded_ms": int(self._market.degraded_after_s * SECOND_MS),
        }

    async def open(self, request: PageRequest) -> PageResponse:
        """Return the event stream of an open front page; no content if too many pages are open.

        Raises RateLimited and ServiceUnavailable.
        """
        return await self._pages.open(request, [], self._serve)

    async def _serve(self, outlet: Outlet, macros: Macros) -> None:
        if self._channel is None:
            # The channel draws with the macros, which are known once a page is open.
            look = partial(self._look, macros)
            self._channel = Channel(look, PAUSE_S, is_watched=True)
        stream = PageStream(outlet, [], on_behind=self._market.streams.note_behind)
        with self._channel.reading(stream, VIEW):
            await self._market.streams.serve(stream)

    async def _look(self, macros: Macros, _views: Collection[str]) -> Mapping[str, News]:
        """Return the parts of the front page that have changed since the previous call.

        The result is empty if no slot is new, or if the state of SOL is unknown.
        """
        sol, movers, before = await self._sol.read(), await self._movers(), self._newest
        if sol is None:
            return {}
        mark = (sol.slot, movers and movers.slot)
        if before is not None and before.mark == mark:
            return {}
        self._newest = now = _Drawn(mark, _parts(macros, sol, movers))
        whole = _event(sol, now.parts)
        if before is None:
            return {VIEW: News(mark, whole)}
        changed = {name: html for name, html in now.parts.items() if before.parts.get(name) != html}
        return {VIEW: News(mark, whole, before.mark, _event(sol, changed))}

    async def _movers(self) -> LinePage | None:
        try:
            return await self._lines.movers()
        except ServiceUnavailable:  # the list is still loading
            return None


def _parts(macros: Macros, sol: SolNow, movers: LinePage | None) -> Mapping[str, str]:
    """Return the live parts of the front page as HTML, by name."""
    drawn = macros("front/parts.html")
    parts = {name: getattr(drawn, name)(sol) for name in ("slot", "price", "answer")}
    parts["chart"] = sol.chart
    for place, line in enumerate(() if movers is None else movers.lines, 1):
        parts[f"mover-{place}"] = drawn.mover(line)
    return {name: str(html).strip() for name, html in parts.items()}


def _event(sol: SolNow, parts: Mapping[str, str]) -> bytes:
    reported = {"slot": sol.slot, "asOf": sol.report.data_span.to * SECOND_MS, "parts": parts}
    return encode_event(NEWS, msgspec.json.encode(reported))


LIVE: Final = "/live"
BUNDLES_SHOWN: Final = (10, 100, 500)
NOT_LIVE: Final[Mapping[str, Any]] = {"sol": None, "movers": None, "has_market": False}


@dataclass(eq=False, repr=False)
class FrontPages:
    """The start page, and the part of it that is reloaded when blocks arrive.

    live     serves that part; None if no market data is shown
    lines    reads the rows of watched tokens from the list; None if no market data is shown
    """

    reviews: Reviews
    credits: AccountCredits
    ledger: CreditLedger | None
    watching: Watching
    _: KW_ONLY
    live: LiveFront | None
    lines: TokenLines | None
    has_mcp: bool
    origin: str

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the front page and of its live version."""
        yield get(START, self.show)
        if self.live is not None:
            yield get(LIVE, self.show_live)
            yield get(f"{LIVE}/events", self.live.open)

    async def show(self, request: PageRequest) -> PageResponse:
        """Show visitors the public start page, and signed-in users their own start page."""
        if request.session is not None:
            return await self._start(request, request.session)
        facts = {
            **await self._live_facts(),
            "bundles": [
                (each, _money(each.usd)) for each in BUNDLES if each.credits in BUNDLES_SHOWN
            ],
            "request_usd": _money(REQUEST_USD),
            "examples": examples_of("front", WSOL, self.origin, has_mcp=self.has_mcp),
        }
        return Page("front/home.html", facts)

    async def show_live(self, request: PageRequest) -> PageResponse:
        """Show the live part of the front page: SOL, and the tokens that moved most.

        Return no content if `seen` in the query is the newest slot.
        """
        facts = await self._live_facts()
        sol = facts["sol"]
        if sol is not None and request.query_params.text("seen") == str(sol.slot):
            return NoContent()
        movers = facts["movers"]
        as_of = (sol and (sol.slot, sol.is_late), movers and movers.slot)
        return Page("front/live_alone.html", facts, kept_as=repr(as_of))

    async def _start(self, request: PageRequest, session: Session) -> Page:
        user = session.user
        facts = {
            **await self._credit_facts(user.user_id, request.now),
            "waiting": await self._waiting() if user.is_administrator else 0,
            "watched": await self._watched(request),
            "origin": self.origin,
            **await self._live_facts(),
        }
        return Page("front/start.html", facts)

    async def _credit_facts(self, user_id: UserId, now: UnixMs) -> dict[str, Any]:
        """Return the template values for the credits and keys of a user."""
        account = await self.credits.find(user_id)
        days: Sequence[DayUse] = ()
        if self.ledger is not None and account is not None:
            days = (await self.ledger.statement(account)).days
        today = now // DAY_MS
        used = {each.day: each.credits for each in days if each.day > today - DAYS}
        return {
            "summary": await self.credits.summary(user_id),
            "used": sum(used.values()),
            "bars": day_bars(used, today) if used else None,
            "first_day": day_text(today - DAYS + 1),
        }

    async def _live_facts(self) -> dict[str, Any]:
        return dict(NOT_LIVE) if self.live is None else await self.live.facts()

    async def _watched(self, request: PageRequest) -> LinePage | None:
        """Return list entries of watched tokens, up to WATCHED_SHOWN; None if unavailable."""
        mints = await self.watching.mints(request.session)
        if self.lines is None:
            return None
        try:
            return await self.lines.page(ListQuestion(among=mints, limit=WATCHED_SHOWN))
        except ServiceUnavailable:
            return None

    async def _waiting(self) -> int:
        """Return the number of applications that wait for a decision."""
        return (await self.reviews.counts()).get(ApplicationState.AWAITING_APPROVAL, 0)


def _money(usd: Decimal) -> str:
    """Return *usd* exactly, with two decimals or more."""
    rounded = round(usd, 2)
    return f"${rounded}" if usd == rounded else f"${usd.normalize():f}"
