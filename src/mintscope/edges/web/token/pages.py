"""The page of one token, the form that buys a view of it, and its updates."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from mintscope.base.errors import (
    DataStale,
    InsufficientData,
    InvalidTokenAddress,
    NotFound,
    ServiceError,
    ServiceUnavailable,
    TokenNotFound,
)
from mintscope.base.primitives import Mint, UnixS, parse_mint
from mintscope.base.solana import WSOL
from mintscope.base.time import SECOND_MS
from mintscope.core.market.listing.listed import ListLine
from mintscope.core.market.listing.names import cleaned
from mintscope.core.market.mint_facts import MintFacts
from mintscope.core.market.timeframe import WIDTH_S, Timeframe
from mintscope.edges.web.docs.definitions import DEFINITIONS
from mintscope.edges.web.form import sentence
from mintscope.edges.web.live.open_pages import OpenPages
from mintscope.edges.web.market import MarketParts
from mintscope.edges.web.pages.files import static_files
from mintscope.edges.web.pages.page import Page, PageResponse, Redirect
from mintscope.edges.web.routes import Access, PageRequest, PageRoute, get, post
from mintscope.edges.web.token.examples import examples_of
from mintscope.edges.web.token.facts import (
    MintFact,
    facts_in_words,
    multiplier_shown,
    names_in_words,
    supply_of,
)
from mintscope.edges.web.token.live import LivePages
from mintscope.edges.web.token.reading import TokenReading, ToldReport
from mintscope.edges.web.token.shown import figures_of, shown_report
from mintscope.edges.web.token.untracked import UntrackedTokens
from mintscope.edges.web.token.views import Admission, Views
from mintscope.edges.web.tokens.watching import Watching

PATH: Final = "/token/{mint}"
USUAL: Final = Timeframe.M5
# The anchors of what stands on the page, of all that the documentation defines.
SHOWN: Final = frozenset({"price", "candles", "ema", "rsi", "macd", "fibonacci", "pressure"})
CHARTS: Final = "lightweight-charts.js"  # made by `make`; without it the drawn chart stays


@dataclass(frozen=True, slots=True)
class _Known:
    """The values of a token that are shown with or without its numbers.

    watched   what who is signed in watches; None for a stranger
    """

    mint: Mint
    timeframe: Timeframe
    facts: MintFacts | None
    line: ListLine | None
    watched: Sequence[Mint] | None
    now: UnixS

    @property
    def shown(self) -> dict[str, Any]:
        name = None if self.facts is None else cleaned(self.facts.name)
        symbol = None if self.facts is None else cleaned(self.facts.symbol)
        if self.line is not None:
            name = name or self.line.listed.name
            symbol = symbol or self.line.listed.symbol
        if self.mint == WSOL:  # not every chain keeps a name of it
            name = name or "Wrapped SOL"
            symbol = symbol or "SOL"
        return {
            "mint": self.mint,
            "timeframe": self.timeframe.value,
            "name": name,
            "symbol": symbol,
            "line": self.line,
            "figures": None if self.line is None else figures_of(self.line),
            "watched": self.watched,
            "facts": None if self.facts is None else self._told(self.facts),
            "facts_read_at": None if self.facts is None else self.facts.read_at_ms,
            "ui_multiplier": self._ui_multiplier(),
            "supply": None if self.facts is None else supply_of(self.facts),
            "meanings": [each for each in DEFINITIONS if each.anchor in SHOWN],
        }

    def _told(self, facts: MintFacts) -> Sequence[MintFact]:
        larger = None if self.line is None else self.line.look_alike_of
        return [*names_in_words(facts, larger), *facts_in_words(facts, self.now)]

    def _ui_multiplier(self) -> str | None:
        """Return how many tokens wallets show for one, in words; None: one."""
        scaled = None if self.facts is None else self.facts.scaled_ui_amount
        return None if scaled is None else multiplier_shown(scaled.at(self.now))


class TokenPages:
    """The pages at `/token/{mint}`."""

    def __init__(  # noqa: PLR0913 - one argument for each part
        self,
        market: MarketParts,
        views: Views,
        watching: Watching,
        pages: OpenPages,
        untracked: UntrackedTokens,
        *,
        origin: str,
    ) -> None:
        self._market = market
        self._views = views
        self._watching = watching
        self._untracked = untracked
        self._reading = TokenReading(market)
        self._live = LivePages(market, self._reading, pages)
        self._origin = origin

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        yield get(PATH, self.show)
        yield post(f"{PATH}/view", self.buy, Access.SIGNED_IN)
        yield post(f"{PATH}/track", self.track, Access.SIGNED_IN)
        yield get(f"{PATH}/live", self.live)

    async def show(self, request: PageRequest) -> PageResponse:
        """Show all that is known of a token, as far as the visitor may see it."""
        timeframe = _timeframe(request)
        try:
            mint = parse_mint(request.path_params["mint"])
            facts = await self._reading.facts(mint)
        except (InvalidTokenAddress, TokenNotFound):
            return await self._untracked.page(request, request.path_params["mint"])
        watched = await self._watching.mints(request.session)
        now = UnixS(request.now // SECOND_MS)
        known = _Known(mint, timeframe, facts, await self._listed(mint), watched, now)
        try:
            told = await self._reading.report(mint)
        except TokenNotFound:  # tracked since the newest block
            return await self._untracked.page(request, mint)
        except (InsufficientData, DataStale) as reason:
            return self._without_numbers(known, reason)
        admission = await self._views.admit(request, mint)
        if admission is Admission.NONE:
            return Page("token/token.html", {**known.shown, **await self._offer(request)})
        shown = await self._with_numbers(known, told, admission)
        if admission is not Admission.ALLOWED:
            return shown
        left = await self._views.free_left(request)
        per_day = self._market.free_views_per_day
        return replace(shown, facts={**shown.facts, "free_left": left, "free_per_day": per_day})

    async def buy(self, request: PageRequest) -> PageResponse:
        """Spend a credit on a view, if there is something to see."""
        mint = _mint(request)
        timeframe = _timeframe(request)
        try:
            await self._reading.report(mint)
        except ServiceError:
            return Redirect(_address(mint, timeframe))  # which says why; nothing was spent
        is_bought = await self._views.buy(request.signed_in.user.user_id, mint)
        return Redirect(_address(mint, timeframe), "view-bought" if is_bought else "no-credits")

    async def track(self, request: PageRequest) -> PageResponse:
        """Track a token that is not tracked yet, or ask administrators to."""
        return await self._untracked.track(request, _mint(request))

    async def live(self, request: PageRequest) -> PageResponse:
        """Send changes to an open page, as server-sent events."""
        mint = _mint(request)
        timeframe = _timeframe(request)

        async def may_see() -> bool:
            return await self._views.standing(request, mint) is not Admission.NONE

        return await self._live.open(request, mint, timeframe, may_see)

    async def _listed(self, mint: Mint) -> ListLine | None:
        try:
            return await self._reading.listed(mint)
        except ServiceUnavailable:
            return None  # it is being loaded: the page has what is not in the list

    def _without_numbers(self, known: _Known, reason: ServiceError) -> Page:
        state = "stale" if isinstance(reason, DataStale) else "young"
        return Page("token/token.html", {**known.shown, "state": state, "reason": sentence(reason)})

    async def _offer(self, request: PageRequest) -> Mapping[str, Any]:
        """Return what a visitor can do who has no view left."""
        credits_left = None
        if request.session is not None:
            credits_left = await self._views.credits_of(request.session.user.user_id)
        return {
            "state": "closed",
            "credits_left": credits_left,
            "free_per_day": self._market.free_views_per_day,
        }

    async def _with_numbers(self, known: _Known, told: ToldReport, admission: Admission) -> Page:
        mint = known.mint
        timeframe = known.timeframe
        points = await self._reading.points(mint, timeframe)
        swaps = await self._reading.swaps(mint)
        return Page(
            "token/token.html",
            {
                **known.shown,
                **shown_report(told, points, swaps, timeframe),
                "state": "open",
                "admission": admission.name.lower(),
                "is_degraded": self._market.is_degraded(told.age_ms),
                "degraded_after_s": self._market.degraded_after_s,
                "live": f"/token/{mint}/live?tf={timeframe.value}",
                "width_s": WIDTH_S[timeframe],
                "has_charts": CHARTS in static_files(),
                "examples": list(examples_of(mint, self._origin, has_mcp=self._market.has_mcp)),
            },
        )


def _mint(request: PageRequest) -> Mint:
    """Return the mint of the address.  Raises NotFound."""
    try:
        return parse_mint(request.path_params["mint"])
    except InvalidTokenAddress:
        raise NotFound from None


def _timeframe(request: PageRequest) -> Timeframe:
    """Return the timeframe that is asked for, the usual one for any other text."""
    asked = request.query_params.text("tf") or request.form.text("tf")
    return Timeframe(asked) if asked in set(Timeframe) else USUAL


def _address(mint: Mint, timeframe: Timeframe) -> str:
    return f"/token/{mint}?tf={timeframe.value}"
