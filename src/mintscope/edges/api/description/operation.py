"""The operations of the API: routes, and their descriptions for programs."""

from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec

from mintscope.base.errors import ErrorCode
from mintscope.core.accounts.keys.scope import Scope
from mintscope.core.market.updates.server_sent import CONTENT_TYPE
from mintscope.core.payments.pricing.price_list import BUNDLES, REQUEST_USD
from mintscope.edges.api.failures import ENVELOPE, ErrorFormat
from mintscope.edges.server.routes import Route

JSON_TYPE: Final = "application/json"
EVENTS_TYPE: Final = CONTENT_TYPE.decode()
# The codes that routes of one kind share.
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
X402: Final = "x402"  # the proof that is a payment


class PriceRange(NamedTuple):
    """The most that one call of an operation costs, in USD."""

    least: Decimal
    most: Decimal


ONE_CREDIT: Final = PriceRange(REQUEST_USD, REQUEST_USD)
ANY_BUNDLE: Final = PriceRange(BUNDLES[0].usd, BUNDLES[-1].usd)


class Tag(NamedTuple):
    """A group of operations; *start* is what their paths begin with."""

    start: str
    name: str
    description: str


TAGS: Final = (
    Tag("/v1/credits", "Credits", "Prepaid credits: buy, look after and move them."),
    Tag("/v1/account", "Accounts", "API keys of agents and people."),
    Tag("/v1/groups", "Watchlists", "Lists of mints that an account keeps."),
    Tag("/v1/signals", "Signals", "Alert rules over the numbers of a report."),
    Tag("/v1/me", "Accounts", "API keys of agents and people."),
    Tag("/api/", "Accounts", "API keys of agents and people."),
    Tag("/v1/health", "Service", "How well the service works."),
    Tag("/v1/", "Market data", "Prices, indicators and what else is known of Solana tokens."),
    Tag("/", "Service", "How well the service works."),
)


API_KEY: Final = "apiKey"
# Areas of scopes, by the beginning of a path: the first that fits.
AREAS: Final = (
    ("/v1/account/wallets", "wallets"),
    ("/v1/account/payments", "wallets"),
    ("/v1/account", "trade"),
    ("/v1/groups", "groups"),
    ("/v1/signals", "signals"),
    ("/v1/credits", "trade"),
    ("/v1/token", "trade"),
    ("/v1/screen", "trade"),
    ("/v1/stream", "trade"),
)
READ_BY_POST: Final = frozenset({"/v1/tokens/batch", "/v1/screen"})


@dataclass(frozen=True, slots=True)
class Operation(Route):
    """A route of the API, and its description for programs.

    data           the type of the envelope's data, or of a body without envelope
    summary        what it is for, in a few words
    description    the same in sentences: units, cost, what to do when it fails
    refusals       the codes a client must expect, besides those of every route
    status         of its success
    proofs         what it may be called with, as names of PROOFS; each an
                   alternative, none for a route that is open to everyone
    price          of one call, where it is charged
    unit           what a credit is taken for, where that is not one call
    query          the shape of its query, as `data.query.read_query` reads it
    body           the type of the request's body
    media_type     of its success; what is not JSON has no envelope; *data* of events has the data
                   of each by its name
    is_conditional  its success has an ETag, and is 304, free, for a client that names it
    takes_key      Idempotency-Key is honoured; it is wherever a payment is taken
    error_format   what its failures look like; there is an envelope where they have one

    Operations count their requests themselves: by credential, or by address.
    """

    data: type[Any]
    summary: str
    _: KW_ONLY
    description: str = ""
    refusals: tuple[ErrorCode, ...] = ()
    status: int = 200
    proofs: tuple[tuple[str, ...], ...] = ()
    price: PriceRange = ONE_CREDIT
    unit: str = ""
    query: type[msgspec.Struct] | None = None
    body: Any = None
    media_type: str = JSON_TYPE
    is_conditional: bool = False
    takes_key: bool = False
    error_format: ErrorFormat = ENVELOPE
    limits_itself: bool = True

    @property
    def path_params(self) -> list[str]:
        """The names of the variable segments."""
        return [each.partition("}")[0] for each in self.path.split("/{")[1:]]

    @property
    def is_payable(self) -> bool:
        """Whether a payment of its own may be sent with it."""
        return any(X402 in proof for proof in self.proofs)

    @property
    def takes_sign_in(self) -> bool:
        """Whether a wallet that has bought credits may sign in for it."""
        takes_credits = self.is_charged and ("creditToken",) in self.proofs
        return takes_credits and self.media_type == JSON_TYPE

    @property
    def cost(self) -> str:
        """The cost of a call, in words."""
        if not self.is_charged:
            return "free"
        least, most = (f"{each.normalize():f}" for each in self.price)
        if least != most and not self.unit:
            return f"{least} to {most} USD"
        usd = f" or {least} USD" if self.is_payable else ""
        return f"one credit{usd} {self.unit}".strip()

    @property
    def scope(self) -> Scope | None:
        """The scope that an API key needs for it; None if it takes no key, or any."""
        area = next((area for start, area in AREAS if self.path.startswith(start)), None)
        if area is None or not any(API_KEY in proof for proof in self.proofs):
            return None
        is_read = self.method == "GET" or self.path in READ_BY_POST
        return Scope(f"{area}:{'read' if is_read else 'write'}")

    @property
    def text(self) -> str:
        """The description, with the scope that an API key needs."""
        text = self.description or self.summary
        return text if self.scope is None else f"{text} An API key needs the scope {self.scope}."

    @property
    def tag(self) -> str:
        """The name of its group."""
        return next(tag.name for tag in TAGS if self.path.startswith(tag.start))

    @property
    def name(self) -> str:
        """Its name among all operations: that of what answers, as programs write names."""
        verb, *words = str(self.endpoint.__name__).split("_")
        return verb + "".join(map(str.capitalize, words))
