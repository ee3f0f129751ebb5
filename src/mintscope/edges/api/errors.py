"""The one table from wire code to HTTP status."""

from collections.abc import Mapping
from typing import Final

from mintscope.base.errors import ErrorCode

STATUS: Final[Mapping[ErrorCode, int]] = {
    ErrorCode.INVALID_TOKEN_ADDRESS: 400,
    ErrorCode.TOKEN_NOT_FOUND: 404,
    ErrorCode.INSUFFICIENT_DATA: 404,
    ErrorCode.MISSING_TOKEN: 401,
    ErrorCode.INVALID_TOKEN: 401,
    ErrorCode.PAYMENT_REQUIRED: 402,
    ErrorCode.INSUFFICIENT_CREDITS: 402,
    ErrorCode.RATE_LIMITED: 429,
    ErrorCode.DATA_STALE: 503,
    ErrorCode.SERVICE_UNAVAILABLE: 503,
    ErrorCode.INVALID_BUNDLE: 400,
    ErrorCode.INVALID_PAYMENT: 400,
    ErrorCode.PRICE_UNAVAILABLE: 503,
    ErrorCode.PAYMENT_FAILED: 402,
    ErrorCode.PAYMENT_ALREADY_USED: 409,
    ErrorCode.PAYMENT_PENDING: 503,
    ErrorCode.PAYMENT_UNAVAILABLE: 503,
    ErrorCode.INVALID_PROOF: 401,
    ErrorCode.ROTATED_RECENTLY: 409,
    ErrorCode.VALIDATION_ERROR: 400,
    ErrorCode.DUPLICATE_APPLICATION: 409,
    ErrorCode.INVALID_CREDENTIALS: 401,
    ErrorCode.NOT_APPROVED: 401,
    ErrorCode.INVALID_SECRET_FORMAT: 401,
    ErrorCode.KEY_ALREADY_EXISTS: 409,
    ErrorCode.ACCOUNT_NOT_FOUND: 404,
    ErrorCode.INSUFFICIENT_SCOPE: 403,
    ErrorCode.BAD_REQUEST: 400,
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.METHOD_NOT_ALLOWED: 405,
    ErrorCode.REQUEST_TIMEOUT: 408,
    ErrorCode.PAYLOAD_TOO_LARGE: 413,
    ErrorCode.HEADERS_TOO_LARGE: 431,
    ErrorCode.INTERNAL_ERROR: 500,
}
