"""Administrator pages for tokens, sales and backfills."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from mintscope.accounts.signups.reviews import DECLINED, Reviews
from mintscope.history.backfill import ENDED_MAX, OPEN_MAX, BackfillJob, BackfillState
from mintscope.history.jobs_store import SqlBackfillJobs
from mintscope.kit.audit import Event
from mintscope.kit.errors import BadRequest, InvalidTokenAddress, NotFound, ServiceUnavailable
from mintscope.kit.http.request import parse_id
from mintscope.kit.primitives import Mint, UnixMs, UnixS, parse_mint
from mintscope.kit.time import DAY_S, MINUTE_S, SECOND_MS
from mintscope.market.coverage import CoverageReader
from mintscope.market.follow.list_cache import ListCache
from mintscope.market.mint_facts import MintFacts
from mintscope.market.ports import TrackedMint
from mintscope.market.screening.listed import ListedMint, ListQuestion
from mintscope.market.store.log_reader import SqlLogReader
from mintscope.market.store.log_writer import SqlTracking
from mintscope.payments.audit import PAUSED
from mintscope.payments.payment import NO_ASSETS, Assets
from mintscope.payments.store.books import SqlPaymentBooks
from mintscope.site.page import NO_ERRORS, NoContent, Page, PageResponse, Redirect
from mintscope.site.render import NO_OPERATOR, Operator
from mintscope.site.routes import Access, InvalidForm, PageRequest, PageRoute, get, post, sentence
from mintscope.solana.blocks import WSOL

TOKENS: Final = "/admin/tokens"
SALES: Final = "/admin/sales"
SHOWN_MAX: Final = 200
REASON_LENGTH_MAX: Final = 200
SOL_STAYS: Final = "SOL is always tracked: every price depends on it. It cannot be dropped."
NO_REASON: Final = (
    f"Enter a reason of 1 to {REASON_LENGTH_MAX} characters, for other administrators."
)


@dataclass(frozen=True, slots=True)
class OperationParts:
    """Dependencies of the administrator pages.

    sales      opens and closes sales; None if nothing is sold
    history    requests for backfills; None if blocks come from files
    payments   the payments that the pages show; None if nothing is sold
    assets     the tokens of *payments*
    facts      returns the on-chain facts of a mint, or None if the chain has no such mint; raises
               ServiceUnavailable.  The field itself is None if blocks come from files
    """

    tracking: SqlTracking
    market: SqlLogReader
    coverage: CoverageReader
    sales: SqlPaymentBooks | None
    history: SqlBackfillJobs | None
    payments: SqlPaymentBooks | None = None
    assets: Assets = NO_ASSETS
    operator: Operator = NO_OPERATOR
    facts: Callable[[Mint], Awaitable[MintFacts | None]] | None = None


class OperationPages:
    """Administrator pages for tokens and sales; every change is recorded in the audit log.

    The change is recorded before it is made, because the two are in different databases: if the
    second step fails, the log names a change that was not made, but no change is missing.
    """

    def __init__(self, parts: OperationParts, review: Reviews, lists: ListCache | None) -> None:
        self._lists = lists
        self._tracking = parts.tracking
        self._sales = parts.sales
        self._review = review

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the pages of tracked tokens and of sales."""
        removal = f"{TOKENS}/{{mint}}/remove"
        yield get(TOKENS, self.show_tokens, Access.SIGNED_IN)
        yield post(TOKENS, self.add, Access.FRESH, keeps=("mint",))
        yield get(removal, self.ask_remove, Access.FRESH)
        yield post(removal, self.remove, Access.FRESH)
        yield post(f"{TOKENS}/{{mint}}/decline", self.decline, Access.FRESH)
        yield get(SALES, self.show_sales, Access.SIGNED_IN)
        yield post(f"{SALES}/pause", self.pause, Access.FRESH, keeps=("why",), keeps_on=SALES)
        yield post(f"{SALES}/resume", self.resume, Access.FRESH)

    async def add(self, request: PageRequest) -> PageResponse:
        """Start to track a token with the next block."""
        try:
            mint = parse_mint(request.form.line("mint"))
        except InvalidTokenAddress as flaw:
            return await self.show_tokens(request, {"mint": sentence(flaw)})
        tracked = await self._tracking.one(mint)
        if tracked is None or not tracked.is_listed:
            await self._review.record("followed token", f"mint:{mint}", actor=request.signed_in)
            await self._tracking.add(mint)
        return Redirect(TOKENS, notice="token-added")

    async def ask_remove(self, request: PageRequest) -> PageResponse:
        """Ask for confirmation before a token and its stored data are removed."""
        mint = await self._tracked(request)
        if mint == WSOL:
            return await self.show_tokens(request, {"": SOL_STAYS})
        return Page("admin/drop_token.html", {"mint": mint})

    async def remove(self, request: PageRequest) -> PageResponse:
        """Stop tracking a token, and delete its stored data; SOL stays."""
        mint = await self._tracked(request)
        if mint == WSOL:
            return await self.show_tokens(request, {"": SOL_STAYS})
        await self._review.record("dropped token", f"mint:{mint}", actor=request.signed_in)
        await self._tracking.remove(mint)
        return Redirect(TOKENS, notice="token-removed")

    async def decline(self, request: PageRequest) -> PageResponse:
        """Decline users' requests to track a token, and remove them from the list."""
        await self._review.record(DECLINED, f"mint:{request.mint}", actor=request.signed_in)
        return Redirect(TOKENS, notice="token-declined")

    async def pause(self, request: PageRequest) -> PageResponse:
        """Stop sales, unless they are stopped already; credits bought earlier can still be used."""
        why = request.form.line("why")
        if not (why.isprintable() and 1 <= len(why) <= REASON_LENGTH_MAX):
            return await self.show_sales(request, {"why": NO_REASON})
        books = self._books()
        if await books.why_stopped() is None:
            await self._review.record("paused sales", "sales", actor=request.signed_in, why=why)
            await books.stop_sales(now=request.now, why=f"{PAUSED}: {why}")
        return Redirect(SALES, notice="sales-paused")

    async def resume(self, request: PageRequest) -> PageResponse:
        """Resume sales; an audit with the same finding stops them again."""
        books = self._books()
        was = await books.why_stopped()
        if was is not None:
            await self._review.record("resumed sales", "sales", actor=request.signed_in, was=was)
            await books.resume_sales()
        return Redirect(SALES, notice="sales-resumed")

    def _books(self) -> SqlPaymentBooks:
        if self._sales is None:
            raise NotFound
        return self._sales

    async def _tracked(self, request: PageRequest) -> Mint:
        if await self._tracking.one(request.mint) is None:
            raise NotFound
        return request.mint

    async def show_tokens(
        self, request: PageRequest, errors: Mapping[str, str] = NO_ERRORS
    ) -> PageResponse:
        """Show the tracked tokens, and *errors* of the form."""
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
        """Return the newest user requests for tokens that are not tracked yet, newest first."""
        asked = await self._review.asked_tokens()
        return [
            (mint, event) for mint, event in asked.items() if await self._tracking.one(mint) is None
        ]

    async def _names(self, mints: Sequence[Mint]) -> Mapping[Mint, ListedMint]:
        """Return the list entries of *mints*; mints without an entry are omitted."""
        if self._lists is None or not mints:
            return {}
        try:
            listed = self._lists.newest()
        except ServiceUnavailable:
            return {}
        page = await asyncio.to_thread(listed.page, ListQuestion(among=mints, limit=len(mints)))
        return {line.listed.mint: line.listed for line in page.lines}

    async def show_sales(
        self, request: PageRequest, errors: Mapping[str, str] = NO_ERRORS
    ) -> PageResponse:
        """Show whether sales are open, the reason if they are not, and *errors* of the form."""
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
        "stays": one.mint == WSOL,
        "since": moment(one.since_time),
        "last_swap": moment(one.last_swap),
    }


BACKFILLS: Final = f"{TOKENS}/history"
DAYS_MAX: Final = 180
DAYS: Final = re.compile("[1-9][0-9]{0,2}")
DAYS_USUAL: Final = "10"
BACKFILLS_SHOWN_MAX: Final = 20
WORD_LENGTH_MAX: Final = 16  # maximum length of a word; every address is longer
NO_NODE: Final = (
    "A backfill needs a node, but this installation reads blocks from files: chain.source is files."
)
NOT_FOLLOWED: Final = "This token is not tracked. Track it first."
OF_SOL: Final = "SOL is always tracked: every price depends on it. It needs no backfill."
IS_OPEN: Final = "A backfill of this token is already requested: see below."
TOO_MANY: Final = f"{OPEN_MAX} backfills are waiting. Wait until some are read, or cancel some."
NO_DAYS: Final = f"Expected a number of days, 1 to {DAYS_MAX}."
# The name and the badge class of each state.
STATES: Final = {
    BackfillState.ASKED: ("Being estimated", ""),
    BackfillState.ESTIMATED: ("Waits for your confirmation", "wait"),
    BackfillState.CONFIRMED: ("Waits for its turn", ""),
    BackfillState.READING: ("Being read", "wait"),
    BackfillState.CANCELLING: ("Being cancelled", ""),
    BackfillState.DONE: ("Done", "good"),
    BackfillState.FAILED: ("Failed", "bad"),
    BackfillState.CANCELLED: ("Cancelled", ""),
}
CHANGES: Final = {"confirm": "confirmed a backfill", "cancel": "cancelled a backfill"}
# States that change without user action.
MOVING: Final = {
    BackfillState.ASKED,
    BackfillState.CONFIRMED,
    BackfillState.READING,
    BackfillState.CANCELLING,
}
CAN_BE_CANCELLED: Final = {
    BackfillState.ASKED,
    BackfillState.ESTIMATED,
    BackfillState.CONFIRMED,
    BackfillState.READING,
}
CHANGEABLE: Final = {"confirm": {BackfillState.ESTIMATED}, "cancel": CAN_BE_CANCELLED}


class BackfillPages:
    """Administrator pages for backfills; every action is recorded in the audit log, and then done.

    The log is in another database, so it may name an action that then failed, but no action is
    missing.
    """

    def __init__(self, parts: OperationParts, review: Reviews) -> None:
        self._tracking: SqlTracking = parts.tracking
        self._asks: SqlBackfillJobs | None = parts.history
        self._review = review

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the page of backfills."""
        yield get(BACKFILLS, self.show, Access.SIGNED_IN)
        yield post(BACKFILLS, self.change, Access.FRESH, keeps=("mint", "days"))

    async def show(self, request: PageRequest) -> PageResponse:
        """Show the backfills and their progress.

        Return no content if nothing has changed since the state that `seen` in the query
        identifies.
        """
        seen = request.query_params.line("seen")
        if seen and seen == _mark(await self._shown()):
            return NoContent()
        mint = request.query_params.line("mint")[:64]
        return await self._page(request, values={"mint": mint, "days": DAYS_USUAL})

    async def change(self, request: PageRequest) -> PageResponse:
        """Request, confirm or cancel a backfill, depending on the button."""
        if self._asks is None:
            return await self._page(request, {"": NO_NODE}, status=409)
        what = request.form.text("do")
        if what == "ask":
            return await self._ask(self._asks, request)
        if what in CHANGES:
            return await self._change(self._asks, request, what)
        raise BadRequest(f"expected ask, confirm or cancel; was {what[:40]!r}")

    async def _ask(self, asks: SqlBackfillJobs, request: PageRequest) -> PageResponse:
        try:
            mint, days = await self._asked(request)
        except InvalidForm as invalid:
            return await self._page(request, invalid.errors)
        since = UnixS(request.now // SECOND_MS - days * DAY_S)
        shown = await asks.newest(OPEN_MAX + ENDED_MAX)
        waiting = [each.mint for each in shown if each.ended_at is None]
        if mint in waiting or len(waiting) >= OPEN_MAX:
            return await self._page(request, {"mint": IS_OPEN if mint in waiting else TOO_MANY})
        await self._note(request, "requested a backfill", mint, days=str(days))
        is_asked = await asks.ask(mint, since, request.now)
        return Redirect(BACKFILLS, notice="past-asked" if is_asked else "past-as-it-was")

    async def _asked(self, request: PageRequest) -> tuple[Mint, int]:
        """Return the mint and the number of days in the form.  Raises InvalidForm."""
        days = request.form.line("days")
        try:
            mint = parse_mint(request.form.line("mint"))
        except InvalidTokenAddress as flaw:
            raise InvalidForm({"mint": sentence(flaw)}) from None
        if mint == WSOL:
            raise InvalidForm({"mint": OF_SOL})
        if await self._tracking.one(mint) is None:
            raise InvalidForm({"mint": NOT_FOLLOWED})
        if not DAYS.fullmatch(days) or int(days) > DAYS_MAX:
            raise InvalidForm({"days": NO_DAYS})
        return mint, int(days)

    async def _change(self, asks: SqlBackfillJobs, request: PageRequest, what: str) -> PageResponse:
        """Confirm or cancel a backfill; do nothing if its state no longer allows that."""
        ask_id = parse_id(request.form.text("ask"))
        shown = await asks.newest(OPEN_MAX + ENDED_MAX)
        found = next((each for each in shown if each.ask_id == ask_id), None)
        if found is None or found.state not in CHANGEABLE[what]:
            return Redirect(BACKFILLS, notice="past-as-it-was")
        await self._note(request, CHANGES[what], found.mint)
        if what == "confirm":
            mint = await asks.confirm(ask_id)
        else:
            mint = await asks.cancel(ask_id, request.now)
        return Redirect(BACKFILLS, notice="past-as-it-was" if mint is None else f"past-{what}")

    async def _note(self, request: PageRequest, what: str, mint: Mint, **detail: str) -> None:
        await self._review.record(what, f"mint:{mint}", actor=request.signed_in, **detail)

    async def _shown(self) -> Sequence[BackfillJob]:
        return [] if self._asks is None else await self._asks.newest(BACKFILLS_SHOWN_MAX)

    async def _page(
        self,
        request: PageRequest,
        errors: Mapping[str, str] = NO_ERRORS,
        *,
        values: Mapping[str, str] | None = None,
        status: int | None = None,
    ) -> Page:
        asks = await self._shown()
        facts = {
            "no_node": NO_NODE if self._asks is None else "",
            "backfills": [_backfill_line(each) for each in asks],
            "mark": _mark(asks),
            "is_moving": any(each.state in MOVING for each in asks),
            "days_max": DAYS_MAX,
        }
        typed = {name: request.form.line(name) for name in ("mint", "days")}
        return Page(
            "admin/backfills.html", facts, errors, typed if values is None else values, status
        )


def _mark(asks: Sequence[BackfillJob]) -> str:
    """Return a short hash of *asks*, by which an open page learns whether the backfills changed."""
    return sha256(repr(asks).encode()).hexdigest()[:16]


def _backfill_line(ask: BackfillJob) -> dict[str, object]:
    name, badge = STATES[ask.state]
    total = max(ask.listed, 0 if ask.cost is None else ask.cost.transactions)
    return {
        "job": ask,
        "since": UnixMs(ask.from_time * SECOND_MS),
        "name": name,
        "badge": badge,
        "takes": "" if ask.cost is None else _duration(round(ask.cost.seconds)),
        "is_read": ask.state is BackfillState.READING,
        "total": total,
        "part": min(1.0, ask.read / total) if total else 0.0,
        "words": _as_sentence(ask.words),
        "is_failed": ask.state is BackfillState.FAILED,
        "can_be_confirmed": ask.state is BackfillState.ESTIMATED,
        "can_be_cancelled": ask.state in CAN_BE_CANCELLED,
    }


def _as_sentence(words: str) -> str:
    """Return *words* capitalized, or unchanged if the first word is a Solana address."""
    first = words.partition(" ")[0]
    return words if len(first) > WORD_LENGTH_MAX else words[:1].upper() + words[1:]


def _duration(seconds: int) -> str:
    hours, minutes = divmod(round(seconds / MINUTE_S), 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min" if minutes else f"{seconds} s"
