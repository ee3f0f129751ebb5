"""GET and POST /v1/screen: the tokens for which a condition is true, up to 100 for a credit."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from mintscope.base.errors import BadRequest, ErrorCode, ServiceUnavailable
from mintscope.base.primitives import Slot
from mintscope.base.time import SECOND_MS
from mintscope.core.accounts.keys.scope import Scope
from mintscope.core.checkout.checkout import Delivered
from mintscope.core.checkout.order import report_order
from mintscope.core.market.listing.listed import ListedTokens, TokenLists
from mintscope.core.market.report import ReadReport
from mintscope.core.market.screening.fields import FIELDS, similar_field
from mintscope.core.market.screening.grammar import (
    Condition,
    ConditionError,
    fields_in,
    parse_condition,
)
from mintscope.core.market.screening.page import Place, ScreenQuestion
from mintscope.edges.api.data.cursor import EXPECTED, decode_cursor, encode_cursor
from mintscope.edges.api.data.query import read_query
from mintscope.edges.api.data.screen.wire import (
    ScreenedToken,
    ScreenPage,
    ScreenPosition,
    ScreenQuery,
    ScreenRequest,
)
from mintscope.edges.api.description.operation import OF_A_TOKEN, PAYERS, Operation
from mintscope.edges.api.gate import Caller
from mintscope.edges.api.offers import screen_resource
from mintscope.edges.api.v1 import V1
from mintscope.edges.api.wire import success_with_body
from mintscope.edges.server.json_body import UnreadableBody, parse_shape
from mintscope.edges.server.request import Request
from mintscope.edges.server.response import Response

PATH: Final = "/v1/screen"
OF_NO_TOKEN: Final = {
    ErrorCode.INVALID_TOKEN_ADDRESS,
    ErrorCode.TOKEN_NOT_FOUND,
    ErrorCode.INSUFFICIENT_DATA,
}
REFUSALS: Final = tuple(code for code in OF_A_TOKEN if code not in OF_NO_TOKEN)
KEY_DIGITS: Final = 16


class ReadScreen(NamedTuple):
    """A question, and what names its pages."""

    question: ScreenQuestion
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenRoutes:
    """The routes, with the parts of *v1*.

    follows_files   whether the market's clock is that of files that are replayed
    """

    v1: V1
    lists: TokenLists
    follows_files: Callable[[], bool]

    @Operation(
        "GET",
        PATH,
        ScreenPage,
        unit="a page",
        refusals=REFUSALS,
        proofs=PAYERS,
        is_charged=True,
        takes_key=True,
        query=ScreenQuery,
        scope=Scope.TRADE_READ,
    )
    async def screen_tokens(self, request: Request) -> Response:
        """Tokens for which a condition is true, up to 100 for a credit; none for an empty page.

        Returns the tracked Solana tokens for which a condition is true, up to 100 a page: price,
        changes, volumes, liquidity, market cap, age and confidence, and EMA 9, 21, 50, 200, RSI 14
        and MACD (12, 26, 9) from candles of 1, 5, 15 and 60 minutes, each as the report has it, as
        of the newest final slot. Costs one credit or one payment a page, and nothing for a page
        without tokens; errors cost nothing, and say at which character the condition is wrong.
        nextCursor leads to the next page.
        """
        caller = await self.v1.gate.admit(request)
        return await self._sell(request, caller, read_query(request, ScreenQuery))

    @Operation(
        "POST",
        PATH,
        ScreenPage,
        unit="a page",
        refusals=(*REFUSALS, ErrorCode.PAYLOAD_TOO_LARGE),
        proofs=PAYERS,
        is_charged=True,
        takes_key=True,
        body=ScreenRequest,
        scope=Scope.TRADE_READ,
    )
    async def screen_tokens_by_body(self, request: Request) -> Response:
        """Tokens for which a condition is true, up to 100 for a credit: asked for in JSON.

        Returns the tracked Solana tokens for which a condition is true, up to 100 a page: price,
        changes, volumes, liquidity, market cap, age and confidence, and EMA 9, 21, 50, 200, RSI 14
        and MACD (12, 26, 9) from candles of 1, 5, 15 and 60 minutes, each as the report has it, as
        of the newest final slot. Costs one credit or one payment a page, and nothing for a page
        without tokens; errors cost nothing, and say at which character the condition is wrong.
        nextCursor leads to the next page.
        """
        caller = await self.v1.gate.admit(request)
        body = await request.body()
        try:
            asked = parse_shape(request, body, ScreenRequest) if body else ScreenRequest()
        except UnreadableBody as flaw:
            raise BadRequest(str(flaw)) from flaw
        return await self._sell(request, caller, asked)

    async def _sell(self, request: Request, caller: Caller, asked: ScreenQuery) -> Response:
        read = read_screen(asked)
        order = report_order(screen_resource(asked, ScreenQuery))
        report = await self.v1.resource_server.sell_report(
            request, caller, order, partial(self._work, request, read)
        )
        request.response_headers += self.v1.freshness.headers(
            slot=report.slot, age_ms=report.age_ms
        )
        body = success_with_body(report.body, at=self.v1.clock.now(), request_id=request.request_id)
        return Response(200, body)

    async def _work(self, request: Request, read: ReadScreen) -> Delivered:
        """Return a page as of the newest list, and what it costs."""
        listed = self.lists.newest()
        page = await asyncio.to_thread(made_page, listed, read)
        age_ms = max(0, self.v1.clock.now() - page.as_of * SECOND_MS)
        age_ms = 0 if self.follows_files() else age_ms
        report = ReadReport(msgspec.json.encode(page), Slot(page.slot), age_ms)
        self.v1.freshness.expect(report)
        request.expect_client()
        return Delivered(report, 1 if page.tokens else 0)


def made_page(listed: ListedTokens, read: ReadScreen) -> ScreenPage:
    """Return the page of *listed*: some milliseconds, in any thread.

    Raises ServiceUnavailable before the first block.
    """
    slot = listed.folded.slot
    time = listed.folded.time
    if slot is None or time is None:
        raise ServiceUnavailable("No block has been read yet; try again shortly.")
    asked = read.question
    found = listed.screen(asked)
    mints = map(listed.mint_in, found.rows)
    tokens = [
        ScreenedToken(mint.mint, mint.symbol, mint.name, dict(zip(asked.fields, line, strict=True)))
        for mint, line in zip(mints, found.values, strict=True)
    ]
    cursor = None
    if found.after is not None:
        value, key = found.after
        cursor = encode_cursor(ScreenPosition(read.digest, value, f"{key:0{KEY_DIGITS}x}"))
    return ScreenPage(tokens, found.matches, slot, time, cursor)


def read_screen(asked: ScreenQuery) -> ReadScreen:
    """Return what is *asked*.  Raises BadRequest."""
    condition = _condition(asked.where)
    sort = _field("sort", asked.sort)
    names = [_field("fields", name) for name in asked.fields]
    if not names:
        of_condition = () if condition is None else fields_in(condition)
        names = ["price", *of_condition, sort]
    digest = sha256(f"{asked.where}\n{sort}\n{asked.order}".encode()).hexdigest()[:KEY_DIGITS]
    question = ScreenQuestion(
        condition=condition,
        sort=sort,
        is_rising=asked.order == "asc",
        fields=list(dict.fromkeys(names)),
        limit=asked.limit,
        after=_place(asked.cursor, digest),
    )
    return ReadScreen(question, digest)


def _condition(text: str) -> Condition | None:
    if not text.strip():
        return None
    try:
        return parse_condition(text)
    except ConditionError as flaw:
        raise BadRequest(f"where: {flaw}") from flaw


def _field(where: str, name: str) -> str:
    if name in FIELDS:
        return name
    similar = similar_field(name)
    hint = "" if similar is None else f"; did you mean {similar}?"
    raise BadRequest(f"{where}: unknown field {name!r}{hint}")


def _place(cursor: str, digest: str) -> Place | None:
    """Return where the page before ended.  Raises BadRequest for one of another screen."""
    if not cursor:
        return None
    at = decode_cursor(cursor, ScreenPosition)
    try:
        key = int(at.key, 16)
    except ValueError as cause:
        raise BadRequest(EXPECTED) from cause
    if at.digest != digest or not 0 <= key < 1 << 64:
        raise BadRequest(EXPECTED)
    return Place(at.value, key)
