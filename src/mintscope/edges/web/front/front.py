"""`/`: what the service is, shown by what it does; or where a signed-in person goes on."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from mintscope.base.errors import ServiceUnavailable
from mintscope.base.primitives import UnixMs
from mintscope.base.time import DAY_MS
from mintscope.core.accounts.application import ApplicationState
from mintscope.core.accounts.holdings.account_credits import AccountCredits
from mintscope.core.accounts.people.session import Session
from mintscope.core.accounts.reviews import Reviews
from mintscope.core.accounts.user import UserId
from mintscope.core.credits.ledger import CreditLedger
from mintscope.core.market.listing.listed import ListQuestion
from mintscope.core.payments.pricing.price_list import BUNDLES, REQUEST_USD
from mintscope.edges.web.figures.day_bars import DAYS, day_bars, day_text
from mintscope.edges.web.front.examples import examples_of
from mintscope.edges.web.front.live import LiveFront
from mintscope.edges.web.pages.page import NoContent, Page, PageResponse
from mintscope.edges.web.routes import START, PageRequest, PageRoute, get
from mintscope.edges.web.tokens.lines import LinePage, TokenLines
from mintscope.edges.web.tokens.question import WATCHED_SHOWN
from mintscope.edges.web.tokens.watching import Watching

LIVE: Final = "/live"
BUNDLES_SHOWN: Final = (10, 100, 500)
NOT_LIVE: Final[Mapping[str, Any]] = {"sol": None, "movers": None, "has_market": False}


@dataclass(frozen=True, slots=True)
class PersonCredits:
    """Credits of a person, and their history.

    ledger   None if that is not shown
    """

    account_credits: AccountCredits
    ledger: CreditLedger | None

    async def facts(self, user_id: UserId, now: UnixMs) -> dict[str, Any]:
        """Return what the page shows of the credits and keys of a user."""
        holdings = await self.account_credits.holdings(user_id)
        account = await self.account_credits.find(user_id)
        days: dict[int, int] = {}
        if self.ledger is not None and account is not None:
            statement = await self.ledger.statement(account)
            days = {each.day: each.credits for each in statement.days}
        today = now // DAY_MS
        used = {day: count for day, count in days.items() if day > today - DAYS}
        return {
            "holdings": holdings,
            "used": sum(used.values()),
            "bars": day_bars(used, today) if used else None,
            "first_day": day_text(today - DAYS + 1),
        }


class FrontPages:
    """The first page, and the part of it that is asked for again as blocks come.

    live, lines   None where no market is shown
    """

    def __init__(  # noqa: PLR0913 - one argument for each thing that is shown
        self,
        reviews: Reviews,
        own_credits: PersonCredits,
        watching: Watching,
        *,
        live: LiveFront | None,
        lines: TokenLines | None,
        has_mcp: bool,
        origin: str,
    ) -> None:
        self._reviews = reviews
        self._credits = own_credits
        self._watching = watching
        self._live = live
        self._lines = lines
        self._has_mcp = has_mcp
        self._origin = origin

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        yield get(START, self.show)
        if self._live is not None:
            yield get(LIVE, self.show_live)
            yield get(f"{LIVE}/events", self._live.open)

    async def show(self, request: PageRequest) -> PageResponse:
        """Show the service to strangers, and what is theirs to people."""
        if request.session is not None:
            return await self._start(request, request.session)
        facts = {
            **await self._live_facts(),
            "bundles": [
                (each, _money(each.usd)) for each in BUNDLES if each.credits in BUNDLES_SHOWN
            ],
            "request_usd": _money(REQUEST_USD),
            "examples": list(examples_of(self._origin, has_mcp=self._has_mcp)),
        }
        return Page("front/home.html", facts)

    async def show_live(self, request: PageRequest) -> PageResponse:
        """Show SOL and the movers alone; with `seen`, a slot, nothing if it is still the newest."""
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
            **await self._credits.facts(user.user_id, request.now),
            "waiting": await self._waiting() if user.is_administrator else 0,
            "watched": await self._watched(request),
            "origin": self._origin,
            **await self._live_facts(),
        }
        return Page("front/start.html", facts)

    async def _live_facts(self) -> dict[str, Any]:
        return dict(NOT_LIVE) if self._live is None else await self._live.facts()

    async def _watched(self, request: PageRequest) -> LinePage | None:
        """Return the lines of what is watched; None where no market is shown."""
        mints = await self._watching.mints(request.session)
        if self._lines is None:
            return None
        try:
            return await self._lines.page(ListQuestion(among=mints, limit=WATCHED_SHOWN))
        except ServiceUnavailable:
            return None

    async def _waiting(self) -> int:
        """Return how many applications wait for a decision."""
        return (await self._reviews.counts()).get(ApplicationState.AWAITING_APPROVAL, 0)


def _money(usd: Decimal) -> str:
    """Return *usd*, exact, with two digits behind the point or as many as it needs."""
    rounded = round(usd, 2)
    return f"${rounded}" if usd == rounded else f"${usd.normalize():f}"
