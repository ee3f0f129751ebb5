"""Every body that crosses the wire, field for field as in the specification.

`data` of the token endpoint is `market.report.TokenReport`, encoded where the
reports are kept; its bytes are put into the envelope as they are.
"""

from functools import lru_cache
from typing import Annotated, Final, Literal

import msgspec

from mintscope.base.errors import ErrorCode, ServiceError
from mintscope.base.primitives import UnixMs
from mintscope.base.time import iso_time_ms
from mintscope.edges.server.request import Request
from mintscope.edges.server.response import NO_STORE, Response

timestamp: Final = lru_cache(maxsize=4)(iso_time_ms)  # a busy millisecond has many answers


class Wire(msgspec.Struct, rename="camel"):
    """Base of all bodies: snake_case here, camelCase on the wire."""


class Meta(Wire, omit_defaults=True):
    """`meta` of a /v1 envelope."""

    timestamp: str
    request_id: str | None = None


class ErrorBody(Wire):
    """`error` of a /v1 envelope."""

    code: ErrorCode
    message: str


class Failure(Wire, kw_only=True):
    """An error response."""

    success: bool = False
    error: ErrorBody
    meta: Meta


class Balance(Wire):
    """`data` of GET /v1/credits/balance."""

    balance: int


class Currency(Wire):
    """What bundles are paid in; prices are in its smallest unit."""

    asset: str
    name: str
    network: str
    decimals: int
    symbol: str


class BundleLine(Wire):
    """One bundle: `price` and `price_per_credit` in atoms, `price_usd` as text, exact."""

    credits: int
    price: int
    price_per_credit: int
    discount: str
    price_usd: str


class Bundles(Wire):
    """`data` of GET /v1/credits/bundles."""

    bundles: list[BundleLine]
    currency: Currency


class PurchaseQuery(Wire):
    """Query of POST /v1/credits/purchase."""

    bundle: Annotated[
        Literal[10, 50, 100, 500],
        msgspec.Meta(description="How many credits.", extra_json_schema={"type": "integer"}),
    ]


class Purchase(Wire, kw_only=True):
    """`data` of POST /v1/credits/purchase.

    token      the credit token that has the credits; absent where a user has them
    user_id    whose API key was sent along; absent for a credit token
    """

    token: str | msgspec.UnsetType = msgspec.UNSET
    credits: int
    price_paid: int
    user_id: int | msgspec.UnsetType = msgspec.UNSET


class HistoryLine(Wire):
    """What moved a balance, other than a spend: `at` in Unix seconds."""

    kind: str
    credits: int
    balance: int
    at: int


class History(Wire):
    """`data` of GET /v1/credits/history: the newest entries first, spends as one sum."""

    balance: int
    spent: int
    entries: list[HistoryLine]


class Rotated(Wire):
    """`data` of POST /v1/credits/rotate."""

    token: str
    credits: int


class Challenge(Wire):
    """`data` of POST /v1/credits/rotate/challenge: a text to sign, `expires_at` in Unix seconds."""

    challenge: str
    expires_at: int


class Claimed(Wire, forbid_unknown_fields=True):
    """Body of POST /v1/credits/rotate/challenge: the payment's transaction, and who paid."""

    purchase: str
    wallet: str


class Proof(Claimed):
    """Body of POST /v1/credits/rotate: the challenge, and the wallet's signature in base58."""

    challenge: str
    signature: str


class Health(Wire):
    """`data` of GET /v1/health and /readyz: each check with "ok" or what is wrong."""

    status: str
    version: str
    checks: dict[str, str]


class Alive(Wire):
    """`data` of GET /healthz."""

    status: str


def success(
    request: Request, data: Wire, *, at: UnixMs, status: int = 200, names_request: bool = False
) -> Response:
    """Return the response whose envelope holds *data*, made at *at*; no cache keeps it."""
    request.response_headers.append(NO_STORE)
    request_id = request.request_id.decode() if names_request else None
    meta = Meta(timestamp=timestamp(at), request_id=request_id)
    return Response(status, msgspec.json.encode({"success": True, "data": data, "meta": meta}))


def success_with_body(data: bytes, *, at: UnixMs, request_id: bytes) -> bytes:
    """Return the envelope around *data*, which is JSON already."""
    return b'{"success":true,"data":%b,"meta":{"timestamp":"%b","requestId":"%b"}}' % (
        data,
        timestamp(at).encode(),
        request_id,
    )


def envelope_of(error: ServiceError, at: UnixMs, request_id: bytes) -> Failure:
    """Return the envelope that tells *error*."""
    return Failure(
        error=ErrorBody(code=error.code, message=str(error)),
        meta=Meta(timestamp=timestamp(at), request_id=request_id.decode()),
    )
