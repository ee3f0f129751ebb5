"""The page of a mint that is not tracked: the chain's facts about it, and "Track it"."""

import asyncio
from typing import Any, Final

from mintscope.base.errors import InvalidTokenAddress, ServiceUnavailable
from mintscope.base.limits import Denied, Limit, LimitKey
from mintscope.base.primitives import Mint, UnixS, parse_mint
from mintscope.base.time import DAY_S, MINUTE_S, SECOND_MS
from mintscope.core.accounts.reviews import Reviews
from mintscope.core.market.listing.names import cleaned
from mintscope.core.market.mint_facts import MintFacts
from mintscope.edges.web.market import MarketParts
from mintscope.edges.web.pages.page import Page, PageResponse, Redirect
from mintscope.edges.web.review.operations import OperationParts
from mintscope.edges.web.routes import PageRequest
from mintscope.edges.web.token.facts import facts_in_words, names_in_words

LOOKUP_TIMEOUT_S: Final = 3.0
# Each costs a request to the node: of a client address, and of all of them together.
LOOKUPS: Final = Limit(name="look-ups of untracked mints", count=10, window_s=MINUTE_S)
ALL_LOOKUPS: Final = Limit(name="look-ups of untracked mints, all", count=60, window_s=MINUTE_S)
REQUESTS: Final = Limit(name="requests to track a token", count=10, window_s=DAY_S)
TRACKED: Final = "tracks of a token"
TEMPLATE: Final = "token/unknown.html"
NOTHING: Final = dict.fromkeys(("mint", "facts", "symbol", "name", "may_ask"))


class UntrackedTokens:
    """Shows mints that are not tracked, and tracks them for users or asks administrators to.

    operations    None where tracking cannot be changed: then the page offers nothing
    """

    def __init__(
        self, market: MarketParts, operations: OperationParts | None, review: Reviews
    ) -> None:
        self._operations = operations
        self._review = review
        make = market.limits.limiter
        self._lookups = make(LOOKUPS)
        self._all_lookups = make(ALL_LOOKUPS)
        self._requests = make(REQUESTS)
        self._per_day = market.tracks_per_day
        day = Limit(name=TRACKED, count=market.tracks_per_day, window_s=DAY_S)
        self._tracks = make(day) if market.tracks_per_day else None

    async def page(self, request: PageRequest, asked: str) -> Page:
        """Return the page of *asked*, which is no tracked mint."""
        try:
            mint = parse_mint(asked)
        except InvalidTokenAddress:
            return Page(TEMPLATE, {**NOTHING, "asked": asked, "state": "no-mint"}, status=404)
        shown: dict[str, Any] = {**NOTHING, "asked": asked, "mint": mint}
        if await self._is_tracked(mint):
            return Page(TEMPLATE, {**shown, "state": "begun"}, status=404)
        state, facts = await self._look_up(request, mint)
        if facts is not None:
            now = UnixS(request.now // SECOND_MS)
            shown |= {
                "facts": [*names_in_words(facts, None), *facts_in_words(facts, now)],
                "facts_read_at": facts.read_at_ms,
                "symbol": cleaned(facts.symbol),
                "name": cleaned(facts.name),
            }
        may_ask = self._operations is not None and state != "no-mint"
        return Page(TEMPLATE, {**shown, "state": state, **self._offer(may_ask=may_ask)}, status=404)

    async def track(self, request: PageRequest, mint: Mint) -> PageResponse:
        """Track *mint* at once if the user has such a track left today, else file a request."""
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
        if state == "found" and await self._has_track(user.user_id):
            await operations.tracking.add(mint)
            await self._review.ask_for_token(mint, user.user_id, is_tracked=True)
            return Redirect(path, notice="token-added")
        if isinstance(await self._requests.take(user.user_id), Denied):
            return Redirect(path, notice="track-later")
        await self._review.ask_for_token(mint, user.user_id, is_tracked=False)
        return Redirect(path, notice="track-requested")

    async def _has_track(self, user: LimitKey) -> bool:
        return self._tracks is not None and not isinstance(await self._tracks.take(user), Denied)

    async def _is_tracked(self, mint: Mint) -> bool:
        if self._operations is None:
            return False
        try:
            return await self._operations.tracking.one(mint) is not None
        except ServiceUnavailable:
            return False

    def _offer(self, *, may_ask: bool) -> dict[str, Any]:
        return {"may_ask": may_ask, "tracks_per_day": self._per_day}

    async def _look_up(self, request: PageRequest, mint: Mint) -> tuple[str, MintFacts | None]:
        """Ask the chain: found, no-mint, or unread if it was not asked or does not answer."""
        if self._operations is None or self._operations.facts is None:
            return "unread", None
        if isinstance(await self._lookups.take(request.browser.address), Denied):
            return "unread", None
        if isinstance(await self._all_lookups.take("all"), Denied):
            return "unread", None
        try:
            async with asyncio.timeout(LOOKUP_TIMEOUT_S):
                facts = await self._operations.facts(mint)
        except (ServiceUnavailable, TimeoutError):
            return "unread", None
        return ("no-mint", None) if facts is None else ("found", facts)
