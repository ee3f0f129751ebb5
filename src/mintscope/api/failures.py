"""Turns errors of routes, and refusals of credits and payments, into HTTP responses."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Final, NamedTuple

import msgspec

from mintscope.api.wire import ErrorBody, Failure, Wire, envelope_of, error_body
from mintscope.kit import errors
from mintscope.kit.clock import Clock
from mintscope.kit.errors import ErrorCode
from mintscope.kit.http.request import Request
from mintscope.kit.http.response import JSON, NO_STORE, Header, Response
from mintscope.kit.http.routes import Cors
from mintscope.kit.primitives import UnixMs, about
from mintscope.kit.time import iso_time
from mintscope.payments.checkout import (
    CheckoutRefused,
    KeyCapped,
    NoCredits,
    NothingForSale,
    NothingPresented,
    PaymentOption,
    SignInRefused,
)
from mintscope.payments.merchant import Order
from mintscope.payments.ports import AlreadyUsed, Obstacle, Unavailable, Unresolved, Used
from mintscope.payments.protocol.envelope import TRANSACTION_BYTES_MAX, RefusalReason, Refused
from mintscope.payments.protocol.memo import VALID_S
from mintscope.payments.protocol.verify import (
    COMPUTE_UNITS_MAX,
    INSTRUCTION_COUNT_MAX,
    INSTRUCTION_COUNT_MIN,
    OWN_MEMO_BYTES,
    PRIORITY_LAMPORTS_MAX,
)

GENERAL: Final = "general"
UNREAD_PATH: Final = "/v1/"  # stands for a path that was not read
RETRY_S: Final = {
    ErrorCode.DATA_STALE: 5,
    ErrorCode.SERVICE_UNAVAILABLE: 2,
    ErrorCode.PRICE_UNAVAILABLE: 5,  # seconds until a source without a price is read again
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
    """A problem with one field, or with the whole request."""

    field: Annotated[str, about('The field of the body, or "general" for all of it.', "email")]
    message: Annotated[str, about("The problem.", "expected an e-mail address")]


Status = Annotated[str, about("Always error.", "error")]
Messages = Annotated[list[Message], about("The problems, at least one.")]
RetryAfter = Annotated[int | msgspec.UnsetType, about("Seconds to wait, of a 429 alone.", 5)]


class ExchangeFailure(Wire, kw_only=True):
    """A failure of exchange-secret; the body has no error code."""

    status: Status = "error"
    messages: Messages
    retry_after: RetryAfter = msgspec.UNSET


class AccountFailure(Wire, kw_only=True):
    """A failure of a route under /api, except exchange-secret: an error code, and messages."""

    success: Annotated[bool, about("Always false.", False)] = False  # noqa: FBT003 - an example
    status: Status = "error"
    error: Annotated[ErrorBody, about("The error.")]
    messages: Messages
    retry_after: RetryAfter = msgspec.UNSET


class ErrorFormat(NamedTuple):
    """The format of failures of a route.

    body_type    the type of the body
    body         creates the body from an error, the time and the request id
    hides_code   the code is in the header X-Error-Code instead of the body
    """

    body_type: type[Wire]
    body: Callable[[errors.ServiceError, UnixMs, bytes], Wire]
    hides_code: bool = False

    def write(self, error: errors.ServiceError, *, at: UnixMs, request_id: bytes) -> bytes:
        """Return the body of a failed response: *error* as JSON in this format."""
        return msgspec.json.encode(self.body(error, at, request_id))


def _messages(error: errors.ServiceError) -> list[Message]:
    if isinstance(error, errors.InvalidFields):
        return [Message(field, message) for field, message in error.messages]
    return [Message(GENERAL, str(error))]


def _retry_after(error: errors.ServiceError) -> int | msgspec.UnsetType:
    return error.retry_after_s if isinstance(error, errors.RateLimited) else msgspec.UNSET


def _of_exchange(error: errors.ServiceError, _at: UnixMs, _request_id: bytes) -> ExchangeFailure:
    return ExchangeFailure(messages=_messages(error), retry_after=_retry_after(error))


def _of_account(error: errors.ServiceError, _at: UnixMs, _request_id: bytes) -> AccountFailure:
    return AccountFailure(
        error=error_body(error),
        messages=_messages(error),
        retry_after=_retry_after(error),
    )


ENVELOPE: Final = ErrorFormat(Failure, envelope_of)
BOTH_SHAPES: Final = ErrorFormat(AccountFailure, _of_account)
MESSAGES_ONLY: Final = ErrorFormat(ExchangeFailure, _of_exchange, hides_code=True)


class ErrorWriter:
    """Writes the response for an error, in the format of the requested path, for any method.

    format_at   returns the format of a path's failures
    """

    def __init__(self, format_at: Callable[[str], ErrorFormat], clock: Clock) -> None:
        self._format_at = format_at
        self._clock = clock

    async def __call__(self, request: Request, error: Exception) -> Response:
        """Return the response for *error*; the response for a bug does not describe the bug."""
        if not isinstance(error, errors.ServiceError):
            error = errors.InternalError()
        error_format = self._format_at(request.path)
        body = error_format.write(error, at=self._clock.now(), request_id=request.request_id)
        headers: list[Header] = [JSON, NO_STORE]
        if isinstance(error, errors.MethodNotAllowed):
            headers.append((b"allow", error.allowed.encode()))
        if isinstance(error, errors.RateLimited):
            headers.append((b"retry-after", b"%d" % error.retry_after_s))
        headers += _wait(error)
        if STATUS[error.code] == UNAUTHORIZED:
            headers.append(_challenge(error))
        if error_format.hides_code:
            headers.append((b"x-error-code", error.code.encode()))
        return Response(STATUS[error.code], body, tuple(headers))


def _challenge(error: errors.ServiceError) -> Header:
    """Return the WWW-Authenticate header, which says how to authenticate.

    Source: RFC 9110 section 11.6.1, RFC 6750 section 3.
    """
    is_presented = error.code is ErrorCode.INVALID_TOKEN
    return (b"www-authenticate", CHALLENGE + (b', error="invalid_token"' if is_presented else b""))


def write_refusal(
    error: errors.ServiceError,
    *,
    path: bytes,
    at: UnixMs,
    request_id: bytes,
    cors: Sequence[Cors] = (),
) -> Response:
    """Return the response to a request that is refused before it has a route, such as a 431.

    path   the part of the path that was read; if it is empty, the path is treated as one under /v1/
    cors   paths whose responses other origins may read; Origin may not have been read, so every
           response for these paths gets the headers
    """
    error_format = BOTH_SHAPES if path.startswith(b"/api/") else ENVELOPE
    body = error_format.write(error, at=at, request_id=request_id)
    where = path.decode("latin-1") or UNREAD_PATH
    shown = [header for each in cors for header in each.headers(where)]
    return Response(STATUS[error.code], body, (JSON, NO_STORE, *_wait(error), *shown))


def _wait(error: errors.ServiceError) -> list[Header]:
    """Return the Retry-After header, if the code of *error* has a waiting time."""
    wait_s = RETRY_S.get(error.code)
    return [] if wait_s is None else [(b"retry-after", b"%d" % wait_s)]


NO_SALES: Final = "This service accepts no payments; send a credit token instead."
NOTHING_PRESENTED: Final = (
    "This request costs one credit (Authorization: Bearer svc_credit_<64 hex>), or a payment on the"
    " terms in PAYMENT-REQUIRED."
)
NO_CREDITS_PRESENTED: Final = (
    "This request is paid for with credits, sent as Authorization: Bearer svc_credit_<64 hex>."
)
NO_PAYMENT_PRESENTED: Final = (
    "Pay for a bundle on the terms in PAYMENT-REQUIRED, with PAYMENT-SIGNATURE."
)
VERSION_1: Final = (
    "X-PAYMENT belongs to x402 version 1, which is not accepted. Pay by version 2, with"
    " PAYMENT-SIGNATURE; `@x402/fetch` (not `x402-fetch`) and version 2 of the Python package"
    " `x402` do this."
)
NOTHING_SENT: Final = "Nothing was sent to the chain, and nothing was charged."
SIGN_IN_REFUSED: Final = (
    "The sign-in is refused: {}. Sign the challenge of this response, which is valid once, for 5"
    " minutes and for this path. Nothing was charged."
)
NO_CREDIT_LEFT: Final = (
    "The credential is valid, and its balance is 0 credits; nothing was charged."
)
TOO_FEW: Final = "This request costs {} credits, and the balance is {}; nothing was charged."
CAPPED: Final = (
    "The monthly cap of this API key, which its owner set, does not allow this request; nothing was"
    " charged. The key can spend again from {} on, or once the cap is raised."
)

ONLY_CREDITS: Final = (
    "The network fee is currently too high for payments of single requests: buy credits, with POST"
    " /v1/credits/purchase?bundle=10, and send them as Authorization: Bearer svc_credit_<64 hex>."
)
CLOSED: Final = "Nothing is sold right now. Existing credits keep working."
FOR_CREDITS: Final = (
    "This request cannot be paid for directly: buy credits with POST"
    " /v1/credits/purchase?bundle=10, and send their credit token."
)

USED: Final = {
    Used.PAYMENT: (
        "This payment was used before. For a day, or until the credit token that it bought is first"
        " used, its response is sent again only to the request for which the payment was made, with"
        " its Idempotency-Key. Two payments without a memo count as one if wallet, amount and"
        " blockhash are equal: sign another with `extra.memo` or a new blockhash."
    ),
    Used.LOST: (
        "This payment is on chain, but its record here is lost. To get the response, repeat the"
        " original request with its Idempotency-Key or the key that we returned. The wallet that"
        " paid can also get the credits of a bundle with POST /v1/credits/rotate/challenge."
    ),
    Used.ACKNOWLEDGED: "This payment is on chain, and was settled with its payer in another way.",
    Used.KEY: (
        "The Idempotency-Key was sent with another payment before; this request charged nothing."
    ),
}
MEMOS: Final = (
    f"Your own memo (a text of {OWN_MEMO_BYTES[0]} to {OWN_MEMO_BYTES[-1]} bytes that no other"
    " payment has) or no memo is also accepted, if `accepted` has the terms unchanged."
)
REASONS: Final[Mapping[RefusalReason, str]] = {
    RefusalReason.NO_MATCHING_REQUIREMENT: (
        "Expected `accepted` to be an entry of `accepts`, unchanged. Its scheme, network, asset or"
        " payee differs."
    ),
    RefusalReason.DEMO: "The terms of the demo sell nothing.",
    RefusalReason.VERSION: (
        "Expected a transaction of version 0, as `extra.transactionVersions` says."
    ),
    RefusalReason.UNDECODABLE: "Expected a Solana transaction; the bytes are no transaction.",
    RefusalReason.TOO_LONG: f"Expected a transaction of at most {TRANSACTION_BYTES_MAX:,} bytes.",
    RefusalReason.NOT_CANONICAL: (
        "Expected a transaction in its shortest form, and no bytes after it."
    ),
    RefusalReason.SIGNERS: (
        "Expected two signatures: first that of `extra.feePayer`, then that of the payer."
    ),
    RefusalReason.FEE_PAYER: "Expected `extra.feePayer` as the first account.",
    RefusalReason.FEE_PAYER_NOT_ISOLATED: "Expected no instruction that names the fee payer.",
    RefusalReason.LOOKUP_TABLES: (
        "Expected all accounts in the transaction itself, and no address lookup table."
    ),
    RefusalReason.ACCOUNTS: (
        "Expected each account once, two writable signers, and instructions that name only these"
        " accounts."
    ),
    RefusalReason.INSTRUCTION_COUNT: (
        f"Expected {INSTRUCTION_COUNT_MIN} to {INSTRUCTION_COUNT_MAX} instructions."
    ),
    RefusalReason.COMPUTE_BUDGET: (
        "Expected SetComputeUnitLimit and SetComputeUnitPrice as the first two instructions."
    ),
    RefusalReason.COMPUTE_LIMIT_TOO_HIGH: (
        f"Expected a limit of at most {COMPUTE_UNITS_MAX:,} compute units."
    ),
    RefusalReason.PRIORITY_FEE_TOO_HIGH: (
        f"Expected a priority fee of at most {PRIORITY_LAMPORTS_MAX:,} lamports."
    ),
    RefusalReason.NO_TRANSFER: (
        "Expected TransferChecked with four accounts as the third instruction."
    ),
    RefusalReason.TOKEN_PROGRAM: (
        "Expected the token program that owns `asset` in the third instruction."
    ),
    RefusalReason.MINT: "Expected a transfer of `asset`.",
    RefusalReason.DECIMALS: "Expected `extra.decimals` in the transfer.",
    RefusalReason.RECIPIENT: (
        "Expected a transfer to the associated token account of `payTo` for `asset`, from another"
        " account."
    ),
    RefusalReason.SOURCE: (
        "Expected a transfer from the associated token account of the payer for `asset`."
    ),
    RefusalReason.AUTHORITY: "Expected the payer as the authority of the transfer.",
    RefusalReason.AMOUNT: "Expected a transfer of exactly the `amount` of `accepted`.",
    RefusalReason.UNKNOWN_PROGRAM: (
        "Expected only a memo and assertions of Lighthouse after the transfer."
    ),
    RefusalReason.MEMO_COUNT: (
        f"Expected one Memo instruction that has `extra.memo` of the terms. {MEMOS}"
    ),
    RefusalReason.QUOTE_FORGED: (
        "Expected `extra.memo` of the terms of this request: for its path, its query and the"
        f" `amount` of `accepted`. A quote of another request is not accepted. {MEMOS}"
    ),
    RefusalReason.QUOTE_EXPIRED: (
        f"Expected a quote of the last {VALID_S} seconds: sign another payment for the new"
        " PAYMENT-REQUIRED."
    ),
    RefusalReason.QUOTE_USED: (
        "Expected a quote that no other payment has: sign another payment for the new"
        " PAYMENT-REQUIRED."
    ),
    RefusalReason.SIGNATURE: "Expected the signature of the payer for exactly this transaction.",
    RefusalReason.INSUFFICIENT_FUNDS: (
        "The token account of the payer does not exist, or has fewer tokens than the amount."
    ),
    RefusalReason.SIMULATION: "The transaction would fail now, but not for lack of tokens.",
    RefusalReason.BLOCKHASH: (
        "Its blockhash has expired, or belongs to no block: sign another payment for the new"
        " PAYMENT-REQUIRED."
    ),
    RefusalReason.NETWORK_FEE: (
        "The network fee is too high for the price: lower the priority fee, or buy credits."
    ),
    RefusalReason.FUNDS: (
        "The pending payments of the payer need the tokens of its account: pay again once they"
        " have settled."
    ),
    RefusalReason.TOO_MANY_FAILURES: (
        "Too many payments of the wallet or the client address have failed: pay again in an hour."
    ),
    RefusalReason.TOO_MANY_PENDING: (
        "Too many payments of the wallet or the client address are pending: pay again once they"
        " have settled."
    ),
    RefusalReason.REVERTED: "The transaction failed on chain.",
    RefusalReason.EXPIRED: (
        "The transaction did not land before its blockhash expired, and can no longer land: sign"
        " another payment for the new PAYMENT-REQUIRED."
    ),
    RefusalReason.VANISHED: "The transaction had landed, and is no longer on the chain.",
    RefusalReason.UNDERPAID: "Fewer tokens arrived than the amount.",
}
SAME_KEY: Final = "with the same Idempotency-Key"
NEW_KEY: Final = "with the Idempotency-Key of this answer, which is given only once"
OBSTACLES: Final = {
    Obstacle.CHAIN: (
        "The chain does not answer, so this request sent nothing and charged nothing: send the same"
        " payment again later."
    ),
    Obstacle.NODE_BEHIND: (
        "The chain's node is behind and does not know the payment's blockhash yet; this request"
        " sent nothing. Nothing was charged for it: send the same payment again in a moment."
    ),
    Obstacle.UNSETTLED: (
        "This payment may have been sent before, and its outcome is not known yet. Do not pay"
        " again: send the same payment again in a moment."
    ),
    Obstacle.TREASURY: (
        "No payment can arrive right now: the seller's token account accepts none. Nothing was sent"
        " and nothing was charged; existing credits keep working."
    ),
    Obstacle.SALES_CLOSED: (
        "No payments are accepted right now. Nothing was charged; existing credits keep working."
    ),
}

OBSTACLE_RETRY_S: Final = {
    Obstacle.CHAIN: 10,
    Obstacle.NODE_BEHIND: 2,
    Obstacle.SALES_CLOSED: 10,
    Obstacle.TREASURY: 60,
    Obstacle.UNSETTLED: 2,
}


def error_of(refused: CheckoutRefused, *, unpaid: str) -> errors.ServiceError:
    """Return the error with which the API refuses a request, for the reason in *refused*.

    unpaid   how to pay; part of the message if the client presented neither a credential nor a
             payment, or if its sign-in was refused
    """
    why = f" Paying would be pointless now: {refused.failure}" if refused.failure else ""
    match refused.cause:
        case NothingPresented():
            return errors.PaymentRequired(unpaid + why)
        case SignInRefused(flaw=flaw):
            return errors.PaymentRequired(f"{SIGN_IN_REFUSED.format(flaw)} {unpaid}")
        case NothingForSale():
            return errors.PaymentUnavailable(NO_SALES)
        case NoCredits() | KeyCapped() as shortage:
            return _shortage_error(shortage, why)
        case Refused() as refusal:
            return errors.PaymentFailed(_refusal_text(refusal))
        case AlreadyUsed() | Unresolved() | Unavailable() as outcome:
            return _outcome_error(outcome)


def _refusal_text(refused: Refused) -> str:
    """Return the message for a refused payment: the reason, and the remedy if there is one."""
    named = _named(refused.reason)
    if refused.signature:
        return f"The payment failed: {named}. {REASONS[refused.reason]} Nothing was charged."
    values = f" {refused.values}" if refused.values else ""
    return f"The payment is refused: {named}. {REASONS[refused.reason]}{values} {NOTHING_SENT}"


def _named(reason: RefusalReason) -> str:
    """Return the text of *reason* for a message, followed by x402's code if that differs."""
    official = reason.official
    return reason if official == reason else f"{reason} (x402: {official})"


def _shortage_error(shortage: NoCredits | KeyCapped, why: str) -> errors.ServiceError:
    match shortage:
        case NoCredits(balance=0):
            return errors.InsufficientCredits(NO_CREDIT_LEFT + why)
        case NoCredits(balance=balance, credit_count=credit_count):
            return errors.InsufficientCredits(TOO_FEW.format(credit_count, balance) + why)
        case KeyCapped(until=until):
            return errors.KeyCapReached(CAPPED.format(iso_time(until)))


def _outcome_error(outcome: AlreadyUsed | Unresolved | Unavailable) -> errors.ServiceError:
    match outcome:
        case AlreadyUsed(what):
            return errors.PaymentAlreadyUsed(USED[what])
        case Unresolved(key=key):
            return errors.PaymentPending(
                "The payment may have been sent; its outcome is not known yet. Do not pay again:"
                " send the same request with the same payment,"
                f" {SAME_KEY if key is None else NEW_KEY}."
            )
        case Unavailable(obstacle):
            return errors.PaymentUnavailable(OBSTACLES[obstacle])


def unpaid_text(order: Order) -> str:
    """Return the 402 message for a client that sent neither credential nor payment for *order*."""
    return NO_CREDITS_PRESENTED if order.is_for_credits else NOTHING_PRESENTED


def with_credits_only(error: errors.ServiceError, option: PaymentOption) -> errors.ServiceError:
    """Return *error* with a message that also says why payments are not taken, and what to do."""
    if option.is_closed:
        return type(error)(f"{error} {CLOSED}")
    return type(error)(f"{error} {FOR_CREDITS if option.is_for_credits else ONLY_CREDITS}")
