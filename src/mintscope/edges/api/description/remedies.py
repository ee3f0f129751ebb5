"""Remedies for each refusal: docs/api.md says the same."""

from collections.abc import Mapping
from typing import Final

from mintscope.base.errors import ErrorCode

REMEDIES: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.INVALID_TOKEN_ADDRESS: "Correct the address.",
    ErrorCode.TOKEN_NOT_FOUND: (
        "Look for the mint in `/v1/tokens`, or ask the operator to track it."
    ),
    ErrorCode.INSUFFICIENT_DATA: "Ask again in some minutes, or with `partial=true`.",
    ErrorCode.MISSING_TOKEN: "Send `Authorization: Bearer ...`.",
    ErrorCode.INVALID_TOKEN: "Check the credential; a rotated credit token is void.",
    ErrorCode.PAYMENT_REQUIRED: "Pay as `PAYMENT-REQUIRED` says.",
    ErrorCode.INSUFFICIENT_CREDITS: "Buy a bundle, or add one to the same credit token.",
    ErrorCode.KEY_CAP_REACHED: "Wait for the month that the message names, or have the cap raised.",
    ErrorCode.RATE_LIMITED: "Wait `Retry-After` seconds.",
    ErrorCode.DATA_STALE: "Ask again later.",
    ErrorCode.SERVICE_UNAVAILABLE: "Ask again later.",
    ErrorCode.INVALID_BUNDLE: "Choose one of `/v1/credits/bundles`.",
    ErrorCode.INVALID_PAYMENT: "Correct the header; nothing was sent.",
    ErrorCode.PRICE_UNAVAILABLE: "Ask again later, or spend credits.",
    ErrorCode.PAYMENT_FAILED: "Read the reason; make a new payment.",
    ErrorCode.PAYMENT_ALREADY_USED: (
        "Redeem with that request's key, or with the wallet that paid; or pay again."
    ),
    ErrorCode.PAYMENT_PENDING: "Send the same again, with the `Idempotency-Key` of the answer.",
    ErrorCode.PAYMENT_UNAVAILABLE: "Send the same again later.",
    ErrorCode.INVALID_PROOF: "Sign a new challenge with the wallet that paid.",
    ErrorCode.ROTATED_RECENTLY: "Wait, then rotate again.",
    ErrorCode.NOTHING_TO_ROTATE: "Use the credit token that has the credits.",
    ErrorCode.VALIDATION_ERROR: "Correct the fields that are named.",
    ErrorCode.DUPLICATE_APPLICATION: "Go on with that application's secret.",
    ErrorCode.INVALID_CREDENTIALS: "Check address and secret.",
    ErrorCode.NOT_APPROVED: "Wait for the e-mail.",
    ErrorCode.INVALID_SECRET_FORMAT: "Send `svc_app_...` whole.",
    ErrorCode.KEY_ALREADY_EXISTS: "Ask an administrator for a reset.",
    ErrorCode.ACCOUNT_NOT_FOUND: "Apply again.",
    ErrorCode.INSUFFICIENT_SCOPE: "Use a key that has the scope.",
    ErrorCode.OWNER_ONLY: "Change it under Settings > API keys.",
    ErrorCode.IDEMPOTENCY_KEY_USED: "Send another key; nothing was done.",
    ErrorCode.BAD_REQUEST: "Correct the request as the message says.",
    ErrorCode.NOT_FOUND: "Check the path; it is taken literally.",
    ErrorCode.METHOD_NOT_ALLOWED: "Use one that `Allow` names.",
    ErrorCode.REQUEST_TIMEOUT: "Send it again, without pauses.",
    ErrorCode.PAYLOAD_TOO_LARGE: "Send a smaller body.",
    ErrorCode.HEADERS_TOO_LARGE: "Send fewer or shorter headers.",
    ErrorCode.INTERNAL_ERROR: "Send it again; report the request id.",
}
