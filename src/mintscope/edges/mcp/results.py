"""What a tool tells its caller: answers of the API in the words of MCP.

Source    specs/transports-v2/mcp.md of x402, for what stands in `_meta` and how a call that must be
          paid for is told
"""

from base64 import b64decode
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec

from mintscope.edges.mcp.budget import CallPrice, OverBudget
from mintscope.edges.mcp.exchange import ApiAnswer

PAYMENT: Final = "x402/payment"
PAYMENT_RESPONSE: Final = "x402/payment-response"
X402_ERROR: Final = "x402/error"
BUDGET_EXCEEDED: Final = "BUDGET_EXCEEDED"
INVALID_ARGUMENTS: Final = "INVALID_ARGUMENTS"
PAYMENT_REQUIRED: Final = 402
CHARGED: Final = {"x-credits-remaining", "payment-response"}  # headers of a success that was
NUMBERS: Final = {  # of an answer's headers, as they are called in `meta`
    "creditsRemaining": "x-credits-remaining",
    "dataSlot": "x-data-slot",
    "dataAgeMs": "x-data-age-ms",
}
TO_PAY: Final = (
    "This call must be paid for: by a payment on the terms of `accepts`, sent in"
    " _meta['x402/payment'] of the same call; or, unless it buys credits, by a credit of a credit"
    " token (svc_credit_<64 hex>) in the Authorization header. Nothing was charged."
)
POINTLESS: Final = " Paying would be pointless now: the token is {status}."
META_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "description": "What the call has cost, and how fresh its data is.",
    "properties": {
        "timestamp": {"type": "string", "description": "When it was answered, in UTC."},
        "requestId": {"type": "string", "description": "Quote it when something is wrong."},
        "creditsCharged": {"type": "integer", "description": "Credits that this call took."},
        "usdPaid": {"type": "number", "description": "USD that this call was paid with by x402."},
        "creditsRemaining": {"type": "integer", "description": "Credits left after this call."},
        "dataSlot": {"type": "integer", "description": "The last Solana slot in the data."},
        "dataAgeMs": {"type": "integer", "description": "Age of the data, in milliseconds."},
        "dataStatus": {
            "enum": ["live", "idle", "degraded"],
            "description": "degraded: older than 30 s. idle: no swap set the price for 5 minutes.",
        },
    },
    "required": ["timestamp", "requestId", "creditsCharged", "usdPaid"],
}


class CallResult(msgspec.Struct, frozen=True):
    """What a call ends with.

    structured   conforms to the tool's output schema, unless it is an error
    text         the same, for clients that read text alone
    meta         what stands in `_meta`
    """

    structured: Mapping[str, Any]
    text: str
    is_error: bool = False
    meta: Mapping[str, Any] | None = None


def failed(code: str, message: str, **more: Any) -> CallResult:
    """Return the result of a call that this side refuses, free of charge."""
    error = {"code": code, "message": message, **more}
    return CallResult({"error": error, "charged": False}, f"{code}: {message}", is_error=True)


def over_budget(refusal: OverBudget) -> CallResult:
    """Return the result of a call that its caller's budget does not allow."""
    more = {} if refusal.retry_after_s is None else {"retryAfterS": refusal.retry_after_s}
    return failed(BUDGET_EXCEEDED, str(refusal), **more)


def told(answer: ApiAnswer, price: CallPrice) -> CallResult:
    """Return the result that tells *answer*; *price* is what its success takes."""
    return _delivered(answer, price) if answer.is_success else _refused(answer)


def is_charged(answer: ApiAnswer) -> bool:
    """Say whether *answer* was charged, or may have been: the payment may still arrive."""
    if answer.is_success:
        return not CHARGED.isdisjoint(answer.headers)
    return _is_pending(answer)


def _is_pending(answer: ApiAnswer) -> bool:
    return not answer.is_success and answer.content()["error"]["code"] == "PAYMENT_PENDING"


def _delivered(answer: ApiAnswer, price: CallPrice) -> CallResult:
    envelope, headers = answer.content(), answer.headers
    is_by_credits = "x-credits-remaining" in headers
    settled = _decoded(headers.get("payment-response"))
    meta: dict[str, Any] = {
        "timestamp": envelope["meta"]["timestamp"],
        "requestId": headers["x-request-id"],
        "creditsCharged": price.credits if is_by_credits else 0,
        "usdPaid": float(Decimal(0) if settled is None else price.usd),
    }
    meta |= {name: int(headers[field]) for name, field in NUMBERS.items() if field in headers}
    if "x-data-status" in headers:
        meta["dataStatus"] = headers["x-data-status"]
    structured = {"data": envelope["data"], "meta": meta}
    text = msgspec.json.encode(structured).decode()
    return CallResult(
        structured, text, meta=None if settled is None else {PAYMENT_RESPONSE: settled}
    )


def _refused(answer: ApiAnswer) -> CallResult:
    """Return an error: one that says what to pay, where the API has said so."""
    headers, error = answer.headers, answer.content()["error"]
    required = _decoded(headers.get("payment-required"))
    code, message = error["code"], error["message"]
    if code == "PAYMENT_REQUIRED":
        status = headers.get("x-token-status", "ready")
        message = TO_PAY + (POINTLESS.format(status=status) if status != "ready" else "")
    more: dict[str, Any] = {"requestId": headers["x-request-id"]}
    if "retry-after" in headers:
        more["retryAfterS"] = int(headers["retry-after"])
    if "idempotency-key" in headers:
        more["idempotencyKey"] = headers["idempotency-key"]
    if required is None:
        result = failed(code, message, **more)
        return result if not _is_pending(answer) else _undecided(result)
    response = _decoded(headers.get("payment-response"))
    required["error"] = message
    if response is not None:
        required[PAYMENT_RESPONSE] = response
    told = {"code": PAYMENT_REQUIRED, "message": message, "data": required}
    structured = {**required, "code": code, "charged": False, **more}
    return CallResult(structured, msgspec.json.encode({X402_ERROR: told}).decode(), is_error=True)


def _undecided(result: CallResult) -> CallResult:
    """Return *result* without the word that nothing was charged: the payment may arrive."""
    error = result.structured["error"]
    return msgspec.structs.replace(result, structured={"error": error, "charged": None})


def _decoded(header: str | None) -> dict[str, Any] | None:
    """Return the JSON in a header of x402."""
    if header is None:
        return None
    return dict(msgspec.json.decode(b64decode(header)))
