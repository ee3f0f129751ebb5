"""The errors of the service, and one type for all errors in untrusted input.

The message of a ServiceError is sent to the client.  Details for the operator belong in
`raise ... from cause` or `add_note`.  `api.failures` has the table of HTTP statuses.

Nodes, price feeds, sellers and files may send anything: text that is not UTF-8, JSON that is nested
too deep, numbers that are too large, invalid base64, control characters of a terminal.
"""

from base64 import b64decode
from collections.abc import Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import ClassVar, Final, NamedTuple, TypeVar

import msgspec
from typing_extensions import override

ADDRESS_SHOWN_MAX: Final = 50


class ErrorCode(StrEnum):
    """The error codes of the API: those of its specification first, then codes that were added."""

    INVALID_TOKEN_ADDRESS = "INVALID_TOKEN_ADDRESS"
    TOKEN_NOT_FOUND = "TOKEN_NOT_FOUND"
    INSUFFICIENT_DATA = "INSUFFICIENT_DATA"
    MISSING_TOKEN = "MISSING_TOKEN"
    INVALID_TOKEN = "INVALID_TOKEN"
    PAYMENT_REQUIRED = "PAYMENT_REQUIRED"
    INSUFFICIENT_CREDITS = "INSUFFICIENT_CREDITS"
    RATE_LIMITED = "RATE_LIMITED"
    DATA_STALE = "DATA_STALE"
    SERVICE_UNAVAILABLE = "SERVICE_UNAVAILABLE"
    INVALID_BUNDLE = "INVALID_BUNDLE"
    INVALID_PAYMENT = "INVALID_PAYMENT"
    PAYMENT_FAILED = "PAYMENT_FAILED"
    PAYMENT_ALREADY_USED = "PAYMENT_ALREADY_USED"
    PAYMENT_PENDING = "PAYMENT_PENDING"
    PAYMENT_UNAVAILABLE = "PAYMENT_UNAVAILABLE"
    PRICE_UNAVAILABLE = "PRICE_UNAVAILABLE"
    INVALID_PROOF = "INVALID_PROOF"
    ROTATED_RECENTLY = "ROTATED_RECENTLY"
    NOTHING_TO_ROTATE = "NOTHING_TO_ROTATE"
    VALIDATION_ERROR = "VALIDATION_ERROR"
    DUPLICATE_APPLICATION = "DUPLICATE_APPLICATION"
    INVALID_CREDENTIALS = "INVALID_CREDENTIALS"
    NOT_APPROVED = "NOT_APPROVED"
    INVALID_SECRET_FORMAT = "INVALID_SECRET_FORMAT"
    KEY_ALREADY_EXISTS = "KEY_ALREADY_EXISTS"
    ACCOUNT_NOT_FOUND = "ACCOUNT_NOT_FOUND"
    INSUFFICIENT_SCOPE = "INSUFFICIENT_SCOPE"
    KEY_CAP_REACHED = "KEY_CAP_REACHED"
    OWNER_ONLY = "OWNER_ONLY"
    IDEMPOTENCY_KEY_USED = "IDEMPOTENCY_KEY_USED"
    BAD_REQUEST = "BAD_REQUEST"
    NOT_FOUND = "NOT_FOUND"
    METHOD_NOT_ALLOWED = "METHOD_NOT_ALLOWED"
    REQUEST_TIMEOUT = "REQUEST_TIMEOUT"
    PAYLOAD_TOO_LARGE = "PAYLOAD_TOO_LARGE"
    HEADERS_TOO_LARGE = "HEADERS_TOO_LARGE"
    INTERNAL_ERROR = "INTERNAL_ERROR"


class ServiceError(Exception):
    """A failure that the client has caused or must know about; *details* are for programs."""

    code: ClassVar[ErrorCode]
    text: ClassVar[str]  # the default message
    details: object = None

    @override
    def __init_subclass__(cls, *, code: ErrorCode, text: str = "") -> None:
        cls.code = code
        cls.text = text

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.text)


class InvalidTokenAddress(ServiceError, code=ErrorCode.INVALID_TOKEN_ADDRESS):
    """The token address is not base58 of 32 bytes."""

    def __init__(self, text: str) -> None:
        shown = text if len(text) <= ADDRESS_SHOWN_MAX else text[:ADDRESS_SHOWN_MAX] + "..."
        super().__init__(
            "expected a token mint address, base58 of 32 bytes (32 to 44 characters);"
            f" was {shown!r}"
        )


class TokenNotFound(ServiceError, code=ErrorCode.TOKEN_NOT_FOUND):
    """The mint is well formed but not tracked."""


class InsufficientData(ServiceError, code=ErrorCode.INSUFFICIENT_DATA):
    """The mint is tracked, but lacks the data for this answer."""


class MissingToken(ServiceError, code=ErrorCode.MISSING_TOKEN):
    """A required Authorization header is absent or unusable."""


class InvalidToken(ServiceError, code=ErrorCode.INVALID_TOKEN):
    """The bearer value is not a valid credential here."""


class PaymentRequired(ServiceError, code=ErrorCode.PAYMENT_REQUIRED):
    """No payment or credential that can pay was sent."""


class InsufficientCredits(ServiceError, code=ErrorCode.INSUFFICIENT_CREDITS):
    """The credential is valid, but has too few credits."""


class RateLimited(ServiceError, code=ErrorCode.RATE_LIMITED):
    """Too many requests: wait as many seconds as Retry-After says."""

    def __init__(self, retry_after_s: int, text: str = "Too many requests") -> None:
        seconds = "second" if retry_after_s == 1 else "seconds"
        super().__init__(f"{text}: wait {retry_after_s} {seconds} before retrying.")
        self.retry_after_s = retry_after_s


class DataStale(ServiceError, code=ErrorCode.DATA_STALE):
    """The newest data is too old to be sold."""


class ServiceUnavailable(ServiceError, code=ErrorCode.SERVICE_UNAVAILABLE):
    """The service cannot answer this request now."""


class InvalidBundle(ServiceError, code=ErrorCode.INVALID_BUNDLE):
    """No bundle of this size is for sale."""


class InvalidPayment(ServiceError, code=ErrorCode.INVALID_PAYMENT):
    """The payment header is unreadable or not accepted here; nothing was charged."""


class PriceUnavailable(ServiceError, code=ErrorCode.PRICE_UNAVAILABLE):
    """There is no price to sell at; credits can still be spent."""


class PaymentFailed(ServiceError, code=ErrorCode.PAYMENT_FAILED):
    """The payment is refused, or failed on chain; the payer was not charged."""


class PaymentAlreadyUsed(ServiceError, code=ErrorCode.PAYMENT_ALREADY_USED):
    """The payment, or its redelivery key, belongs to an earlier request."""


class PaymentPending(ServiceError, code=ErrorCode.PAYMENT_PENDING):
    """The payment was sent, but its outcome is not known yet."""


class PaymentUnavailable(ServiceError, code=ErrorCode.PAYMENT_UNAVAILABLE):
    """No payment can be taken or looked up now."""


class InvalidProof(ServiceError, code=ErrorCode.INVALID_PROOF):
    """The proof has expired, or does not prove what the caller claims."""


class NothingToRotate(ServiceError, code=ErrorCode.NOTHING_TO_ROTATE):
    """There are no credits to move, or the API key was rotated before."""


class RotatedRecently(ServiceError, code=ErrorCode.ROTATED_RECENTLY):
    """The credits were moved, or bought and used, too recently to be moved by a wallet."""


class FieldMessage(NamedTuple):
    """A problem with one field of a body, or with the whole body ("general")."""

    field: str
    message: str


class InvalidFields(ServiceError, code=ErrorCode.VALIDATION_ERROR):
    """Fields are missing, or have invalid values."""

    def __init__(self, messages: Sequence[FieldMessage]) -> None:
        super().__init__("; ".join(f"{field}: {message}" for field, message in messages))
        self.messages = tuple(messages)


class DuplicateApplication(ServiceError, code=ErrorCode.DUPLICATE_APPLICATION):
    """An application for this e-mail address already exists, in some state."""

    def __init__(self) -> None:
        super().__init__("There is an application for this e-mail address already.")


INVALID_CREDENTIALS_TEXT: Final = (
    "The e-mail address or the secret is wrong, or the application is not approved yet."
)


class InvalidCredentials(
    ServiceError, code=ErrorCode.INVALID_CREDENTIALS, text=INVALID_CREDENTIALS_TEXT
):
    """No application has this e-mail address and this secret."""


class NotApproved(ServiceError, code=ErrorCode.NOT_APPROVED, text=INVALID_CREDENTIALS_TEXT):
    """The secret is right, but the application is not approved."""


class InvalidSecretFormat(
    ServiceError, code=ErrorCode.INVALID_SECRET_FORMAT, text=INVALID_CREDENTIALS_TEXT
):
    """The text cannot be a secret of this service."""


class KeyAlreadyExists(ServiceError, code=ErrorCode.KEY_ALREADY_EXISTS):
    """The secret was exchanged before."""

    def __init__(self) -> None:
        super().__init__(
            "An API key was already issued for this application; it cannot be shown again."
        )


class AccountNotFound(ServiceError, code=ErrorCode.ACCOUNT_NOT_FOUND):
    """The account of this application was removed."""

    def __init__(self) -> None:
        super().__init__("The account of this application was removed.")


class InsufficientScope(ServiceError, code=ErrorCode.INSUFFICIENT_SCOPE):
    """The API key is valid, but lacks the scope for this request."""

    def __init__(self, *, scope: str) -> None:
        super().__init__(
            f"expected an API key with the scope {scope}; this one lacks it. The owner of the"
            " account can make such a key on the web site; applications ask for it in `scopes`,"
            " agents with POST /v1/me/key/scopes."
        )


class KeyCapReached(ServiceError, code=ErrorCode.KEY_CAP_REACHED):
    """The API key has reached the monthly spending cap that its owner set."""


class OwnerOnly(ServiceError, code=ErrorCode.OWNER_ONLY):
    """Only a signed-in person may do this, not an API key."""


class IdempotencyKeyUsed(ServiceError, code=ErrorCode.IDEMPOTENCY_KEY_USED):
    """The Idempotency-Key was used with another request before; nothing was done."""


class BadRequest(ServiceError, code=ErrorCode.BAD_REQUEST):
    """The request is invalid; the message says why."""


class NotFound(ServiceError, code=ErrorCode.NOT_FOUND, text="There is nothing at this path."):
    """Nothing has this path."""


class MethodNotAllowed(ServiceError, code=ErrorCode.METHOD_NOT_ALLOWED):
    """The path exists, but not with this method."""

    def __init__(self, *, allowed: str) -> None:
        super().__init__(f"This path accepts only {allowed}.")
        self.allowed = allowed


class RequestTimeout(ServiceError, code=ErrorCode.REQUEST_TIMEOUT):
    """The request did not arrive completely in time."""


class PayloadTooLarge(ServiceError, code=ErrorCode.PAYLOAD_TOO_LARGE):
    """The body is larger than any route accepts."""


class HeadersTooLarge(ServiceError, code=ErrorCode.HEADERS_TOO_LARGE):
    """The URL is too long, or the headers are too many or too large."""


class InternalError(ServiceError, code=ErrorCode.INTERNAL_ERROR):
    """A bug; the client gets only the request id."""

    def __init__(self) -> None:
        super().__init__("The service failed. Its operator can find the cause with the request id.")


class NeedsOperator(Exception):
    """Retrying does not help until an operator acts; the message says which action is needed."""


class UnusableStore(Exception):
    """A store cannot be used as it is; the message says why."""


class StoreUnavailable(UnusableStore):
    """A store cannot be used now, for example because it does not respond; a retry may help."""


class NeedsUpgrade(UnusableStore):
    """A store has an older version and needs its migrations; nothing is lost."""


class NewerStore(UnusableStore):
    """A newer version has written the store; nothing is lost."""


class UnusablePepper(UnusableStore):
    """The pepper, the key of stored hashes, is missing or unusable, or the roots are unusable."""


class FolderInUse(UnusableStore):
    """Another process already has this role in this folder."""


class FolderOpen(UnusableStore):
    """Other users of the machine have access to the folder."""


T = TypeVar("T")

# Errors of parsing: invalid JSON, an unexpected shape, invalid UTF-8, nesting that is too deep.
UNPARSABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

PANIC: Final = "PanicException"  # the name of pyo3's panics; each library has a class of its own


class Undecodable(ValueError):
    """Input from outside has an unexpected form; the message describes the problem."""


def decode_json(text: bytes | msgspec.Raw, decoder: "msgspec.json.Decoder[T]") -> T:
    """Return the value in *text*; raise Undecodable for any flaw of *text*."""
    try:
        return decoder.decode(text)
    except UNPARSABLE as cause:
        raise Undecodable(str(cause)) from cause


class _Guard:
    """The context manager of `parsed_by_others`; a generator would take twice the time."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, _: object, cause: BaseException | None, __: object) -> None:
        """Raise Undecodable from *cause* if it is an Exception or a panic of a Rust library."""
        if cause is None:
            return
        if isinstance(cause, Exception):
            raise Undecodable(f"{type(cause).__name__}: {cause}") from cause
        if type(cause).__name__ == PANIC:
            raise Undecodable(f"{PANIC}: {cause}") from cause


_GUARD: Final = _Guard()


def parsed_by_others() -> AbstractContextManager[None]:
    """Raise Undecodable for any error in the `with` block, which parses untrusted bytes."""
    # Libraries raise errors that they do not document.  A panic of a Rust library is not an
    # Exception, so it would end the calling task.
    return _GUARD


def decode_base64(text: str) -> bytes:
    """Return the bytes that *text* encodes in standard base64.  Raises Undecodable."""
    try:
        return b64decode(text, validate=True)
    except ValueError as cause:
        raise Undecodable(f"expected standard base64; {cause}") from cause


def visible(text: str, *, keep: str = "") -> str:
    """Return *text* with unprintable characters escaped, except those in *keep*."""
    return "".join(
        sign if sign.isprintable() or sign in keep else sign.encode("unicode_escape").decode()
        for sign in text
    )
