"""Changes of administrators to the service itself: tokens that are followed, and sales."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mintscope.base.errors import InvalidTokenAddress, NotFound, ServiceUnavailable
from mintscope.base.primitives import Mint, UnixMs, parse_mint
from mintscope.base.time import SECOND_MS
from mintscope.core.accounts.audit import Event
from mintscope.core.accounts.reviews import DECLINED, Reviews
from mintscope.core.market.coverage import CoverageReader
from mintscope.core.market.history.asking import HistoryAsks
from mintscope.core.market.listing.listed import ListedMint, ListQuestion, TokenLists
from mintscope.core.market.mint_facts import MintFacts
from mintscope.core.market.store import MarketReader, TrackedMint, Tracking
from mintscope.core.payments.books.closure import PAUSED
from mintscope.core.payments.books.history import NO_ASSETS, Assets, PaymentHistory
from mintscope.core.payments.books.store import SalesBooks
from mintscope.edges.web.form import sentence
from mintscope.edges.web.pages.page import NO_ERRORS, Page, PageResponse, Redirect
from mintscope.edges.web.pages.render import NO_OPERATOR, Operator
from mintscope.edges.web.routes import Access, PageRequest, PageRoute, get, post

TOKENS: Final = "/admin/tokens"
SALES: Final = "/admin/sales"
SHOWN_MAX: Final = 200
REASON_LENGTH_MAX: Final = 200
NO_REASON: Final = f"Say why, in 1 to {REASON_LENGTH_MAX} characters, for other administrators."


@dataclass(frozen=True, slots=True)
class OperationParts:
    """Operations of administrators.

    sales     None where nothing is sold
    history   pasts that are asked for; None where blocks come from files
    payments  what was paid, in *assets*; None where nothing is sold
    operator  who operates the service
    facts     returns the chain's facts about a mint, None if it is no mint; raises
              ServiceUnavailable. None if blocks come from files
    """

    tracking: Tracking
    market: MarketReader
    coverage: CoverageReader
    sales: SalesBooks | None
    history: HistoryAsks | None
    payments: PaymentHistory | None = None
    assets: Assets = NO_ASSETS
    operator: Operator = NO_OPERATOR
    facts: Callable[[Mint], Awaitable[MintFacts | None]] | None = None


class OperationPages:
    """Tokens and sales; each change is in the audit log."""

    def __init__(
        self, parts: OperationParts, review: Reviews, lists: TokenLists | None = None
    ) -> None:
        """Call tokens what *lists* calls them."""
        self._lists = lists
        self._tracking = parts.tracking
        self._sales = parts.sales
        self._review = review

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        removal = f"{TOKENS}/{{mint}}/remove"
        yield get(TOKENS, self.tokens, Access.SIGNED_IN)
        yield post(TOKENS, self.add, Access.FRESH)
        yield get(removal, self.ask_remove, Access.FRESH)
        yield post(removal, self.remove, Access.FRESH)
        yield post(f"{TOKENS}/{{mint}}/decline", self.decline, Access.FRESH)
        yield get(SALES, self.sales, Access.SIGNED_IN)
        yield post(f"{SALES}/pause", self.pause, Access.FRESH)
        yield post(f"{SALES}/resume", self.resume, Access.FRESH)

    async def tokens(self, request: PageRequest) -> PageResponse:
        """Show the tokens that are followed."""
        return await self._token_page(request)

    async def add(self, request: PageRequest) -> PageResponse:
        """Follow a token, from the next block on."""
        try:
            mint = parse_mint(request.form.line("mint"))
        except InvalidTokenAddress as flaw:
            return await self._token_page(request, {"mint": sentence(flaw)})
        if await self._tracking.add(mint):
            await self._review.record("followed token", f"mint:{mint}", actor=request.signed_in)
        return Redirect(TOKENS, notice="token-added")

    async def ask_remove(self, request: PageRequest) -> PageResponse:
        """Ask whether the token, and what is kept of it, shall really go."""
        return Page("admin/drop_token.html", {"mint": await self._tracked(request)})

    async def remove(self, request: PageRequest) -> PageResponse:
        """Follow a token no more."""
        mint = await self._tracked(request)
        await self._tracking.remove(mint)
        await self._review.record("dropped token", f"mint:{mint}", actor=request.signed_in)
        return Redirect(TOKENS, notice="token-removed")

    async def decline(self, request: PageRequest) -> PageResponse:
        """Decline the requests for a token, which are listed no more."""
        try:
            mint = parse_mint(request.path_params["mint"])
        except InvalidTokenAddress:
            raise NotFound from None
        await self._review.record(DECLINED, f"mint:{mint}", actor=request.signed_in)
        return Redirect(TOKENS, notice="token-declined")

    async def sales(self, request: PageRequest) -> PageResponse:
        """Show whether anything is sold, and why not."""
        return await self._sales_page(request)

    async def pause(self, request: PageRequest) -> PageResponse:
        """Stop sales; credits go on working."""
        why = request.form.line("why")
        if not (why.isprintable() and 1 <= len(why) <= REASON_LENGTH_MAX):
            return await self._sales_page(request, {"why": NO_REASON})
        books = self._books()
        if await books.why_stopped() is None:
            await books.stop_sales(now=request.now, why=f"{PAUSED}: {why}")
            await self._review.record("paused sales", "sales", actor=request.signed_in, why=why)
        return Redirect(SALES, notice="sales-paused")

    async def resume(self, request: PageRequest) -> PageResponse:
        """Sell again; an audit that finds the same stops it again."""
        books = self._books()
        was = await books.why_stopped()
        if was is not None:
            await books.resume_sales()
            await self._review.record("resumed sales", "sales", actor=request.signed_in, was=was)
        return Redirect(SALES, notice="sales-resumed")

    def _books(self) -> SalesBooks:
        if self._sales is None:
            raise NotFound
        return self._sales

    async def _tracked(self, request: PageRequest) -> Mint:
        try:
            mint = parse_mint(request.path_params["mint"])
        except InvalidTokenAddress:
            raise NotFound from None
        if await self._tracking.one(mint) is None:
            raise NotFound
        return mint

    async def _token_page(
        self, request: PageRequest, errors: Mapping[str, str] = NO_ERRORS
    ) -> Page:
        text = request.query_params.line("text")[:64]
        found = await self._tracking.found(text, SHOWN_MAX)
        names = await self._names([one.mint for one in found.mints])
        facts = {
            "tokens": [_line(one, names.get(one.mint)) for one in found.mints],
            "count": found.total,
            "shown_max": SHOWN_MAX,
            "requests": await self._requests(),
            "text": text,
        }
        return Page("admin/tokens.html", facts, errors, {"mint": request.form.line("mint")})

    async def _requests(self) -> Sequence[tuple[Mint, Event]]:
        """Return the newest requests of users for tokens that are not tracked, newest first."""
        asked = await self._review.asked_tokens()
        return [
            (mint, event) for mint, event in asked.items() if await self._tracking.one(mint) is None
        ]

    async def _names(self, mints: Sequence[Mint]) -> Mapping[Mint, ListedMint]:
        """Return what the list says of *mints*, as far as there is one and they are in it."""
        if self._lists is None or not mints:
            return {}
        try:
            listed = self._lists.newest()
        except ServiceUnavailable:
            return {}
        page = await asyncio.to_thread(listed.page, ListQuestion(among=mints, limit=len(mints)))
        return {line.listed.mint: line.listed for line in page.lines}

    async def _sales_page(
        self, request: PageRequest, errors: Mapping[str, str] = NO_ERRORS
    ) -> Page:
        facts: dict[str, object] = {"is_sold": self._sales is not None, "why": None}
        if self._sales is not None:
            facts["why"] = await self._sales.why_stopped()
        return Page("admin/sales.html", facts, errors, {"why": request.form.line("why")})


def _line(one: TrackedMint, called: ListedMint | None) -> dict[str, object]:
    def moment(at_s: int | None) -> UnixMs | None:
        return None if at_s is None else UnixMs(at_s * SECOND_MS)

    return {
        "mint": one.mint,
        "symbol": called and called.symbol,
        "name": called and called.name,
        "is_listed": one.is_listed,
        "since": moment(one.since_time),
        "last_swap": moment(one.last_swap),
    }
