"""The past of a token: administrators ask for it, see what it costs, and let it be read."""

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Final

from mintscope.base.errors import BadRequest, InvalidTokenAddress
from mintscope.base.primitives import Mint, UnixMs, UnixS, parse_mint
from mintscope.base.solana import WSOL
from mintscope.base.time import DAY_S, MINUTE_S, SECOND_MS
from mintscope.core.accounts.reviews import Reviews
from mintscope.core.market.history.asking import (
    ENDED_MAX,
    OPEN_MAX,
    AskState,
    HistoryAsk,
    HistoryAsks,
)
from mintscope.core.market.store import Tracking
from mintscope.edges.server.request import parse_id
from mintscope.edges.web.form import InvalidForm, sentence
from mintscope.edges.web.pages.page import NO_ERRORS, NoContent, Page, PageResponse, Redirect
from mintscope.edges.web.review.operations import TOKENS, OperationParts
from mintscope.edges.web.routes import Access, PageRequest, PageRoute, get, post

PASTS: Final = f"{TOKENS}/history"
DAYS_MAX: Final = 180
DAYS: Final = re.compile("[1-9][0-9]{0,2}")
DAYS_USUAL: Final = "10"
SHOWN_MAX: Final = 20
WORD_LENGTH_MAX: Final = 16  # an address is longer
NO_NODE: Final = (
    "A past is read from a node, and blocks come from files here: chain.source is files."
)
NOT_FOLLOWED: Final = "This token is not followed. Follow it first."
OF_SOL: Final = "SOL is followed always: every price rests on it, so it has no past to read."
IS_OPEN: Final = "The past of this token is asked for already: it stands below."
TOO_MANY: Final = f"{OPEN_MAX} pasts wait already. Let them be read, or cancel some."
NO_DAYS: Final = f"Expected a number of days, 1 to {DAYS_MAX}."
# Each with what its badge looks like.
STATES: Final = {
    AskState.ASKED: ("Being estimated", ""),
    AskState.ESTIMATED: ("Waits for your yes", "wait"),
    AskState.CONFIRMED: ("Waits for its turn", ""),
    AskState.READING: ("Being read", "wait"),
    AskState.CANCELLING: ("Being cancelled", ""),
    AskState.DONE: ("Done", "good"),
    AskState.FAILED: ("Failed", "bad"),
    AskState.CANCELLED: ("Cancelled", ""),
}
CHANGES: Final = {"confirm": "confirmed a past", "cancel": "cancelled a past"}
# States that change by themselves.
MOVING: Final = {
    *(AskState.ASKED, AskState.CONFIRMED, AskState.READING, AskState.CANCELLING),
}
CAN_BE_CANCELLED: Final = {
    *(AskState.ASKED, AskState.ESTIMATED, AskState.CONFIRMED, AskState.READING),
}


class PastPages:
    """Asking, confirming and cancelling; each is in the audit log."""

    def __init__(self, parts: OperationParts, review: Reviews) -> None:
        self._tracking: Tracking = parts.tracking
        self._asks: HistoryAsks | None = parts.history
        self._review = review

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        yield get(PASTS, self.show, Access.SIGNED_IN)
        yield post(PASTS, self.change, Access.FRESH)

    async def show(self, request: PageRequest) -> PageResponse:
        """Show what was asked for, and what became of it; with `seen` only if that has changed."""
        seen = request.query_params.line("seen")
        if seen and seen == _mark(await self._shown()):
            return NoContent()
        mint = request.query_params.line("mint")[:64]
        return await self._page(request, values={"mint": mint, "days": DAYS_USUAL})

    async def change(self, request: PageRequest) -> PageResponse:
        """Ask for a past, or confirm or cancel one: the button says which."""
        if self._asks is None:
            return await self._page(request, {"": NO_NODE}, status=409)
        what = request.form.text("do")
        if what == "ask":
            return await self._ask(self._asks, request)
        if what in CHANGES:
            return await self._change(self._asks, request, what)
        raise BadRequest(f"expected ask, confirm or cancel; was {what[:40]!r}")

    async def _ask(self, asks: HistoryAsks, request: PageRequest) -> PageResponse:
        try:
            mint, days = await self._asked(request)
        except InvalidForm as invalid:
            return await self._page(request, invalid.errors)
        since = UnixS(request.now // SECOND_MS - days * DAY_S)
        if not await asks.ask(mint, since, request.now):
            shown = await asks.newest(OPEN_MAX + ENDED_MAX)
            is_open = any(each.mint == mint and each.ended_at is None for each in shown)
            return await self._page(request, {"mint": IS_OPEN if is_open else TOO_MANY})
        await self._note(request, "asked for a past", mint, days=str(days))
        return Redirect(PASTS, notice="past-asked")

    async def _asked(self, request: PageRequest) -> tuple[Mint, int]:
        """Return which past the form names.  Raises InvalidForm."""
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

    async def _change(self, asks: HistoryAsks, request: PageRequest, what: str) -> PageResponse:
        """Confirm or cancel; what another administrator did before changes nothing."""
        ask_id = parse_id(request.form.text("ask"))
        if what == "confirm":
            mint = await asks.confirm(ask_id)
        else:
            mint = await asks.cancel(ask_id, request.now)
        if mint is None:
            return Redirect(PASTS, notice="past-as-it-was")
        await self._note(request, CHANGES[what], mint)
        return Redirect(PASTS, notice=f"past-{what}")

    async def _note(self, request: PageRequest, what: str, mint: Mint, **detail: str) -> None:
        await self._review.record(what, f"mint:{mint}", actor=request.signed_in, **detail)

    async def _shown(self) -> Sequence[HistoryAsk]:
        return [] if self._asks is None else await self._asks.newest(SHOWN_MAX)

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
            "pasts": [_line(each) for each in asks],
            "mark": _mark(asks),
            "is_moving": any(each.state in MOVING for each in asks),
            "days_max": DAYS_MAX,
        }
        typed = {name: request.form.line(name) for name in ("mint", "days")}
        return Page("admin/pasts.html", facts, errors, typed if values is None else values, status)


def _mark(asks: Sequence[HistoryAsk]) -> str:
    """Return a short text that is another one once anything of *asks* is."""
    return sha256(repr(asks).encode()).hexdigest()[:16]


def _line(ask: HistoryAsk) -> dict[str, object]:
    name, badge = STATES[ask.state]
    total = max(ask.listed, 0 if ask.cost is None else ask.cost.transactions)
    return {
        "ask_id": ask.ask_id,
        "mint": ask.mint,
        "since": UnixMs(ask.from_time * SECOND_MS),
        "asked_at": ask.asked_at,
        "ended_at": ask.ended_at,
        "name": name,
        "badge": badge,
        "cost": ask.cost,
        "takes": "" if ask.cost is None else _duration(round(ask.cost.seconds)),
        "is_read": ask.state is AskState.READING,
        "listed": ask.listed,
        "read": ask.read,
        "total": total,
        "part": min(1.0, ask.read / total) if total else 0.0,
        "words": _as_sentence(ask.words),
        "is_failed": ask.state is AskState.FAILED,
        "can_be_confirmed": ask.state is AskState.ESTIMATED,
        "can_be_cancelled": ask.state in CAN_BE_CANCELLED,
    }


def _as_sentence(words: str) -> str:
    """Return *words* with a capital first, unless they begin with an address."""
    first = words.partition(" ")[0]
    return words if len(first) > WORD_LENGTH_MAX else words[:1].upper() + words[1:]


def _duration(seconds: int) -> str:
    hours, minutes = divmod(round(seconds / MINUTE_S), 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min" if minutes else f"{seconds} s"
