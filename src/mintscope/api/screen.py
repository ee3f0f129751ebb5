"""GET and POST /v1/screen: the tokens for which a condition is true, up to 100 for a credit."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from mintscope.accounts.keys.scope import Scope
from mintscope.api import wire
from mintscope.api.discovery.operation import OF_A_TOKEN, PAYERS, Operation
from mintscope.api.gate import Caller
from mintscope.api.query import NoQuery, read_query
from mintscope.api.v1 import V1
from mintscope.api.x402 import screen_resource
from mintscope.kit.errors import BadRequest, ErrorCode, ServiceUnavailable
from mintscope.kit.http.request import Request
from mintscope.kit.http.response import Response
from mintscope.kit.primitives import Slot, about
from mintscope.kit.time import SECOND_MS
from mintscope.market.follow.list_cache import ListCache
from mintscope.market.report import ReadReport
from mintscope.market.screening import grammar
from mintscope.market.screening.listed import ListedTokens
from mintscope.market.screening.screen import Place, ScreenQuestion
from mintscope.market.timeframe import TIMEFRAMES
from mintscope.payments.checkout import Delivered
from mintscope.payments.merchant import report_order
from mintscope.solana.blocks import WSOL

PAGE_MAX: Final = 100
NAME_MAX: Final = 32
EXAMPLE: Final = "liquidity > 100000 and rsi_h1 < 30 and price > ema200_h1"
NAMES: Final = ", ".join(field.name for field in grammar.OF_TOKENS)
NAMES_OF_TIMEFRAMES: Final = ", ".join(
    name for name, _ in (*grammar.OF_TIMEFRAMES, *grammar.OF_NEWEST)
)
CONDITION: Final = (
    "The condition: fields and numbers with < <= > >= = !=, + - * /, and, or, not, ( );"
    " crosses_above(a, b), crosses_below(a, b): in the newest candle; (a, b, n): in any of the"
    " newest n, 1 to 5. Fields:"
    f" {NAMES}; and with _{', _'.join(TIMEFRAMES)} behind them: {NAMES_OF_TIMEFRAMES}. USD;"
    " changes are fractions (0.05: 5 % up); confidence is low, medium or high. Where a value is not"
    " known, a comparison with it is not true. Empty: all tokens."
)

FieldName = Annotated[str, Meta(max_length=NAME_MAX)]


class ScreenQuery(wire.Wire):
    """Query of GET /v1/screen: a condition, and the order and the fields of its tokens."""

    where: Annotated[
        str, Meta(max_length=grammar.TEXT_MAX, description=CONDITION, examples=[EXAMPLE])
    ] = ""
    sort: Annotated[
        str,
        Meta(
            max_length=NAME_MAX,
            description="The field to sort by; tokens without a value come last.",
            examples=["volume_d1"],
        ),
    ] = "volume_d1"
    order: Annotated[Literal["asc", "desc"], Meta(description="asc: the least first.")] = "desc"
    fields: Annotated[
        list[FieldName],
        Meta(
            max_length=len(grammar.FIELDS),
            description="Fields to show. None: price, those of the condition, and of sort.",
            examples=[["price", "rsi_h1"]],
        ),
    ] = msgspec.field(default_factory=list)
    limit: Annotated[
        int,
        Meta(
            ge=1,
            le=PAGE_MAX,
            description="The maximum number of tokens on a page; every page costs the same.",
        ),
    ] = PAGE_MAX
    cursor: Annotated[
        str,
        Meta(
            max_length=512,
            description="`nextCursor` of the page before, to the same where, sort and order.",
        ),
    ] = ""


class ScreenRequest(ScreenQuery, forbid_unknown_fields=True):
    """Body of POST /v1/screen."""


class ScreenedToken(wire.Wire):
    """One token for which the condition is true."""

    mint: Annotated[str, about("The mint, base58.", WSOL)]
    symbol: Annotated[str | None, about("Its symbol, as the chain says.", "SOL")]
    name: Annotated[str | None, about("Its name, as the chain says.", "Wrapped SOL")]
    values: Annotated[
        dict[str, float | str | None],
        about(
            "The fields that are shown, by their names; null: not known, or too few candles yet.",
            {"price": 171.25, "rsi_h1": 28.4, "confidence": "high"},
        ),
    ]


class ScreenPage(wire.Wire):
    """A page of the matching tokens, as of a final slot."""

    tokens: Annotated[list[ScreenedToken], about("The tokens, in the order that was asked for.")]
    matches: Annotated[int, about("The number of tokens on all pages.", 42)]
    slot: Annotated[int, about("The final slot.", 380_000_000)]
    as_of: Annotated[int, about("Its time, Unix seconds.", 1_763_460_000)]
    next_cursor: Annotated[
        str | None, about("The cursor of the next page; null: there is none.", None)
    ]


class ScreenPosition(msgspec.Struct, tag="screen", frozen=True):
    """The position of the last token of a page, and a digest of the condition and the order."""

    digest: str
    value: float | None
    key: str


PATH: Final = "/v1/screen"
OF_NO_TOKEN: Final = {
    ErrorCode.INVALID_TOKEN_ADDRESS,
    ErrorCode.TOKEN_NOT_FOUND,
    ErrorCode.INSUFFICIENT_DATA,
}
REFUSALS: Final = tuple(code for code in OF_A_TOKEN if code not in OF_NO_TOKEN)
KEY_DIGITS: Final = 16


class ReadScreen(NamedTuple):
    """A parsed request for a screen, and the digest that the cursors of its pages contain."""

    question: ScreenQuestion
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenRoutes:
    """The routes of screens; *v1* identifies and charges callers.

    follows_files   returns whether blocks come from files, whose times replace the clock
    """

    v1: V1
    lists: ListCache
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
        caller = await self.v1.gate.admit_buyer(request)
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
        """Tokens for which a condition is true, up to 100 for a credit: requested in JSON.

        Returns the tracked Solana tokens for which a condition is true, up to 100 a page: price,
        changes, volumes, liquidity, market cap, age and confidence, and EMA 9, 21, 50, 200, RSI 14
        and MACD (12, 26, 9) from candles of 1, 5, 15 and 60 minutes, each as the report has it, as
        of the newest final slot. Costs one credit or one payment a page, and nothing for a page
        without tokens; errors cost nothing, and say at which character the condition is wrong.
        nextCursor leads to the next page.
        """
        caller = await self.v1.gate.admit_buyer(request)
        read_query(request, NoQuery)
        is_empty = not await request.body()
        asked = ScreenRequest() if is_empty else await wire.read_body(request, ScreenRequest)
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
        body = wire.success_with_body(
            report.body, at=self.v1.clock.now(), request_id=request.request_id
        )
        return Response(200, body)

    async def _work(self, request: Request, read: ReadScreen) -> Delivered:
        """Return the page of *read* from the newest list of tokens, and its cost in credits."""
        listed = self.lists.newest()
        page = await asyncio.to_thread(made_page, listed, read)
        age_ms = max(0, self.v1.clock.now() - page.as_of * SECOND_MS)
        age_ms = 0 if self.follows_files() else age_ms
        report = ReadReport(msgspec.json.encode(page), Slot(page.slot), age_ms)
        self.v1.freshness.expect(report)
        request.expect_client()
        return Delivered(report, 1 if page.tokens else 0)


def made_page(listed: ListedTokens, read: ReadScreen) -> ScreenPage:
    """Return the page of *listed* that *read* requests; takes milliseconds, so use a thread.

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
        # The key is unsigned and has 64 bits: as a number, `decode_cursor` could refuse it.
        cursor = wire.encode_cursor(ScreenPosition(read.digest, value, f"{key:0{KEY_DIGITS}x}"))
    return ScreenPage(tokens, found.matches, slot, time, cursor)


def read_screen(asked: ScreenQuery) -> ReadScreen:
    """Return *asked*, parsed, with a digest of its condition and order for cursors.

    Raises BadRequest.
    """
    condition = _condition(asked.where)
    sort = _field("sort", asked.sort)
    names = [_field("fields", name) for name in asked.fields]
    if not names:
        of_condition = () if condition is None else grammar.fields_in(condition)
        names = ["price", *of_condition, sort]
    # Not part of it: fields and limit, which may differ from page to page.
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


def _condition(text: str) -> grammar.Condition | None:
    if not text.strip():
        return None
    try:
        return grammar.parse_condition(text)
    except grammar.ConditionError as flaw:
        raise BadRequest(f"where: {flaw}") from flaw


def _field(where: str, name: str) -> str:
    if name in grammar.FIELDS:
        return name
    similar = grammar.similar_field(name, grammar.FIELDS)
    hint = "" if similar is None else f"; did you mean {similar}?"
    raise BadRequest(f"{where}: unknown field {name!r}{hint}")


def _place(cursor: str, digest: str) -> Place | None:
    """Return the end of the previous page, from *cursor*; None for the first page.

    Raises BadRequest for an invalid cursor, or one of a screen with another condition or order.
    """
    if not cursor:
        return None
    at = wire.decode_cursor(cursor, ScreenPosition)
    try:
        key = int(at.key, 16)
    except ValueError as cause:
        raise BadRequest(wire.EXPECTED) from cause
    if at.digest != digest or not 0 <= key < 1 << 64:
        raise BadRequest(wire.EXPECTED)
    return Place(at.value, key)
