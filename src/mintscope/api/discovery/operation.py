"""The operations of the API: handlers, decorated with a description for programs.

    @Operation("GET", "/v1/groups", Groups, refusals=EVERY_ROUTE, proofs=KEY)
    async def list_groups(self, request: Request) -> Response:
        '''Watchlists of the account.

        Returns the watchlists of the account of the API key. Costs nothing.
        '''

The routes, OpenAPI, /llms.txt, /docs, MCP and the types of the clients follow from operations.
"""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from decimal import Decimal
from string import Template
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from mintscope.accounts.keys.scope import Scope
from mintscope.api.failures import ENVELOPE, ErrorFormat
from mintscope.kit.errors import ErrorCode
from mintscope.kit.http.request import Request
from mintscope.kit.http.response import AnyResponse
from mintscope.kit.http.routes import Endpoint, Route
from mintscope.kit.http.server_sent import CONTENT_TYPE
from mintscope.payments.pricing import BUNDLES, REQUEST_USD

JSON_TYPE: Final = "application/json"
EVENTS_TYPE: Final = CONTENT_TYPE.decode()
# The codes that the routes of one kind share.
CREDENTIAL: Final = (ErrorCode.MISSING_TOKEN, ErrorCode.INVALID_TOKEN)
PAYMENT: Final = (
    ErrorCode.INVALID_PAYMENT,
    ErrorCode.PAYMENT_REQUIRED,
    ErrorCode.PAYMENT_FAILED,
    ErrorCode.PAYMENT_ALREADY_USED,
    ErrorCode.PRICE_UNAVAILABLE,
    ErrorCode.PAYMENT_PENDING,
    ErrorCode.PAYMENT_UNAVAILABLE,
)
SPENDER: Final = (*CREDENTIAL, ErrorCode.INSUFFICIENT_SCOPE)
SPENDERS: Final = (("creditToken",), ("apiKey",))
PAYERS: Final = (*SPENDERS, ("x402",))
KEY: Final = (("apiKey",),)
PUBLIC_ROUTE: Final = (ErrorCode.RATE_LIMITED, ErrorCode.SERVICE_UNAVAILABLE)
OF_A_TOKEN: Final = (
    ErrorCode.INVALID_TOKEN_ADDRESS,
    *SPENDER,
    *PAYMENT,
    ErrorCode.INSUFFICIENT_CREDITS,
    ErrorCode.KEY_CAP_REACHED,
    ErrorCode.TOKEN_NOT_FOUND,
    ErrorCode.INSUFFICIENT_DATA,
    ErrorCode.DATA_STALE,
    *PUBLIC_ROUTE,
)
# The codes of routes for several tokens, which are paid with credits only.
OF_CREDITS: Final = (
    ErrorCode.INVALID_TOKEN_ADDRESS,
    ErrorCode.INVALID_PAYMENT,
    *SPENDER,
    ErrorCode.PAYMENT_REQUIRED,
    ErrorCode.INSUFFICIENT_CREDITS,
    ErrorCode.KEY_CAP_REACHED,
)
OF_TOKENS: Final = (
    *OF_CREDITS,
    ErrorCode.DATA_STALE,
    ErrorCode.PAYLOAD_TOO_LARGE,
    *PUBLIC_ROUTE,
)
# The codes of routes that take an API key, and of those that also have a body.
EVERY_ROUTE: Final = (*SPENDER, *PUBLIC_ROUTE)
WITH_BODY: Final = (*EVERY_ROUTE, ErrorCode.PAYLOAD_TOO_LARGE)
X402: Final = "x402"  # the name of a payment in `proofs`


class PriceRange(NamedTuple):
    """The lowest and the highest cost of one call of an operation, in USD."""

    least: Decimal
    most: Decimal


ONE_CREDIT: Final = PriceRange(REQUEST_USD, REQUEST_USD)
ANY_BUNDLE: Final = PriceRange(BUNDLES[0].usd, BUNDLES[-1].usd)


class Tag(NamedTuple):
    """A tag of operations, for paths that begin with *start*."""

    start: str
    name: str
    description: str


# The first tag whose path fits is used, so "/v1/" must follow the paths below it.
TAGS: Final = (
    Tag("/v1/credits", "Credits", "Prepaid credits: buy, check and move them."),
    Tag("/v1/account", "Accounts", "API keys of agents and people."),
    Tag("/v1/groups", "Watchlists", "Lists of mints that an account keeps."),
    Tag("/v1/signals", "Alerts", "Alerts over the numbers of a report."),
    Tag("/v1/me", "Accounts", "API keys of agents and people."),
    Tag("/api/", "Accounts", "API keys of agents and people."),
    Tag("/v1/health", "Service", "How well the service works."),
    Tag("/v1/", "Market data", "Prices, indicators and other data of Solana tokens."),
    Tag("/", "Service", "How well the service works."),
)


API_KEY: Final = "apiKey"
HANDLER_MARK: Final = "operation"  # the attribute of a handler that holds its operation
Handler = TypeVar("Handler", bound=Callable[..., Awaitable[AnyResponse]])


async def unbound(_request: Request) -> AnyResponse:
    """Stand in for a handler that is not bound to an object yet; raise NotImplementedError."""
    raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Operation(Route):
    """A route of the API and its description for programs, as a decorator of its handler.

    data           the type of the envelope's data, or of a body without envelope
    summary        the purpose in a few words: the first paragraph of the handler's docstring
    description    the details: units, cost, failures; the other paragraphs of the docstring
    refusals       the codes that a client must expect, in addition to those of every route
    status         the HTTP status of success
    proofs         the accepted combinations of credentials, as names of PROOFS and X402; empty
                   for a route that is open to everyone
    scope          the scope that an API key needs; None if it takes no key, or any key
    price          the price of one call, if it is charged
    unit           what one credit pays for; "" for one call
    query          the type of the query, for `read_query`
    body           the type of the request's body
    media_type     the media type of success; only JSON has an envelope; for events, *data* has
                   the data of each event by name
    other_types    media types of files that the query can request instead
    is_conditional  the success response has an ETag; a client that has this ETag already gets 304,
                   for free
    takes_key      Idempotency-Key is supported; every route that takes payments supports it anyway
    error_format   the format of the bodies of failures

    The handler itself counts requests for the rate limit, by credential or by address.
    """

    endpoint: Endpoint = field(default=unbound, kw_only=True)
    data: type[Any]
    _: KW_ONLY
    summary: str = ""
    description: str = ""
    refusals: tuple[ErrorCode, ...] = ()
    status: int = 200
    proofs: tuple[tuple[str, ...], ...] = ()
    scope: Scope | None = None
    price: PriceRange = ONE_CREDIT
    unit: str = ""
    query: type[msgspec.Struct] | None = None
    body: Any = None
    media_type: str = JSON_TYPE
    other_types: tuple[str, ...] = ()
    is_conditional: bool = False
    takes_key: bool = False
    error_format: ErrorFormat = ENVELOPE
    limits_itself: bool = True

    def __call__(self, handler: Handler) -> Handler:
        """Return *handler*, marked with this operation and the text of its docstring."""
        first, _, rest = inspect.cleandoc(handler.__doc__ or "").partition("\n\n")
        summary = " ".join(first.split()).removesuffix(".")
        description = " ".join(rest.split())
        vars(handler)[HANDLER_MARK] = replace(self, summary=summary, description=description)
        return handler

    @property
    def path_params(self) -> list[str]:
        """The names of the variable segments of the path, in their order."""
        return [each.partition("}")[0] for each in self.path.split("/{")[1:]]

    @property
    def is_payable(self) -> bool:
        """Whether a single call of the operation can be paid for with a payment on chain."""
        return any(X402 in proof for proof in self.proofs)

    @property
    def takes_sign_in(self) -> bool:
        """Whether a wallet that has bought credits can sign in for the operation."""
        # This excludes purchases, which need a payment, and streams, which are not JSON.
        takes_credits = self.is_charged and ("creditToken",) in self.proofs
        return takes_credits and self.media_type == JSON_TYPE

    @property
    def cost(self) -> str:
        """The cost of a call in words: `free`, or for example `one credit or 0.0025 USD a page`."""
        if not self.is_charged:
            return "free"
        least, most = (f"{each.normalize():f}" for each in self.price)
        if least != most and not self.unit:
            return f"{least} to {most} USD"
        usd = f" or {least} USD" if self.is_payable else ""
        return f"one credit{usd} {self.unit}".strip()

    @property
    def text(self) -> str:
        """The description, with a sentence about the scope that an API key needs, if any."""
        text = self.description or self.summary
        return text if self.scope is None else f"{text} An API key needs the scope {self.scope}."

    @property
    def tag(self) -> str:
        """The name of the OpenAPI tag under which the operation is listed."""
        return next(tag.name for tag in TAGS if self.path.startswith(tag.start))

    @property
    def name(self) -> str:
        """The operation's unique name: its handler's name in camelCase."""
        verb, *words = str(self.endpoint.__name__).split("_")
        return verb + "".join(map(str.capitalize, words))


def sold_page(
    path: str,
    data: type[Any],
    *,
    query: type[msgspec.Struct],
    unit: str = "a page",
    other_types: tuple[str, ...] = (),
) -> Operation:
    """Return an operation that sells a page of data about a token, for a credit or a payment."""
    return Operation(
        "GET",
        path,
        data,
        unit=unit,
        refusals=OF_A_TOKEN,
        proofs=PAYERS,
        is_charged=True,
        takes_key=True,
        query=query,
        other_types=other_types,
        scope=Scope.TRADE_READ,
    )


def account_operation(  # noqa: PLR0913 - one argument for each part
    method: str,
    path: str,
    data: type[Any],
    scope: Scope,
    *codes: ErrorCode,
    body: Any = None,
    query: type[msgspec.Struct] | None = None,
    status: int = 200,
    takes_key: bool = False,
) -> Operation:
    """Return a free operation on the account of an API key's user; the key needs *scope*.

    codes    codes to expect, in addition to those that follow from the arguments
    """
    usual = [
        *(EVERY_ROUTE if body is None else WITH_BODY),
        *([ErrorCode.NOT_FOUND] if "{" in path else []),
        *([ErrorCode.IDEMPOTENCY_KEY_USED] if takes_key else []),
    ]
    return Operation(
        method,
        path,
        data,
        refusals=(*usual, *codes),
        proofs=KEY,
        scope=scope,
        body=body,
        query=query,
        status=status,
        takes_key=takes_key,
    )


def scope_of(request: Request) -> Scope:
    """Return the scope that an API key needs for the route that *request* has reached."""
    operation = request.found
    assert isinstance(operation, Operation), "expected a route that is an operation"
    assert operation.scope is not None, f"expected a scope of {operation.path}"
    return operation.scope


def operations_of(handlers: object, **values: object) -> list[Operation]:
    """Return the operations whose handlers are methods of *handlers*, in the order of the class.

    values    each value replaces `$` and its name in summaries and descriptions
    """
    found: list[Operation] = []
    for name, handler in vars(type(handlers)).items():
        operation = getattr(handler, HANDLER_MARK, None)
        if isinstance(operation, Operation):
            found.append(
                replace(
                    operation,
                    endpoint=getattr(handlers, name),
                    summary=Template(operation.summary).safe_substitute(values),
                    description=Template(operation.description).safe_substitute(values),
                )
            )
    return found
