"""Arguments of a tool call, and the API request built from them."""

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode

import msgspec
from starlette.types import ASGIApp, Message, Scope

from mintscope.kit.http.request import ClientDisconnected
from mintscope.kit.http.response import Header
from mintscope.mcp.tools import Tool, ToolCost

TEXT_MAX: Final = 2_000
VALUES_MAX: Final = 100
CREDITS_MAX: Final = 1_000_000
USD_MAX: Final = Decimal(1_000_000)
OWN: Final = ("max_credits", "max_usd", "idempotency_key")
FIELDS: Final = "fields"  # selects result columns if the API has no such parameter


class BadArguments(Exception):
    """An argument is invalid; the message states the expected form."""


class Arguments(msgspec.Struct, frozen=True):
    """The arguments of one call.

    target            path and query of the API request
    body              JSON body of the API request; b"" if it has none
    fields            requested fields of each row; empty for the tool's default fields
    bundle            bundle to buy, as sent by the caller; None if missing, or for other tools
    max_credits       maximum cost of the call in credits; None: no maximum
    max_usd           maximum cost of the call in USD; None: no maximum
    idempotency_key   secret of the caller by which a repetition of the call is recognised; None if
                      the caller sent none
    """

    target: str
    body: bytes = b""
    fields: Sequence[str] = ()
    bundle: str | None = None
    max_credits: int | None = None
    max_usd: Decimal | None = None
    idempotency_key: str | None = None


def read_arguments(tool: Tool, given: Mapping[str, Any], known: Collection[str]) -> Arguments:
    """Return the checked arguments of a call of *tool*.

    The API checks the query values.  Unknown names are refused, because a name may be a misspelled
    budget.  None counts as a missing argument, because some clients send all arguments.

    known    names of the tool's arguments
    Raises   BadArguments
    """
    unknown = next((name for name in given if name not in known and name not in OWN), None)
    if unknown is not None:
        raise BadArguments(f"expected the arguments {', '.join(known)}; was {unknown[:50]!r}")
    given = {name: value for name, value in given.items() if value is not None}
    path = tool.path
    query = list(tool.chosen.items())
    for name, value in given.items():
        if name in OWN or tool.body is not None or (name == FIELDS and _chooses(tool)):
            continue
        field = tool.arguments.get(name, name)
        segment = "{" + field + "}"
        text = _text(name, value)
        if segment in path:
            path = path.replace(segment, quote(text, safe=""))
        else:
            query.append((field, text))
    if "{" in path:  # not of a value: `quote` has encoded its braces
        missing = next(name for name in (*tool.arguments, "mint") if name not in given)
        raise BadArguments(f"{missing}: expected the address of a token; it is missing")
    max_usd = _usd(given.get("max_usd"))
    if tool.cost is ToolCost.BUNDLE and max_usd is None:
        raise BadArguments("max_usd: expected the most that you want to pay, in USD; it is missing")
    return Arguments(
        target=f"{path}?{urlencode(query)}" if query else path,
        body=b"" if tool.body is None else _json({**tool.body.fixed, **given}),
        fields=_fields(tool, given.get(FIELDS)) if _chooses(tool) else (),
        bundle=dict(query).get("bundle") if tool.cost is ToolCost.BUNDLE else None,
        max_credits=_credits(given.get("max_credits")),
        max_usd=max_usd,
        idempotency_key=_key(given.get("idempotency_key")),
    )


def _json(body: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode({name: body[name] for name in body if name not in OWN})
    except (UnicodeEncodeError, RecursionError, TypeError) as cause:
        raise BadArguments("expected arguments that are JSON") from cause


def _chooses(tool: Tool) -> bool:
    """Return whether the argument `fields` of *tool* is applied by this server, not by the API."""
    return tool.page is None or bool(tool.page.fields)


def _text(name: str, value: Any) -> str:
    """Return *value* as text for a path or a query.  Raises BadArguments if this is impossible."""
    if isinstance(value, bool):  # before int, of which bool is a subclass
        return "true" if value else "false"
    if isinstance(value, list) and len(value) <= VALUES_MAX:
        return ",".join(_text(name, each) for each in value)
    value = _whole(value)
    if isinstance(value, int | float | str) and len(str(value)) <= TEXT_MAX:
        try:  # JSON may contain lone surrogates, which no URL can contain
            str(value).encode()
        except UnicodeEncodeError:
            pass
        else:
            return str(value)
    raise BadArguments(f"{name}: expected a text of at most {TEXT_MAX} characters, or a number")


def _whole(value: Any) -> Any:
    """Return *value*, as an int if it is a whole number: some clients send floats only."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _fields(tool: Tool, value: Any) -> Sequence[str]:
    if value is None or tool.page is None:
        return ()
    names = value.split(",") if isinstance(value, str) else value
    if isinstance(names, list) and all(name in tool.page.fields for name in names):
        return tuple(names)
    raise BadArguments(f"fields: expected some of {', '.join(tool.page.fields)}")


def _credits(value: Any) -> int | None:
    if value is None:
        return None
    value = _whole(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= CREDITS_MAX:
        raise BadArguments(f"max_credits: expected an integer from 0 to {CREDITS_MAX}")
    return value


def _usd(value: Any) -> Decimal | None:
    if value is None:
        return None
    try:
        usd = Decimal("nan" if isinstance(value, bool) else str(value)[:VALUES_MAX])
    except InvalidOperation:
        usd = Decimal("nan")
    if not (usd.is_finite() and 0 <= usd <= USD_MAX):
        raise BadArguments(f"max_usd: expected a number of USD from 0 to {USD_MAX}")
    return usd


def _key(value: Any) -> str | None:
    """Return *value*, an idempotency key or None.  The API checks the format of the key.

    Raises BadArguments if *value* is not text, is empty or too long, or does not fit in a header.
    """
    if value is None:
        return None
    if not (
        isinstance(value, str)
        and 0 < len(value) <= VALUES_MAX * 2
        and value.isascii()
        and value.isprintable()
    ):
        raise BadArguments("idempotency_key: expected 16 to 128 of A-Z, a-z, 0-9, '-' and '_'")
    return value


# Headers of the MCP request that are passed on to the API: credential and proxy addresses.
PASSED_ON: Final = {b"authorization", b"x-forwarded-for"}


class ApiAnswer(msgspec.Struct, frozen=True):
    """A response of the API.

    headers   values by lowercase name
    """

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_success(self) -> bool:
        """Whether the status of the response is below 400."""
        return self.status < 400  # noqa: PLR2004 - HTTP's own number

    def content(self) -> Any:
        """Return the body, decoded from JSON."""
        return msgspec.json.decode(self.body)


class ApiExchange:
    """Sends requests to the API in this process: *api* is its ASGI application."""

    def __init__(self, api: ASGIApp) -> None:
        self._api = api

    async def ask(
        self,
        method: str,
        target: str,
        *,
        client: Scope,
        headers: tuple[Header, ...] = (),
        body: bytes = b"",
    ) -> ApiAnswer:
        """Send a request to the API, and return the response.

        target    percent-encoded path and query
        client    ASGI scope of the client's request, whose headers in PASSED_ON are sent, too
        headers   further headers
        body      JSON body; b"" for none
        Raises    ClientDisconnected if the client has left; nothing was charged
        """
        pieces: list[Message] = []

        async def send(message: Message) -> None:
            pieces.append(message)

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        if body:
            headers += ((b"content-type", b"application/json"),)
        await self._api(_scope(method, target, client, headers), receive, send)
        if not pieces:  # the API sends nothing once the client has left
            raise ClientDisconnected
        named = {name.decode(): value.decode("latin-1") for name, value in pieces[0]["headers"]}
        content = b"".join(piece.get("body", b"") for piece in pieces[1:])
        return ApiAnswer(pieces[0]["status"], named, content)


def _scope(method: str, target: str, client: Scope, headers: tuple[Header, ...]) -> Scope:
    path, _, query = target.partition("?")
    passed_on = [header for header in client["headers"] if header[0] in PASSED_ON]
    return {
        **client,  # with the extensions by which the API notices that the client has left
        "method": method,
        "path": unquote(path),
        "raw_path": path.encode(),  # in it, the API finds encoded slashes, which it refuses
        "query_string": query.encode(),
        "headers": [*passed_on, *headers],
    }
