"""Every failure a client is meant to see.

* ServiceError
  x InvalidTokenAddress     INVALID_TOKEN_ADDRESS
  x TokenNotFound           TOKEN_NOT_FOUND
  x InsufficientData        INSUFFICIENT_DATA
  x MissingToken            MISSING_TOKEN
  x InvalidToken            INVALID_TOKEN
  x PaymentRequired         PAYMENT_REQUIRED
  x InsufficientCredits     INSUFFICIENT_CREDITS
  x RateLimited             RATE_LIMITED
  x DataStale               DATA_STALE
  x ServiceUnavailable      SERVICE_UNAVAILABLE
  x InvalidBundle           INVALID_BUNDLE
  x InvalidPayment          INVALID_PAYMENT
  x PriceUnavailable        PRICE_UNAVAILABLE
  x PaymentFailed           PAYMENT_FAILED
  x PaymentAlreadyUsed      PAYMENT_ALREADY_USED
  x PaymentPending          PAYMENT_PENDING
  x PaymentUnavailable      PAYMENT_UNAVAILABLE
  x InvalidProof            INVALID_PROOF
  x RotatedRecently         ROTATED_RECENTLY
  x InvalidFields           VALIDATION_ERROR
  x DuplicateApplication    DUPLICATE_APPLICATION
  x InvalidCredentials      INVALID_CREDENTIALS
  x NotApproved             NOT_APPROVED
  x InvalidSecretFormat     INVALID_SECRET_FORMAT
  x KeyAlreadyExists        KEY_ALREADY_EXISTS
  x AccountNotFound         ACCOUNT_NOT_FOUND
  x InsufficientScope       INSUFFICIENT_SCOPE
  x BadRequest              BAD_REQUEST
  x NotFound                NOT_FOUND
  x MethodNotAllowed        METHOD_NOT_ALLOWED
  x RequestTimeout          REQUEST_TIMEOUT
  x PayloadTooLarge         PAYLOAD_TOO_LARGE
  x HeadersTooLarge         HEADERS_TOO_LARGE
  x InternalError           INTERNAL_ERROR

The four of a payment are what its outcomes (`payments.outcome`) become for
whoever sent it.

The message is public: it is sent to the client as it stands.  What only the
operator may read goes into `raise ... from cause` or `add_note`.  HTTP does
not appear here; `api.errors` owns the one table from code to status.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar, NamedTuple


class ErrorCode(StrEnum):
    """The wire codes: those of the specification first, then those of the decisions."""

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
    VALIDATION_ERROR = "VALIDATION_ERROR"
    DUPLICATE_APPLICATION = "DUPLICATE_APPLICATION"
    INVALID_CREDENTIALS = "INVALID_CREDENTIALS"
    NOT_APPROVED = "NOT_APPROVED"
    INVALID_SECRET_FORMAT = "INVALID_SECRET_FORMAT"
    KEY_ALREADY_EXISTS = "KEY_ALREADY_EXISTS"
    ACCOUNT_NOT_FOUND = "ACCOUNT_NOT_FOUND"
    INSUFFICIENT_SCOPE = "INSUFFICIENT_SCOPE"
    BAD_REQUEST = "BAD_REQUEST"
    NOT_FOUND = "NOT_FOUND"
    METHOD_NOT_ALLOWED = "METHOD_NOT_ALLOWED"
    REQUEST_TIMEOUT = "REQUEST_TIMEOUT"
    PAYLOAD_TOO_LARGE = "PAYLOAD_TOO_LARGE"
    HEADERS_TOO_LARGE = "HEADERS_TOO_LARGE"
    INTERNAL_ERROR = "INTERNAL_ERROR"


class ServiceError(Exception):
    """A failure the client caused or must know about."""

    code: ClassVar[ErrorCode]


class InvalidTokenAddress(ServiceError):
    """The path segment is not the base58 form of 32 bytes."""

    code = ErrorCode.INVALID_TOKEN_ADDRESS

    def __init__(self, text: str) -> None:
        shown = text if len(text) <= ADDRESS_SHOWN_MAX else text[:ADDRESS_SHOWN_MAX] + "..."
        super().__init__(
            "expected a token mint address, base58 of 32 bytes (32 to 44 characters);"
            f" was {shown!r}"
        )


class TokenNotFound(ServiceError):
    """The mint is well formed but not tracked."""

    code = ErrorCode.TOKEN_NOT_FOUND


class InsufficientData(ServiceError):
    """The mint is tracked but has too little price history yet."""

    code = ErrorCode.INSUFFICIENT_DATA


class MissingToken(ServiceError):
    """No usable Authorization header where one is required."""

    code = ErrorCode.MISSING_TOKEN


class InvalidToken(ServiceError):
    """The bearer value is not a credit token that exists."""

    code = ErrorCode.INVALID_TOKEN


class PaymentRequired(ServiceError):
    """Neither a payment nor a credit token was presented."""

    code = ErrorCode.PAYMENT_REQUIRED


class InsufficientCredits(ServiceError):
    """The credit token is good, its balance is zero."""

    code = ErrorCode.INSUFFICIENT_CREDITS


class RateLimited(ServiceError):
    """The caller must wait *retry_after_s* seconds."""

    code = ErrorCode.RATE_LIMITED

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"Too many requests: wait {retry_after_s} seconds before retrying.")
        self.retry_after_s = retry_after_s


class DataStale(ServiceError):
    """The newest data is too old to be sold."""

    code = ErrorCode.DATA_STALE


class ServiceUnavailable(ServiceError):
    """A part of the service that this request needs does not answer."""

    code = ErrorCode.SERVICE_UNAVAILABLE


class InvalidBundle(ServiceError):
    """No bundle of this size is for sale."""

    code = ErrorCode.INVALID_BUNDLE


class InvalidPayment(ServiceError):
    """The payment header cannot be read; nothing was looked at, nothing was charged."""

    code = ErrorCode.INVALID_PAYMENT


class PriceUnavailable(ServiceError):
    """The payment token has no price that may be sold at; credits go on working."""

    code = ErrorCode.PRICE_UNAVAILABLE


class PaymentFailed(ServiceError):
    """The payment is refused, or failed on chain; the payer was not charged."""

    code = ErrorCode.PAYMENT_FAILED


class PaymentAlreadyUsed(ServiceError):
    """The payment, or its redelivery key, belongs to an earlier request."""

    code = ErrorCode.PAYMENT_ALREADY_USED


class PaymentPending(ServiceError):
    """The payment was sent and nobody can say yet whether it arrives; it can be redeemed."""

    code = ErrorCode.PAYMENT_PENDING


class PaymentUnavailable(ServiceError):
    """No payment can be taken just now; nothing was sent."""

    code = ErrorCode.PAYMENT_UNAVAILABLE


class InvalidProof(ServiceError):
    """Nothing shows that the wallet of the caller has paid for these credits."""

    code = ErrorCode.INVALID_PROOF


class RotatedRecently(ServiceError):
    """The credits were moved, or bought and used, too short a time ago to be moved by a wallet."""

    code = ErrorCode.ROTATED_RECENTLY


class FieldMessage(NamedTuple):
    """What is wrong with one field of a body, or with all of it ("general")."""

    field: str
    message: str


class InvalidFields(ServiceError):
    """Fields are missing, or hold what they must not."""

    code = ErrorCode.VALIDATION_ERROR

    def __init__(self, messages: Sequence[FieldMessage]) -> None:
        super().__init__("; ".join(f"{field}: {message}" for field, message in messages))
        self.messages = tuple(messages)


class DuplicateApplication(ServiceError):
    """There is an application for this mailbox, in whatever state."""

    code = ErrorCode.DUPLICATE_APPLICATION

    def __init__(self) -> None:
        super().__init__("There is an application for this e-mail address already.")


NOT_TOLD_APART = (
    "The e-mail address or the secret is wrong, or the application is not approved yet."
)


class InvalidCredentials(ServiceError):
    """No application has this mailbox and this secret."""

    code = ErrorCode.INVALID_CREDENTIALS

    def __init__(self) -> None:
        super().__init__(NOT_TOLD_APART)


class NotApproved(ServiceError):
    """The secret is right, the application is not approved."""

    code = ErrorCode.NOT_APPROVED

    def __init__(self) -> None:
        super().__init__(NOT_TOLD_APART)


class InvalidSecretFormat(ServiceError):
    """The secret cannot be one of ours."""

    code = ErrorCode.INVALID_SECRET_FORMAT

    def __init__(self) -> None:
        super().__init__(NOT_TOLD_APART)


class KeyAlreadyExists(ServiceError):
    """The secret was exchanged before."""

    code = ErrorCode.KEY_ALREADY_EXISTS

    def __init__(self) -> None:
        super().__init__(
            "An API key was already issued for this application; it cannot be shown again."
        )


class AccountNotFound(ServiceError):
    """The account that the application led to was removed."""

    code = ErrorCode.ACCOUNT_NOT_FOUND

    def __init__(self) -> None:
        super().__init__("The account of this application was removed.")


class InsufficientScope(ServiceError):
    """The API key is good, but not for this."""

    code = ErrorCode.INSUFFICIENT_SCOPE

    def __init__(self, *, scope: str) -> None:
        super().__init__(f"expected an API key with the scope {scope}; this one lacks it")


class BadRequest(ServiceError):
    """The request breaks HTTP, or says two things at once."""

    code = ErrorCode.BAD_REQUEST


class NotFound(ServiceError):
    """No route has this path."""

    code = ErrorCode.NOT_FOUND

    def __init__(self) -> None:
        super().__init__("There is nothing at this path.")


class MethodNotAllowed(ServiceError):
    """The path exists, the method does not."""

    code = ErrorCode.METHOD_NOT_ALLOWED

    def __init__(self, *, allowed: str) -> None:
        super().__init__(f"This path answers {allowed} only.")
        self.allowed = allowed


class RequestTimeout(ServiceError):
    """The request did not arrive whole in time."""

    code = ErrorCode.REQUEST_TIMEOUT


class PayloadTooLarge(ServiceError):
    """The body is larger than any route takes."""

    code = ErrorCode.PAYLOAD_TOO_LARGE


class HeadersTooLarge(ServiceError):
    """Request line and headers together are larger than any route needs."""

    code = ErrorCode.HEADERS_TOO_LARGE


class InternalError(ServiceError):
    """A bug; the client learns the request id and nothing else."""

    code = ErrorCode.INTERNAL_ERROR

    def __init__(self) -> None:
        super().__init__("The service failed; the request id tells its operator where.")


ADDRESS_SHOWN_MAX = 50
