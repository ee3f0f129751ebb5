"""Exceptions for failed client calls, grouped by remedy and then by code.

RefusedError                 the service ended a stream, or refused the call, which cost no credits
  WrongCallError             400, other 4xx, and 3xx: correct the call
  CredentialRefusedError     401, 403: send another credential
  UnpaidError                402: buy credits, or pay
  NothingThereError          404: the named thing is unknown, or has too little data so far
  ConflictError              409: the call conflicts with the result of an earlier call
  TooManyRequestsError       429: wait
  NotNowError                5xx, 408, 425: try again later
UnreachableError             no complete answer arrived; the request may have been executed
UnreadableError              the answer does not have the documented form, or lacks the purchase
OverBudgetError              the budget does not allow the call, or the next minute of a stream
PendingError                 a payment may have been sent; its outcome is not known yet
"""

import sys
from typing import ClassVar, Final

from typing_extensions import override

if sys.version_info >= (3, 11):
    from enum import StrEnum
else:
    from enum import Enum

    class StrEnum(str, Enum):
        """An enum whose members are texts; `str` of a member is its text."""

        # As in the StrEnum of Python 3.11: `str` of another Enum names class and member.
        __str__ = str.__str__
        __format__ = str.__format__


class ErrorCode(StrEnum):
    """The error codes of the service; an older or newer service may have other codes."""

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


UNKNOWN: Final = "UNKNOWN"  # the code of a refusal without a readable code


class ClientError(Exception):
    """The base class of all errors that a client's calls raise."""


class RefusedError(ClientError):
    """The service refused the call, or ended a stream.

    status          HTTP status
    code            the code of the error: an `ErrorCode`, UNKNOWN, or a code of a newer service
    request_id      the identifier of the request, for the operator; None: unknown
    retry_after_s   seconds to wait before a retry; None if the service names none
    key             the key of a sent payment that may still land: repeat the call with this key to
                    send the payment again. None: there is no such payment
    """

    codes: ClassVar[frozenset[ErrorCode]] = frozenset()

    def __init__(  # noqa: PLR0913 - what an answer says
        self,
        message: str,
        *,
        status: int,
        code: str = UNKNOWN,
        request_id: str | None = None,
        retry_after_s: float | None = None,
        key: str | None = None,
    ) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.message = message
        self.status = status
        self.code = code
        self.request_id = request_id
        self.retry_after_s = retry_after_s
        self.key = key

    @override
    def __init_subclass__(cls, *, code: ErrorCode | None = None) -> None:
        # Never inherited, so that a subclass without a code is found for no code.
        cls.codes = frozenset() if code is None else frozenset({code})


class WrongCallError(RefusedError):
    """The request is invalid: correct it."""


class InvalidTokenAddressError(WrongCallError, code=ErrorCode.INVALID_TOKEN_ADDRESS):
    """The mint is not base58 of 32 bytes."""


class InvalidBundleError(WrongCallError, code=ErrorCode.INVALID_BUNDLE):
    """No bundle of this size is for sale."""


class InvalidPaymentError(WrongCallError, code=ErrorCode.INVALID_PAYMENT):
    """The payment cannot be read, or the call can be paid for with credits only."""


class CredentialRefusedError(RefusedError):
    """The credential or proof is missing or invalid, or does not allow the call."""


class MissingCredentialError(CredentialRefusedError, code=ErrorCode.MISSING_TOKEN):
    """The request needs a credential, but has none."""


class UnknownCredentialError(CredentialRefusedError, code=ErrorCode.INVALID_TOKEN):
    """The credential was never issued, is no longer valid, or is not of the kind required."""


class MissingScopeError(CredentialRefusedError, code=ErrorCode.INSUFFICIENT_SCOPE):
    """The API key is valid, but lacks the scope for this call."""


class UnpaidError(RefusedError):
    """The call costs credits or a payment, and was not paid for."""


class PaymentRequiredError(UnpaidError, code=ErrorCode.PAYMENT_REQUIRED):
    """The request had no payment and no credential that can pay, or its sign-in was refused."""


class NoCreditsError(UnpaidError, code=ErrorCode.INSUFFICIENT_CREDITS):
    """The credential, or the wallet of a sign-in, is valid, but has too few credits."""


class KeyCapError(UnpaidError, code=ErrorCode.KEY_CAP_REACHED):
    """The API key has reached its monthly cap."""


class PaymentRefusedError(UnpaidError, code=ErrorCode.PAYMENT_FAILED):
    """The service refused the payment, or the payment failed on chain."""


class NothingThereError(RefusedError):
    """The requested object is unknown, or has too little data so far."""


class NotTrackedError(NothingThereError, code=ErrorCode.TOKEN_NOT_FOUND):
    """The service does not track this mint; ask the operator of the service to add it."""


class TooLittleDataError(NothingThereError, code=ErrorCode.INSUFFICIENT_DATA):
    """There is too little data for the call; if the mint has too few trades yet, try later."""


class ConflictError(RefusedError):
    """The request conflicts with the result of an earlier request."""


class PaymentUsedError(ConflictError, code=ErrorCode.PAYMENT_ALREADY_USED):
    """The payment or its key belongs to an earlier call."""


class TooManyRequestsError(RefusedError, code=ErrorCode.RATE_LIMITED):
    """A rate limit is reached: wait for *retry_after_s* seconds."""


class NotNowError(RefusedError):
    """The service cannot answer now: try again later."""


class StaleDataError(NotNowError, code=ErrorCode.DATA_STALE):
    """The newest data is too old to be sold."""


class NoPriceError(NotNowError, code=ErrorCode.PRICE_UNAVAILABLE):
    """The payment token has no price now, or nothing is for sale; credits still pay."""


class OutcomeUnknownError(NotNowError, code=ErrorCode.PAYMENT_PENDING):
    """A payment may have been sent, and its outcome is not known yet: do not pay again."""


class NoPaymentsError(NotNowError, code=ErrorCode.PAYMENT_UNAVAILABLE):
    """The service cannot accept payments now; paying with credits still works."""


class UnreachableError(ClientError):
    """No complete response arrived from the service.

    may_be_charged    whether a request of the call can have arrived, and can have spent credits
    """

    def __init__(self, message: str, *, may_be_charged: bool = False) -> None:
        super().__init__(message)
        self.may_be_charged = may_be_charged


class UnreadableError(ClientError):
    """The response does not have the documented form, or lacks the purchase that was paid for.

    It may be a proxy's page.

    status    HTTP status
    """

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class OverBudgetError(ClientError):
    """The budget does not allow the call, which was not sent, or the next minute of a stream."""


class PendingError(ClientError):
    """A payment may have been sent; a call with *key* continues it, or shows its outcome."""

    def __init__(self, key: str) -> None:
        super().__init__("the payment is still pending; its key redeems it")
        self.key = key


BY_STATUS: Final[dict[int, type[RefusedError]]] = {
    401: CredentialRefusedError,
    402: UnpaidError,
    403: CredentialRefusedError,
    404: NothingThereError,
    408: NotNowError,
    409: ConflictError,
    425: NotNowError,
    429: TooManyRequestsError,
}


def refusal_kind(status: int, code: str) -> type[RefusedError]:
    """Return the exception class for *status*, or its subclass for *code* if there is one."""
    group = BY_STATUS.get(status) or (NotNowError if status >= 500 else WrongCallError)  # noqa: PLR2004
    return next((kind for kind in group.__subclasses__() if code in kind.codes), group)
