"""Bodies of a route's failures: one envelope under /v1, two older shapes under /api."""

from collections.abc import Callable, Sequence
from typing import Annotated, Final, NamedTuple

import msgspec

from mintscope.base.clock import Clock
from mintscope.base.errors import (
    ErrorCode,
    InternalError,
    InvalidFields,
    MethodNotAllowed,
    RateLimited,
    ServiceError,
)
from mintscope.base.primitives import UnixMs, about
from mintscope.edges.api.wire import (
    ErrorBody,
    Failure,
    Wire,
    envelope_of,
    error_body,
)
from mintscope.edges.server.cors import Cors
from mintscope.edges.server.request import Request
from mintscope.edges.server.response import JSON, NO_STORE, Header, Response

GENERAL: Final = "general"
UNREAD_PATH: Final = "/v1/"  # where a refusal came before the path
RETRY_S: Final = {
    ErrorCode.DATA_STALE: 5,
    ErrorCode.SERVICE_UNAVAILABLE: 2,
    ErrorCode.PRICE_UNAVAILABLE: 5,  # as often as the source of a price is asked again
}
CODES: Final = {
    400: (
        ErrorCode.INVALID_TOKEN_ADDRESS, ErrorCode.INVALID_BUNDLE, ErrorCode.INVALID_PAYMENT,
        ErrorCode.VALIDATION_ERROR, ErrorCode.BAD_REQUEST,
    ),
    401: (
        ErrorCode.MISSING_TOKEN, ErrorCode.INVALID_TOKEN, ErrorCode.INVALID_PROOF,
        ErrorCode.INVALID_CREDENTIALS, ErrorCode.NOT_APPROVED, ErrorCode.INVALID_SECRET_FORMAT,
    ),
    402: (
        ErrorCode.PAYMENT_REQUIRED, ErrorCode.INSUFFICIENT_CREDITS, ErrorCode.PAYMENT_FAILED,
        ErrorCode.KEY_CAP_REACHED,
    ),
    403: (ErrorCode.INSUFFICIENT_SCOPE, ErrorCode.OWNER_ONLY),
    404: (
        ErrorCode.TOKEN_NOT_FOUND, ErrorCode.INSUFFICIENT_DATA, ErrorCode.ACCOUNT_NOT_FOUND,
        ErrorCode.NOT_FOUND,
    ),
    405: (ErrorCode.METHOD_NOT_ALLOWED,),
    408: (ErrorCode.REQUEST_TIMEOUT,),
    409: (
        ErrorCode.PAYMENT_ALREADY_USED, ErrorCode.ROTATED_RECENTLY, ErrorCode.NOTHING_TO_ROTATE,
        ErrorCode.DUPLICATE_APPLICATION, ErrorCode.KEY_ALREADY_EXISTS,
        ErrorCode.IDEMPOTENCY_KEY_USED,
    ),
    413: (ErrorCode.PAYLOAD_TOO_LARGE,),
    429: (ErrorCode.RATE_LIMITED,),
    431: (ErrorCode.HEADERS_TOO_LARGE,),
    500: (ErrorCode.INTERNAL_ERROR,),
    503: (
        ErrorCode.DATA_STALE, ErrorCode.SERVICE_UNAVAILABLE, ErrorCode.PRICE_UNAVAILABLE,
        ErrorCode.PAYMENT_PENDING, ErrorCode.PAYMENT_UNAVAILABLE,
    ),
}  # fmt: skip
UNAUTHORIZED: Final = 401
CHALLENGE: Final = b'Bearer realm="mintscope"'
STATUS: Final = {code: status for status, codes in CODES.items() for code in codes}


class Message(Wire):
    """A problem of one field."""

    field: Annotated[str, about('The field of the body, or "general" for all of it.', "email")]
    message: Annotated[str, about("The problem.", "expected an e-mail address")]


Status = Annotated[str, about("Always error.", "error")]
Messages = Annotated[list[Message], about("The problems, at least one.")]
RetryAfter = Annotated[int | msgspec.UnsetType, about("Seconds to wait, of a 429 alone.", 5)]


class ExchangeFailure(Wire, kw_only=True):
    """Failure of the exchange: it carries no code."""

    status: Status = "error"
    messages: Messages
    retry_after: RetryAfter = msgspec.UNSET


class AccountFailure(Wire, kw_only=True):
    """Failure of everything else under /api: the envelope's error and the messages."""

    success: Annotated[bool, about("Always false.", False)] = False  # noqa: FBT003 - an example
    status: Status = "error"
    error: Annotated[ErrorBody, about("The error.")]
    messages: Messages
    retry_after: RetryAfter = msgspec.UNSET


class ErrorFormat(NamedTuple):
    """How the failures of a route are written.

    body_type    the type of the body
    body         makes one of an error, the time and the request id
    hides_code   the code is not in it, and goes into X-Error-Code
    """

    body_type: type[Wire]
    body: Callable[[ServiceError, UnixMs, bytes], Wire]
    hides_code: bool = False

    def write(self, error: ServiceError, *, at: UnixMs, request_id: bytes) -> bytes:
        """Return the body of *error*."""
        return msgspec.json.encode(self.body(error, at, request_id))


def _messages(error: ServiceError) -> list[Message]:
    if isinstance(error, InvalidFields):
        return [Message(field, message) for field, message in error.messages]
    return [Message(GENERAL, str(error))]


def _retry_after(error: ServiceError) -> int | msgspec.UnsetType:
    return error.retry_after_s if isinstance(error, RateLimited) else msgspec.UNSET


def _of_exchange(error: ServiceError, _at: UnixMs, _request_id: bytes) -> ExchangeFailure:
    return ExchangeFailure(messages=_messages(error), retry_after=_retry_after(error))


def _of_account(error: ServiceError, _at: UnixMs, _request_id: bytes) -> AccountFailure:
    return AccountFailure(
        error=error_body(error),
        messages=_messages(error),
        retry_after=_retry_after(error),
    )


ENVELOPE: Final = ErrorFormat(Failure, envelope_of)
BOTH_SHAPES: Final = ErrorFormat(AccountFailure, _of_account)
MESSAGES_ONLY: Final = ErrorFormat(ExchangeFailure, _of_exchange, hides_code=True)


class ErrorWriter:
    """Writes errors in the format of the path, for any method.

    format_at   returns the format of a path's failures
    """

    def __init__(self, format_at: Callable[[str], ErrorFormat], clock: Clock) -> None:
        self._format_at = format_at
        self._clock = clock

    async def __call__(self, request: Request, error: Exception) -> Response:
        """Return the response of *error*; of a bug it shows nothing but the request id."""
        if not isinstance(error, ServiceError):
            error = InternalError()
        error_format = self._format_at(request.path)
        body = error_format.write(error, at=self._clock.now(), request_id=request.request_id)
        headers: list[Header] = [JSON, NO_STORE]
        if isinstance(error, MethodNotAllowed):
            headers.append((b"allow", error.allowed.encode()))
        if isinstance(error, RateLimited):
            headers.append((b"retry-after", b"%d" % error.retry_after_s))
        headers += _wait(error)
        if STATUS[error.code] == UNAUTHORIZED:
            headers.append(_challenge(error))
        if error_format.hides_code:
            headers.append((b"x-error-code", error.code.encode()))
        return Response(STATUS[error.code], body, tuple(headers))


def _challenge(error: ServiceError) -> Header:
    """Return how to authenticate.  Source: RFC 9110 section 11.6.1, RFC 6750 section 3."""
    is_presented = error.code is ErrorCode.INVALID_TOKEN
    return (b"www-authenticate", CHALLENGE + (b', error="invalid_token"' if is_presented else b""))


def write_refusal(
    error: ServiceError, *, path: bytes, at: UnixMs, request_id: bytes, cors: Sequence[Cors] = ()
) -> Response:
    """Return the response to what the server refuses before any route sees it.

    path   as far as it was read; none is taken for one of the API
    cors   says where pages of other origins may read it; the Origin may be among what was not read
    """
    error_format = BOTH_SHAPES if path.startswith(b"/api/") else ENVELOPE
    body = error_format.write(error, at=at, request_id=request_id)
    where = path.decode("latin-1") or UNREAD_PATH
    shown = [header for each in cors for header in each.headers(where)]
    return Response(STATUS[error.code], body, (JSON, NO_STORE, *_wait(error), *shown))


def _wait(error: ServiceError) -> list[Header]:
    """Return how long to wait where the service does not answer for now; payments say more."""
    wait_s = RETRY_S.get(error.code)
    return [] if wait_s is None else [(b"retry-after", b"%d" % wait_s)]
