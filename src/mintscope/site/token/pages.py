"""The page of a token, with free and paid views.

A view covers one token for 15 minutes, in every timeframe.  A paid view is stored with the rate
limits, so that it is valid in every process.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, replace
from enum import Enum, auto
from typing import Any, Final

import msgspec

from mintscope.accounts.signups.reviews import Reviews
from mintscope.accounts.wallets.credits import AccountCredits
from mintscope.kit import errors
from mintscope.kit.audit import UserId
from mintscope.kit.http.rate_limit import FreeViews
from mintscope.kit.limits import Denied, Limit, LimitKey, take_all
from mintscope.kit.primitives import Mint, UnixS, parse_mint
from mintscope.kit.time import DAY_S, MINUTE_S, SECOND_MS
from mintscope.market.mint_facts import MintFacts
from mintscope.market.screening.listed import ListLine
from mintscope.market.screening.look_alikes import cleaned
from mintscope.market.series.series import WIDTHS, Width
from mintscope.site.admin.operations import OperationParts
from mintscope.site.chart import on_one_axis
from mintscope.site.definitions import DEFINITIONS
from mintscope.site.live import OpenPages
from mintscope.site.page import NoContent, Page, PageResponse, Picture, PlainText, Redirect
from mintscope.site.programs import examples_of
from mintscope.site.render import static_files
from mintscope.site.routes import Access, PageRequest, PageRoute, get, post, sentence
from mintscope.site.sol import MarketParts
from mintscope.site.token.backtests import Purchases
from mintscope.site.token.facts import (
    MintFact,
    facts_in_words,
    multiplier_shown,
    names_in_words,
    supply_of,
    tracked_look_alike,
)
from mintscope.site.token.liquidity import read_pools
from mintscope.site.token.listing import Watching
from mintscope.site.token.live import LivePages
from mintscope.site.token.picture import PIXELS, PictureFacts, draw_picture
from mintscope.site.token.pictures import PictureKey, Pictures, has_rasteriser
from mintscope.site.token.reading import CHARTED, AgedReport, TokenReading, kind_of
from mintscope.site.token.shown import NAMES, figures_of, shown_report
from mintscope.solana.blocks import WSOL

VIEW_S: Final = 15 * MINUTE_S
BOUGHT: Final = Limit(name="views that were bought", count=1, window_s=VIEW_S)
TAKEN: Final = Limit(name="free views that last", count=1, window_s=VIEW_S)


class Admission(Enum):
    """The reason why a visitor sees the numbers of a token; NONE: they are hidden."""

    FREE = auto()  # free for all visitors
    ALLOWED = auto()  # admitted by a free view
    BOUGHT = auto()  # bought with a credit
    NONE = auto()


class Views:
    """Decides whether a visitor may see the numbers of a token, by free and bought views."""

    def __init__(self, market: MarketParts, accounts: AccountCredits) -> None:
        self._market = market
        self.purchases = Purchases(market, accounts, BOUGHT)
        make = market.limits.limiter
        self._taken = make(TAKEN)
        self._free = FreeViews.of(market.free_views_per_day, make)

    async def admit(self, request: PageRequest, mint: Mint) -> Admission:
        """Return the reason for which a client may see the numbers of *mint*, if any.

        A free view is used up if necessary.
        """
        admission = await self.standing(request, mint)
        if admission is not Admission.NONE or self._market.free_views_per_day == 0:
            return admission
        address = request.browser.address
        lasting = (self._taken, f"{address} {mint}")
        if await take_all([*self._free.windows(address), lasting]) is None:
            return Admission.ALLOWED
        # A request that arrived together with this one may have used up a free view of this token.
        return await self._free_view(request, mint)

    async def free_left(self, request: PageRequest) -> int:
        """Return the number of free views left today for the IP address of *request*."""
        windows = self._free.windows(request.browser.address)
        return min([await window.room(key) for window, key in windows])

    async def standing(self, request: PageRequest, mint: Mint) -> Admission:
        """Return the reason for which a client may see the numbers of *mint*, if any.

        No free view is used up.
        """
        if self._market.is_free(mint):
            return Admission.FREE
        session = request.session
        if session is not None and await self.purchases.has(f"{session.user.user_id} {mint}"):
            return Admission.BOUGHT
        return await self._free_view(request, mint)

    async def _free_view(self, request: PageRequest, mint: Mint) -> Admission:
        """Return ALLOWED if the client has an active free view of *mint*, else NONE."""
        left = await self._taken.room(f"{request.browser.address} {mint}")
        return Admission.NONE if left else Admission.ALLOWED

    async def buy(self, user_id: UserId, mint: Mint) -> bool:
        """Buy a view of *mint* for one credit, unless the user has an active view of it.

        Return False if the user has no credit.  If ServiceUnavailable is raised, nothing is spent.
        """
        return await self.purchases.buy(user_id, f"{user_id} {mint}")


LOOKUP_TIMEOUT_S: Final = 3.0
# Limits of look-ups per client address, and of all together: each look-up is a request to the node.
LOOKUPS: Final = Limit(name="look-ups of untracked mints", count=10, window_s=MINUTE_S)
ALL_LOOKUPS: Final = Limit(name="look-ups of untracked mints, all", count=60, window_s=MINUTE_S)
REQUESTS: Final = Limit(name="requests to track a token", count=10, window_s=DAY_S)
TRACKED: Final = "tracks of a token"
TEMPLATE: Final = "token/unknown.html"
NOTHING: Final = dict.fromkeys(("mint", "facts", "symbol", "name", "may_ask"))


class UntrackedTokens:
    """Shows untracked mints; tracks a mint for a user, or asks administrators to track it.

    operations    None if this process cannot change which tokens are tracked: then the page does
                  not offer to track one
    """

    def __init__(
        self, market: MarketParts, operations: OperationParts | None, review: Reviews
    ) -> None:
        self._operations = operations
        self._review = review
        self._lists = market.lists
        make = market.limits.limiter
        self._lookups = make(LOOKUPS)
        self._all_lookups = make(ALL_LOOKUPS)
        self._requests = make(REQUESTS)
        self._per_day = market.tracks_per_day
        day = Limit(name=TRACKED, count=market.tracks_per_day, window_s=DAY_S)
        self._tracks = make(day) if market.tracks_per_day else None

    async def page(self, request: PageRequest, asked: str) -> Page:
        """Return a page, with status 404, that says why there are no numbers for *asked*.

        *asked* is no mint, or its mint is not tracked, or it has no data yet.
        """
        try:
            mint = parse_mint(asked)
        except errors.InvalidTokenAddress:
            return Page(TEMPLATE, {**NOTHING, "asked": asked, "state": "no-mint"}, status=404)
        shown: dict[str, Any] = {**NOTHING, "asked": asked, "mint": mint}
        if await self._is_tracked(mint):
            return Page(TEMPLATE, {**shown, "state": "begun"}, status=404)
        state, facts = await self._look_up(request, mint)
        if facts is not None:
            now = UnixS(request.now // SECOND_MS)
            shown |= {
                "facts": [
                    *self._look_alikes(mint, facts),
                    *names_in_words(facts, None, 1),
                    *facts_in_words(facts, now),
                ],
                "facts_read_at": facts.read_at_ms,
                "symbol": cleaned(facts.symbol),
                "name": cleaned(facts.name),
            }
        may_ask = self._operations is not None and state != "no-mint"
        shown |= {"state": state, "may_ask": may_ask, "tracks_per_day": self._per_day}
        return Page(TEMPLATE, shown, status=404)

    def _look_alikes(self, mint: Mint, facts: MintFacts) -> Iterable[MintFact]:
        """Yield a fact about the most traded token of the list that looks the same as *mint*."""
        try:
            found = self._lists.newest().traded_like(facts.name, facts.symbol)
        except errors.ServiceUnavailable:
            return  # still loading
        if found is not None and found != mint:
            yield tracked_look_alike(found)

    async def track(self, request: PageRequest, mint: Mint) -> PageResponse:
        """Track *mint*, or store a request to administrators to track it.

        A request is stored if *mint* is not on the chain, or if the user may track no other mint
        today; no request is stored if the user has sent too many.  Do nothing if *mint* is tracked
        already or is not the address of a mint, if this process cannot track tokens, or if the
        user's e-mail address is not verified.
        """
        operations = self._operations
        user = request.signed_in.user
        path = f"/token/{mint}"
        if operations is None or await self._is_tracked(mint):
            return Redirect(path)
        if user.verified_at is None:
            return Redirect(path, notice="track-verify")
        state, _ = await self._look_up(request, mint)
        if state == "no-mint":
            return Redirect(path)
        if state == "found" and await self._track(operations, mint, user.user_id):
            await self._review.ask_for_token(mint, user.user_id, is_tracked=True)
            return Redirect(path, notice="token-added")
        if isinstance(await self._requests.take(user.user_id), Denied):
            return Redirect(path, notice="track-later")
        await self._review.ask_for_token(mint, user.user_id, is_tracked=False)
        return Redirect(path, notice="track-requested")

    async def _track(self, operations: OperationParts, mint: Mint, user: LimitKey) -> bool:
        """Track *mint* if the user may track another mint today, else return False.

        If the mint was tracked already or the store fails, the user may still track another mint.
        """
        if self._tracks is None or isinstance(await self._tracks.take(user), Denied):
            return False
        is_new = False
        try:
            is_new = await operations.tracking.add(mint)
        finally:
            if not is_new:
                await self._tracks.give_back(user)
        return True

    async def _is_tracked(self, mint: Mint) -> bool:
        if self._operations is None:
            return False
        try:
            return await self._operations.tracking.one(mint) is not None
        except errors.ServiceUnavailable:
            return False

    async def _look_up(self, request: PageRequest, mint: Mint) -> tuple[str, MintFacts | None]:
        """Query the chain for *mint*; return a state and the facts of the mint.

        The state is "found", "no-mint", or, if the chain could not be queried, "unread".
        """
        if self._operations is None or self._operations.facts is None:
            return "unread", None
        if isinstance(await self._lookups.take(request.browser.address), Denied):
            return "unread", None
        if isinstance(await self._all_lookups.take("all"), Denied):
            return "unread", None
        try:
            async with asyncio.timeout(LOOKUP_TIMEOUT_S):
                facts = await self._operations.facts(mint)
        except (errors.ServiceUnavailable, TimeoutError):
            return "unread", None
        return ("no-mint", None) if facts is None else ("found", facts)


PATH: Final = "/token/{mint}"
USUAL: Final = WIDTHS["m5"]
OLDER: Final = 300  # candles per request when the reader scrolls back
TIME_DIGITS_MAX: Final = 10
# Anchors of the definitions that the page shows.
SHOWN: Final = frozenset({"price", "candles", "ema", "rsi", "macd", "fibonacci", "pressure"})
CHARTS: Final = "lightweight-charts.js"  # built by `make`; without it, the page keeps its SVG chart


@dataclass(frozen=True, slots=True)
class _Known:
    """The values of a token that are shown even if its report is unavailable.

    watched   tokens on the signed-in user's watchlist; None for a visitor
    picture   URL of the token's picture; None if no picture can be drawn
    """

    mint: Mint
    width: Width
    facts: MintFacts | None
    line: ListLine | None
    watched: Sequence[Mint] | None
    now: UnixS
    picture: str | None = None

    @property
    def name(self) -> str | None:
        name = None if self.facts is None else cleaned(self.facts.name)
        if self.line is not None:
            name = name or self.line.listed.name
        return name or ("Wrapped SOL" if self.mint == WSOL else None)  # some chains lack the name

    @property
    def symbol(self) -> str | None:
        symbol = None if self.facts is None else cleaned(self.facts.symbol)
        if self.line is not None:
            symbol = symbol or self.line.listed.symbol
        return symbol or ("SOL" if self.mint == WSOL else None)

    @property
    def shown(self) -> dict[str, Any]:
        return {
            "mint": self.mint,
            "timeframe": self.width.name,
            "name": self.name,
            "symbol": self.symbol,
            "picture": self.picture,
            "picture_size": PIXELS,
            "line": self.line,
            "figures": None if self.line is None else figures_of(self.line),
            "watched": self.watched,
            "facts": None if self.facts is None else self._reported(self.facts),
            "facts_read_at": None if self.facts is None else self.facts.read_at_ms,
            "ui_multiplier": self._ui_multiplier(),
            "supply": None if self.facts is None else supply_of(self.facts),
            "meanings": [each for each in DEFINITIONS if each.anchor in SHOWN],
        }

    def _reported(self, facts: MintFacts) -> Sequence[MintFact]:
        larger = None if self.line is None else self.line.look_alike_of
        namesakes = 1 if self.line is None else self.line.namesakes
        return [*names_in_words(facts, larger, namesakes), *facts_in_words(facts, self.now)]

    def _ui_multiplier(self) -> str | None:
        """Return the factor by which wallets multiply balances of the token, as text.

        Return None if the mint does not have the extension Scaled UI Amount.
        """
        scaled = None if self.facts is None else self.facts.scaled_ui_amount
        return None if scaled is None else multiplier_shown(scaled.at(self.now))


@dataclass(eq=False, repr=False)
class TokenPages:
    """The pages under `/token/{mint}`."""

    market: MarketParts
    views: Views
    watching: Watching
    pages: InitVar[OpenPages]
    untracked: UntrackedTokens
    _: KW_ONLY
    origin: str

    def __post_init__(self, pages: OpenPages) -> None:
        self._reading = TokenReading(self.market)
        self._live = LivePages(self.market, self._reading, pages)
        self._pictures = Pictures(self.market.limits) if has_rasteriser() else None

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the pages and files under `/token/{mint}`."""
        yield get(PATH, self.show)
        yield post(f"{PATH}/view", self.buy, Access.SIGNED_IN)
        yield post(f"{PATH}/track", self.track, Access.SIGNED_IN)
        yield get(f"{PATH}/live", self.live)
        yield get(f"{PATH}/older", self.older)
        yield get(f"{PATH}/chart.png", self.picture)

    async def show(self, request: PageRequest) -> PageResponse:
        """Show everything about a token that the visitor may see."""
        try:
            return await self._page(request, parse_mint(request.path_params["mint"]))
        except (errors.InvalidTokenAddress, errors.TokenNotFound):
            return await self.untracked.page(request, request.path_params["mint"])

    async def _page(self, request: PageRequest, mint: Mint) -> Page:
        """Return the page of *mint*.  Raises TokenNotFound if it is not tracked, or no longer."""
        width = _width(request)
        facts = await self.market.lists.facts_of(mint)
        watched = await self.watching.mints(request.session)
        now = UnixS(request.now // SECOND_MS)
        picture = None
        if self._pictures is not None:
            picture = f"{self.origin}/token/{mint}/chart.png?tf={width.name}"
        known = _Known(mint, width, facts, await self._listed(mint), watched, now, picture)
        try:
            # Before `admit`, so that a page without numbers uses up no free view.
            aged = await self._reading.report(mint, kind_of(width))
        except (errors.InsufficientData, errors.DataStale) as reason:
            return self._without_numbers(known, reason)
        admission = await self.views.admit(request, mint)
        if admission is Admission.NONE:
            return Page("token/token.html", {**known.shown, **await self._offer(request)})
        shown = await self._with_numbers(known, aged, admission)
        if admission is not Admission.ALLOWED:
            return shown
        left = await self.views.free_left(request)
        per_day = self.market.free_views_per_day
        return replace(shown, facts={**shown.facts, "free_left": left, "free_per_day": per_day})

    async def buy(self, request: PageRequest) -> PageResponse:
        """Buy a view of a token for a credit, unless its report is unavailable."""
        mint = request.mint
        width = _width(request)
        try:
            await self._reading.report(mint)
        except errors.ServiceError:
            return Redirect(_address(mint, width))  # the page shows the reason; nothing was spent
        if await self.views.standing(request, mint) is Admission.BOUGHT:
            return Redirect(_address(mint, width))
        is_bought = await self.views.buy(request.user_id, mint)
        return Redirect(_address(mint, width), "view-bought" if is_bought else "no-credits")

    async def track(self, request: PageRequest) -> PageResponse:
        """Track an untracked token, or store a request to administrators."""
        return await self.untracked.track(request, request.mint)

    async def live(self, request: PageRequest) -> PageResponse:
        """Send changes to an open page, as server-sent events."""
        mint = request.mint

        async def may_see() -> bool:
            return await self.views.standing(request, mint) is not Admission.NONE

        try:
            return await self._live.open(request, mint, _width(request), may_see)
        except (errors.TokenNotFound, errors.InsufficientData):
            raise errors.NotFound from None

    async def older(self, request: PageRequest) -> PageResponse:
        """Return the candles before the time `before`, as JSON with `points` and `has_older`.

        Return no content if the visitor may not see them.  Raises NotFound.
        """
        mint = request.mint
        before = request.query_params.text("before")
        if not before.isascii() or not before.isdigit() or len(before) > TIME_DIGITS_MAX:
            raise errors.NotFound
        if await self.views.standing(request, mint) is Admission.NONE:
            return NoContent()
        try:
            drawn = await self._reading.points(mint, _width(request), UnixS(int(before)), OLDER)
        except errors.TokenNotFound:
            raise errors.NotFound from None
        return PlainText(msgspec.json.encode(drawn._asdict()).decode())

    async def picture(self, request: PageRequest) -> PageResponse:
        """Return the preview picture of a token for links; it is public."""
        mint = request.mint
        width = _width(request)
        if self._pictures is None:
            raise errors.NotFound

        async def svg() -> str:
            return await self.draw(mint, width)

        key = PictureKey(mint, width.name)
        try:
            aged = await self._reading.report(mint)
            # By the data, not by the clock: without new blocks, the cached picture is sent.
            minute = aged.report.data_span.to // MINUTE_S
            png = await self._pictures.get(key, minute, request.browser.address, svg)
        except (errors.TokenNotFound, errors.InsufficientData):
            raise errors.NotFound from None
        except errors.DataStale as stale:
            raise errors.ServiceUnavailable(str(stale)) from stale
        return Picture(png, fresh_s=MINUTE_S)

    async def draw(self, mint: Mint, width: Width) -> str:
        """Return the picture of *mint* as SVG, with the same numbers as its page."""
        aged = await self._reading.report(mint)
        facts = await self.market.lists.facts_of(mint)
        line = await self._listed(mint)
        now = UnixS(aged.report.data_span.to)
        known = _Known(mint, width, facts, line, None, now)
        drawn = await self._reading.points(mint, width)
        return draw_picture(
            PictureFacts(
                mint=mint,
                symbol=known.symbol,
                name=known.name,
                usd=aged.report.price.usd,
                change=None if line is None else line.changes[2],
                slot=aged.slot,
                as_of=now,
                timeframe=NAMES[width.name],
                host=self.origin.partition("://")[2],
                is_young=line is not None and line.change_since is not None,
            ),
            on_one_axis(drawn.points, width.seconds),
            width.seconds,
        )

    async def _listed(self, mint: Mint) -> ListLine | None:
        try:
            return await self._reading.listed(mint)
        except errors.ServiceUnavailable:
            return None  # still loading: the page shows the other values

    def _without_numbers(self, known: _Known, reason: errors.ServiceError) -> Page:
        state = "stale" if isinstance(reason, errors.DataStale) else "young"
        return Page("token/token.html", {**known.shown, "state": state, "reason": sentence(reason)})

    async def _offer(self, request: PageRequest) -> Mapping[str, Any]:
        """Return the template values for a visitor without views left."""
        credits_left = None
        if request.session is not None:
            credits_left = await self.views.purchases.credits_of(request.session.user.user_id)
        return {
            "state": "closed",
            "credits_left": credits_left,
            "free_per_day": self.market.free_views_per_day,
        }

    async def _with_numbers(self, known: _Known, aged: AgedReport, admission: Admission) -> Page:
        mint = known.mint
        drawn = await self._reading.points(mint, known.width)
        swaps = await self._reading.swaps(mint)
        pools = await read_pools(self.market.series, mint)
        return Page(
            "token/token.html",
            {
                **known.shown,
                **shown_report(aged, drawn, swaps, known.width),
                "pools": pools,
                "holders": self.market.last_holders(mint),
                "state": "open",
                "admission": admission.name.lower(),
                "is_degraded": self.market.is_degraded(aged.age_ms),
                "degraded_after_s": self.market.degraded_after_s,
                "live": f"/token/{mint}/live?tf={known.width.name}",
                "older": f"/token/{mint}/older?tf={known.width.name}",
                "has_charts": CHARTS in static_files(),
                "examples": examples_of("token", mint, self.origin, has_mcp=self.market.has_mcp),
            },
        )


def _width(request: PageRequest) -> Width:
    """Return the requested candle width, or the default if the text is not a width."""
    return CHARTED.get(request.query_params.text("tf") or request.form.text("tf"), USUAL)


def _address(mint: Mint, width: Width) -> str:
    return f"/token/{mint}?tf={width.name}"
