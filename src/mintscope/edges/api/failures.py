"""What a route's failures look like: one envelope under /v1, two older shapes under /api."""

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from mintscope.base.errors import InvalidFields, RateLimited, ServiceError
from mintscope.base.primitives import UnixMs
from mintscope.edges.api.wire import ErrorBody, Failure, Wire, envelope_of

GENERAL: Final = "general"


class Message(Wire):
    """What is wrong with one field of the body, or with all of it ("general")."""

    field: str
    message: str


class ExchangeFailure(Wire, kw_only=True):
    """Failure of the exchange: it carries no code; `retry_after` in seconds, of a 429 alone."""

    status: str = "error"
    messages: list[Message]
    retry_after: int | msgspec.UnsetType = msgspec.UNSET


class AccountFailure(Wire, kw_only=True):
    """Failure of everything else under /api: the envelope's error and the messages."""

    success: bool = False
    status: str = "error"
    error: ErrorBody
    messages: list[Message]
    retry_after: int | msgspec.UnsetType = msgspec.UNSET


class Failing(NamedTuple):
    """How the failures of a route are written.

    body_type    the type of the body
    body         makes one of an error, the time and the request id
    hides_code   the code is not in it, and goes into X-Error-Code
    """

    body_type: type[Wire]
    body: Callable[[ServiceError, UnixMs, bytes], Wire]
    hides_code: bool = False

    def write(self, error: ServiceError, *, at: UnixMs, request_id: bytes) -> bytes:
        """Return the body that tells *error*."""
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
        error=ErrorBody(code=error.code, message=str(error)),
        messages=_messages(error),
        retry_after=_retry_after(error),
    )


ENVELOPE: Final = Failing(Failure, envelope_of)
BOTH_SHAPES: Final = Failing(AccountFailure, _of_account)
MESSAGES_ONLY: Final = Failing(ExchangeFailure, _of_exchange, hides_code=True)
