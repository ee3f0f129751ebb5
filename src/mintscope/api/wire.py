"""The envelope, its bodies for credits and health, and the cursors of pagination.

`data` of the token endpoint is `market.report.TokenReport`, encoded where the
reports are stored; these bytes are put into the envelope unchanged.

Each field of a body has a description and a range (`Annotated[int, msgspec.Meta(...)]`).
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from mintscope.kit.errors import UNPARSABLE, BadRequest, ErrorCode, ServiceError
from mintscope.kit.http.request import Request, UnreadableBody, parse_shape
from mintscope.kit.http.response import NO_STORE, Response
from mintscope.kit.primitives import ADDRESS, SIGNATURE, UnixMs, about
from mintscope.kit.time import iso_time_ms
from mintscope.market.coverage import MISSED_NAMED, Coverage, ReadShare, missed_programs, totals
from mintscope.payments.protocol.envelope import MAINNET, SCHEME
from mintscope.payments.protocol.headers import VERSION
from mintscope.solana.blocks import USDC, WSOL

EXAMPLE_TIME: Final = "2025-11-18T10:00:00.000Z"
EXAMPLE_WALLET: Final = "7fUAJdStEuGbc3sM84cKRL6yYaaSstyLSU4ve5oovLS7"
EXAMPLE_TOKEN: Final = "svc_credit_" + "0123456789abcdef" * 4
EXAMPLE_SIGNATURE: Final = "5" * 87
EXAMPLE_CHALLENGE: Final = "https://api.example asks this wallet to prove a purchase ..."

VERSION_2_ONLY: Final = (
    "x402 version 2, not 1: use @x402/fetch in place of x402-fetch, or the Python package x402 2.x"
)

timestamp: Final = lru_cache(maxsize=4)(iso_time_ms)  # many responses share a millisecond


class Wire(msgspec.Struct, rename="camel"):
    """The base class of all bodies: names are snake_case in Python, camelCase on the wire."""


class Meta(Wire, omit_defaults=True):
    """The metadata in an envelope."""

    timestamp: Annotated[str, about("The time of the response, ISO 8601, UTC.", EXAMPLE_TIME)]
    request_id: Annotated[
        str | None,
        about("The id of this request; absent if X-Request-Id has it.", "5f0c1d2e0000002a"),
    ] = None


class AcceptedAsset(Wire):
    """One way to pay: an exact amount of one token, in atoms."""

    asset: Annotated[str, about("The token's mint, base58.", USDC)]
    symbol: Annotated[str, about("The token's symbol.", "USDC")]
    decimals: Annotated[int, about("Its decimals: 10 to this power atoms are one token.", 6)]
    amount: Annotated[str, about("The price in atoms, as text.", "2500")]
    network: Annotated[str, about("The chain, CAIP-2.", MAINNET)]
    pay_to: Annotated[str, about("The wallet that is paid, base58.", EXAMPLE_WALLET)]


class HowToPay(Wire):
    """Details of a 402: the price, the accepted tokens, and the links to continue with."""

    price_usd: Annotated[str, about("The price in US dollars, exact, as text.", "0.0025")]
    accepts: Annotated[
        list[AcceptedAsset],
        about(
            "The tokens of a payment; PAYMENT-REQUIRED has the whole terms. Empty: only credits."
        ),
    ]
    read: Annotated[
        str, about("The page that explains how to pay.", "https://api.example/llms.txt")
    ]
    buy: Annotated[
        str,
        about(
            "Where credits are bought by POST.", "https://api.example/v1/credits/purchase?bundle=10"
        ),
    ]
    trial: Annotated[
        str | UnsetType,
        about(
            "The URL of the same report, which is free a few times a day.",
            f"https://api.example/v1/trial/{WSOL}",
        ),
    ] = UNSET
    description: Annotated[
        str | UnsetType, about("The product.", "The state of one token now.")
    ] = UNSET
    extensions: Annotated[
        dict[str, Any] | UnsetType,
        about(
            (
                "Extensions of x402: `bazaar` describes the request and the response,"
                " `sign-in-with-x` has the challenge."
            ),
            {},
        ),
    ] = UNSET


class ErrorBody(Wire):
    """The error of a failed request."""

    code: Annotated[ErrorCode, about("The reason, for programs.")]
    message: Annotated[str, about("The reason as a sentence, for people.", "Nothing was charged.")]
    details: Annotated[
        HowToPay | msgspec.UnsetType,
        about("How to pay; present in a 402 that a payment resolves."),
    ] = msgspec.UNSET


class Version2Only(Wire):
    """The message for clients of x402 version 1, which read `accepts` first and cannot pay."""

    scheme: Annotated[str, about("The scheme of payments.", "exact")]
    network: Annotated[str, about("The version of x402 to use, in words.", VERSION_2_ONLY)]


class Failure(Wire, kw_only=True):
    """The body of an error response."""

    success: Annotated[bool, about("Always false.", False)] = False  # noqa: FBT003 - an example
    error: Annotated[ErrorBody, about("The error.")]
    meta: Annotated[Meta, about("The metadata of the answer.")]
    x402_version: Annotated[
        int | UnsetType, about("The version of x402 that payments are of, with a 402.", 2)
    ] = UNSET
    accepts: Annotated[
        list[Version2Only] | UnsetType,
        about("With a 402, for clients of version 1 alone: the terms are in PAYMENT-REQUIRED."),
    ] = UNSET


class Balance(Wire):
    """The number of credits that the caller has left."""

    balance: Annotated[int, about("Credits left.", 42)]


class Currency(Wire):
    """The currency of bundles; prices are in its smallest unit."""

    asset: Annotated[str, about("The payment token's mint, base58.", USDC)]
    name: Annotated[str, about("Its name.", "USD Coin")]
    network: Annotated[str, about("The chain, CAIP-2.", MAINNET)]
    decimals: Annotated[int, about("Its decimals: 10 to this power atoms are one token.", 6)]
    symbol: Annotated[str, about("Its symbol.", "USDC")]


class BundleLine(Wire):
    """One bundle: a number of credits that are sold together."""

    credits: Annotated[int, about("How many credits it holds.", 10)]
    price: Annotated[int, about("The price in atoms of the currency.", 25_000)]
    price_per_credit: Annotated[int, about("The price of each credit, in atoms.", 2_500)]
    discount: Annotated[str, about("The discount against single requests, in percent.", "0%")]
    price_usd: Annotated[str, about("The price in US dollars, exact, as text.", "0.025")]


class PricedIn(Wire):
    """The prices of all bundles in another accepted token."""

    currency: Annotated[Currency, about("The token that these prices are in.")]
    bundles: Annotated[list[BundleLine], about("The bundles, the smallest first.")]


class Bundles(Wire):
    """The bundles for sale, at the prices of this minute."""

    bundles: Annotated[list[BundleLine], about("The bundles, the smallest first.")]
    currency: Annotated[Currency, about("The token that the prices are in.")]
    also: Annotated[
        list[PricedIn] | msgspec.UnsetType,
        about("The prices in other accepted tokens; absent if only one token is accepted."),
    ] = msgspec.UNSET


WhichCandles: TypeAlias = Annotated[
    Literal["all", "closed"],
    msgspec.Meta(
        description="closed: without the open candle, so indicators never change later.",
    ),
]
IsPartial: TypeAlias = Annotated[
    bool,
    msgspec.Meta(
        description="true: a report from the first priced swap on, with null for indicators that"
        " need more candles.",
    ),
]


FramesAsked: TypeAlias = Annotated[
    list[Literal["s15", "m30", "h4", "d1"]],
    msgspec.Meta(max_length=4, description="Timeframes besides m1 to h1."),
]


class ReportQuery(Wire, kw_only=True):
    """The options that all requests for reports have."""

    candles: WhichCandles = "all"
    partial: IsPartial = False
    timeframes: FramesAsked = msgspec.field(default_factory=list)


class TokenQuery(ReportQuery):
    """Query of GET /v1/token/{tokenAddress}."""

    # There is no pattern, because a 402 has only 1,200 bytes for the route's description.
    at: Annotated[str, msgspec.Meta(description="As of then: Unix seconds, or slot:N.")] = ""


class PurchaseQuery(Wire):
    """Query of POST /v1/credits/purchase."""

    bundle: Annotated[
        Literal[10, 50, 100, 500],
        msgspec.Meta(
            description="How many credits.", examples=[10], extra_json_schema={"type": "integer"}
        ),
    ]


class Purchase(Wire, kw_only=True):
    """The result of a purchase: the credits, and the credit token or user that has them."""

    token: Annotated[
        str | msgspec.UnsetType,
        about(
            "The credit token that has the credits; absent if an account has them.", EXAMPLE_TOKEN
        ),
    ] = msgspec.UNSET
    credits: Annotated[int, about("How many credits were bought.", 10)]
    price_paid: Annotated[
        int, about("The amount that arrived, in atoms of the token that was paid with.", 25_000)
    ]
    user_id: Annotated[
        int | msgspec.UnsetType,
        about(
            "The user of the API key that was sent along; absent for a credit token.",
            7,
            instead_of="token",
        ),
    ] = msgspec.UNSET


class HistoryLine(Wire):
    """An entry in the history of a balance, other than a spend."""

    kind: Annotated[str, about("The kind of entry: payment, grant, top_up, rotate, ...", "payment")]
    credits: Annotated[int, about("The change in credits; negative if credits left.", 10)]
    balance: Annotated[int, about("Credits after it.", 10)]
    at: Annotated[int, about("The time of the entry, Unix seconds.", 1_763_460_000)]


class DayLine(Wire):
    """The credits that requests took on one day, less those given back on that day."""

    day: Annotated[int, about("When the day began, in UTC, Unix seconds.", 1_763_424_000)]
    credits: Annotated[int, about("Credits taken, less what was given back.", 3)]


class History(Wire):
    """The credits that a credit token or account received and spent."""

    balance: Annotated[int, about("Credits left.", 7)]
    spent: Annotated[int, about("Credits spent by requests, all together.", 3)]
    entries: Annotated[list[HistoryLine], about("Other entries of the balance, newest first.")]
    days: Annotated[
        list[DayLine], about("The newest 30 days on which credits were spent, newest first.")
    ]


class Rotated(Wire):
    """The credit token that the credits were moved to."""

    token: Annotated[str, about("The new credit token; it is shown once.", EXAMPLE_TOKEN)]
    credits: Annotated[int, about("Credits on it.", 7)]


class Challenge(Wire):
    """A text that a wallet signs to claim a purchase."""

    challenge: Annotated[
        str, about("The text; sign its UTF-8 bytes with the wallet that paid.", EXAMPLE_CHALLENGE)
    ]
    expires_at: Annotated[
        int, about("The time until which it is valid, Unix seconds.", 1_763_460_300)
    ]


class Claimed(Wire, forbid_unknown_fields=True):
    """The purchase that a wallet claims."""

    purchase: Annotated[
        str,
        about(
            "The signature of the payment's transaction, base58.", EXAMPLE_SIGNATURE, form=SIGNATURE
        ),
    ]
    wallet: Annotated[str, about("The wallet that paid, base58.", EXAMPLE_WALLET, form=ADDRESS)]


class Proof(Claimed):
    """The proof that the caller owns a purchase."""

    challenge: Annotated[str, about("The text of the challenge, as it came.", EXAMPLE_CHALLENGE)]
    signature: Annotated[
        str, about("Its signature by the wallet, base58.", EXAMPLE_SIGNATURE, form=SIGNATURE)
    ]


class MissedCalls(Wire):
    """A program, and the number of its recent calls that could not be read."""

    program: Annotated[
        str, about("Its name, or address if unnamed; other: the rest.", "raydium_clmm")
    ]
    calls: Annotated[int, about("Its calls that exchanged tokens, or should have.", 4_120)]
    missed: Annotated[int, about("Those of them that could not be read.", 37)]
    reasons: Annotated[
        dict[str, int],
        about(
            "How many for each reason, the most frequent first.",
            {"unknown_instruction": 30, "no_movement": 7},
        ),
    ]


class HealthCoverage(
    Wire,
    rename={"from_": "from", "missing_slots": "missingSlots", "skipped_slots": "skippedSlots"},
):
    """The share of recent token exchanges that was read, and the programs with missed calls."""

    from_: Annotated[
        int,
        about(
            "The start of the count: the start of the hour before that of `to`, Unix seconds.",
            1763452800,
        ),
    ]
    to: Annotated[int, about("Block time as of which it was counted.", 1763460000)]
    overall: Annotated[ReadShare, about("Of all calls that exchanged tokens.")]
    missing_slots: Annotated[int, about("Slots of that time that no node could deliver.", 0)]
    skipped_slots: Annotated[int, about("Slots of that time proven to hold no block.", 12)]
    missed: Annotated[
        list[MissedCalls],
        about("At most ten programs, those with the most missed volume, then calls, first."),
    ]


class Health(Wire):
    """The health of the service."""

    status: Annotated[str, about("ok, or degraded if a check fails.", "ok")]
    version: Annotated[str, about("The version of mintscope.", "0.1.0")]
    checks: Annotated[
        dict[str, str],
        about('Each check with "ok", or with the problem.', {"store": "ok", "data": "ok"}),
    ]
    coverage: Annotated[
        HealthCoverage | msgspec.UnsetType,
        about("The coverage of the last hours; absent after a start until it has been counted."),
    ] = msgspec.UNSET


class Alive(Wire):
    """The response of a process that is running."""

    status: Annotated[str, about("Always alive.", "alive")]


def success(
    request: Request, data: Wire, *, at: UnixMs, status: int = 200, names_request: bool = False
) -> Response:
    """Return *data*, created at *at*, in its envelope, as a response that no cache may store.

    names_request   whether the envelope contains the request id
    """
    request.response_headers.append(NO_STORE)
    request_id = request.request_id.decode() if names_request else None
    meta = Meta(timestamp=timestamp(at), request_id=request_id)
    return Response(status, msgspec.json.encode({"success": True, "data": data, "meta": meta}))


def success_with_body(data: bytes, *, at: UnixMs, request_id: bytes) -> bytes:
    """Return the body of a successful response; *data* is the JSON of its field `data`."""
    return b'{"success":true,"data":%b,"meta":{"timestamp":"%b","requestId":"%b"}}' % (
        data,
        timestamp(at).encode(),
        request_id,
    )


def health_coverage(coverage: Coverage | None) -> HealthCoverage | msgspec.UnsetType:
    """Return *coverage* in the form of /v1/health; UNSET if *coverage* is None."""
    if coverage is None:
        return msgspec.UNSET
    return HealthCoverage(
        from_=coverage.since,
        to=coverage.time,
        overall=ReadShare(*totals(coverage.rows).shares),
        missing_slots=coverage.missing_slots,
        skipped_slots=coverage.skipped_slots,
        missed=[
            MissedCalls(
                program=one.program,
                calls=one.calls,
                missed=one.missed.calls,
                reasons=dict(one.reasons),
            )
            for one in missed_programs(coverage.rows)[:MISSED_NAMED]
        ],
    )


def error_body(error: ServiceError) -> ErrorBody:
    """Return `error` of a response body: code, message and, if *error* has any, payment terms."""
    details = error.details if isinstance(error.details, HowToPay) else msgspec.UNSET
    return ErrorBody(code=error.code, message=str(error), details=details)


def envelope_of(error: ServiceError, at: UnixMs, request_id: bytes) -> Failure:
    """Return the body of a response that reports *error*, in the envelope."""
    body = error_body(error)
    is_for_sale = isinstance(body.details, HowToPay) and bool(body.details.accepts)
    return Failure(
        error=body,
        meta=Meta(timestamp=timestamp(at), request_id=request_id.decode()),
        x402_version=VERSION if is_for_sale else UNSET,
        accepts=[Version2Only(SCHEME, VERSION_2_ONLY)] if is_for_sale else UNSET,
    )


TEXT_MAX: Final = 512
INTEGERS: Final = 2**63
EXPECTED: Final = "cursor: expected the nextCursor of an answer to the same request"

Position = TypeVar("Position", bound=msgspec.Struct)


def encode_cursor(position: msgspec.Struct) -> str:
    """Return the cursor that encodes *position*, the end of a page."""
    return urlsafe_b64encode(msgspec.json.encode(position)).decode().rstrip("=")


def decode_cursor(text: str, shape: type[Position]) -> Position:
    """Return the position in the cursor *text*.

    shape    has a `tag`, so that cursors of different lists cannot be confused
    Raises   BadRequest
    """
    if len(text) > TEXT_MAX:
        raise BadRequest(EXPECTED)
    try:  # more "=" than needed are ignored
        read = msgspec.json.decode(urlsafe_b64decode(text + "=="), type=shape)
    except (ValueError, *UNPARSABLE) as cause:
        raise BadRequest(EXPECTED) from cause
    # Positions contain integers of a store, which all fit in 64 bits.
    numbers = (value for value in msgspec.structs.astuple(read) if isinstance(value, int))
    if not all(-INTEGERS <= number < INTEGERS for number in numbers):
        raise BadRequest(EXPECTED)
    return read


T = TypeVar("T", bound=Wire)


async def read_body(request: Request, shape: type[T]) -> T:
    """Return the body of *request* as *shape*.  Raises BadRequest, PayloadTooLarge."""
    try:
        return parse_shape(request, await request.body(), shape)
    except UnreadableBody as flaw:
        raise BadRequest(str(flaw)) from flaw
