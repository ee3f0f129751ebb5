"""GET /v1/tokens, and the routes of the metadata and the icon of a token."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from mintscope.api.discovery.operation import PUBLIC_ROUTE, Operation, operations_of
from mintscope.api.query import read_query
from mintscope.api.tokens import (
    DemoRoutes,
    Icon,
    ListedToken,
    ListQuery,
    Metadata,
    TokenPage,
    icon_of,
    metadata_of,
)
from mintscope.api.v1 import mint_of
from mintscope.api.wire import EXPECTED, decode_cursor, encode_cursor, success
from mintscope.kit.clock import Clock
from mintscope.kit.errors import BadRequest, ErrorCode, InsufficientData, ServiceUnavailable
from mintscope.kit.http.application import etag_of
from mintscope.kit.http.rate_limit import AddressLimit, AddressLimits
from mintscope.kit.http.request import Request
from mintscope.kit.http.response import Header, Response
from mintscope.kit.limits import Limit
from mintscope.kit.primitives import Mint, UnixS
from mintscope.kit.time import SECOND_MS
from mintscope.market.follow.list_cache import ListCache
from mintscope.market.screening.listed import ListedTokens, ListPlace, ListQuestion
from mintscope.market.screening.look_alikes import cleaned

LISTS: Final = Limit(name="lists", count=60, window_s=60)
SVG: Final[Header] = (b"content-type", b"image/svg+xml")
A_WEEK: Final[Header] = (b"cache-control", b"public, max-age=604800, immutable")
# The picture runs no scripts and loads nothing, even if it is opened by itself.
PICTURE_ALONE: Final[Header] = (
    b"content-security-policy",
    b"default-src 'none'; style-src 'none'; sandbox",
)
NOT_SNIFFED: Final[Header] = (b"x-content-type-options", b"nosniff")
UNREAD: Final = (
    "The facts of this token have not been read from the chain yet; send the request again in a few"
    " minutes."
)


class ListPosition(msgspec.Struct, tag="tokens", frozen=True):
    """The last token of a page, the value that sorts it, and the query and order of the list."""

    query: str
    sort: str
    order: str
    value: float | None
    mint: str


@dataclass(frozen=True, slots=True)
class ListParts:
    """The dependencies of the routes of the list and of the demo.

    lists           the source of the current list of tokens
    limit           the limit for the requests of a client address to all these routes together
    origin          the address at which clients reach this service
    follows_files   returns whether blocks come from files, whose times replace the clock
    """

    lists: ListCache
    limit: Limit = LISTS
    origin: str = "http://127.0.0.1:8402"
    follows_files: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRoutes:
    """The routes of the token list and of single tokens' metadata and icons.

    A client address has one rate limit for all of them.
    """

    lists: ListCache
    limit: AddressLimit
    clock: Clock

    @Operation("GET", "/v1/tokens", TokenPage, refusals=PUBLIC_ROUTE, query=ListQuery)
    async def list_tokens(self, request: Request) -> Response:
        """All tokens that are tracked, sorted and searched.

        Returns the tracked tokens, in pages: name, symbol, price, change, volume of a day, market
        cap if it is known, and which timeframes are ready. The field query searches names, symbols
        and mints. Costs nothing; at most 60 requests a minute from one address.
        """
        await self.limit.pass_through(request)
        asked = read_query(request, ListQuery)
        question = ListQuestion(
            text=cleaned(asked.query) or "",  # the names in the list are cleaned, too
            sort=asked.sort,
            is_rising=asked.order == "asc",
            limit=asked.limit,
            after=_place(asked),
        )
        # Sorting or searching 100,000 tokens takes milliseconds, so use a thread.
        data = await asyncio.to_thread(_page, self.lists.newest(), asked, question)
        return success(request, data, at=self.clock.now())

    @Operation(
        "GET",
        "/v1/token/{tokenAddress}/metadata",
        Metadata,
        refusals=(
            ErrorCode.INVALID_TOKEN_ADDRESS,
            ErrorCode.TOKEN_NOT_FOUND,
            ErrorCode.INSUFFICIENT_DATA,
            *PUBLIC_ROUTE,
        ),
    )
    async def get_token_metadata(self, request: Request) -> Response:
        """The facts of a token on chain: supply, authorities, extensions.

        Returns the facts of a token on the chain: name, supply, mint and freeze authorities, fees
        and other extensions, each also described in a sentence. Costs nothing; at most 60 requests
        a minute from one address, unless the service sets another limit.
        """
        await self.limit.pass_through(request)
        mint = mint_of(request.path_params["tokenAddress"])
        facts = await self.lists.facts_of(mint)
        if facts is None:
            raise InsufficientData(UNREAD)
        now = self.clock.now()
        look_alike_of = None
        with suppress(ServiceUnavailable):  # the list is still loading
            look_alike_of = await asyncio.to_thread(self.lists.newest().larger_like, mint)
        data = metadata_of(mint, facts, UnixS(now // SECOND_MS), look_alike_of)
        return success(request, data, at=now)

    @Operation(
        "GET",
        "/v1/token/{tokenAddress}/icon.svg",
        Icon,
        refusals=(ErrorCode.INVALID_TOKEN_ADDRESS, ErrorCode.RATE_LIMITED),
        media_type="image/svg+xml",
        is_conditional=True,
    )
    async def get_token_icon(self, request: Request) -> Response:
        """A picture of the token, drawn from the bytes of its mint.

        Returns a picture of the token as SVG, drawn from the bytes of its mint: always the same,
        and not its logo. Costs nothing; at most 60 requests a minute from one address.
        """
        await self.limit.pass_through(request)
        picture = icon_of(mint_of(request.path_params["tokenAddress"]))
        headers = (SVG, A_WEEK, PICTURE_ALONE, NOT_SNIFFED)
        return Response(200, picture, headers, etag=etag_of(picture))


def token_operations(
    parts: ListParts, *, limits: AddressLimits, clock: Clock
) -> Sequence[Operation]:
    """Return the free operations: those of the list and of single tokens, and of the demo."""
    limit = limits.of(parts.limit)
    tokens = TokenRoutes(lists=parts.lists, limit=limit, clock=clock)
    demo = DemoRoutes(limit=limit, clock=clock, origin=parts.origin)
    return [*operations_of(tokens), *operations_of(demo)]


def _page(listed: ListedTokens, asked: ListQuery, question: ListQuestion) -> TokenPage:
    """Return the page of *listed* that *question* selects; *question* was parsed from *asked*."""
    page = listed.page(question)
    return TokenPage(
        tokens=[ListedToken.of(line) for line in page.lines],
        slot=listed.folded.slot,
        as_of=listed.folded.time,
        next_cursor=None if page.next_after is None else _cursor(asked, page.next_after),
    )


def _place(asked: ListQuery) -> ListPlace | None:
    """Return the end of the previous page, from the cursor in *asked*; None for the first page.

    Raises BadRequest for an invalid cursor, or one of a list with another query or order.
    """
    if not asked.cursor:
        return None
    at = decode_cursor(asked.cursor, ListPosition)
    if (at.query, at.sort, at.order) != (asked.query, asked.sort, asked.order):
        raise BadRequest(EXPECTED)
    return ListPlace(at.value, Mint(at.mint))


def _cursor(asked: ListQuery, place: ListPlace) -> str:
    return encode_cursor(
        ListPosition(asked.query, asked.sort, asked.order, place.value, place.mint)
    )
