"""Converts responses, which may contain any bytes, to data or exceptions."""

from collections.abc import Hashable
from functools import cache
from typing import Any, Final, Generic, TypeVar

import httpx
import msgspec

from mintscope_client.calls.call import Answered, ApiCall
from mintscope_client.calls.pacing import retry_after_s
from mintscope_client.decoding import Undecodable, decode_base64, decode_json
from mintscope_client.errors import UNKNOWN, RefusedError, UnreadableError, refusal_kind

PAYMENT_RESPONSE: Final = "PAYMENT-RESPONSE"  # not imported: the package x402 may be missing
SAID_MAX: Final = 500  # the most characters kept of a message, code or request id

Data = TypeVar("Data")


class _Envelope(msgspec.Struct, Generic[Data], frozen=True):
    data: Data


class _Reason(msgspec.Struct, frozen=True):
    code: str
    message: str


class _RefusalBody(msgspec.Struct, frozen=True):
    error: _Reason


class _Receipt(msgspec.Struct, frozen=True):
    signature: str


class _ReceiptInfo(msgspec.Struct, frozen=True):
    receipt: _Receipt


class _OfferReceipt(msgspec.Struct, frozen=True):
    info: _ReceiptInfo


class _Extensions(msgspec.Struct, frozen=True, rename={"offer_receipt": "offer-receipt"}):
    offer_receipt: _OfferReceipt


class _Settlement(msgspec.Struct, frozen=True):
    extensions: _Extensions


class _Message(msgspec.Struct, frozen=True):
    message: str


class _MessagesBody(msgspec.Struct, frozen=True):
    messages: list[_Message]


_SETTLEMENT: Final = msgspec.json.Decoder(_Settlement)
_MESSAGES: Final = msgspec.json.Decoder(_MessagesBody)
_REFUSAL: Final = msgspec.json.Decoder(_RefusalBody)


@cache
def _decoder(kind: Hashable) -> Any:
    generic: Any = _Envelope
    return msgspec.json.Decoder(generic[kind])


@cache
def _bare_decoder(kind: Hashable) -> Any:
    bare: Any = kind
    return msgspec.json.Decoder(bare)


def read_answer(call: ApiCall[Data], response: httpx.Response, *, now_ms: int) -> Answered[Data]:
    """Return the answer in *response*: its data, and the values of its headers.

    Raises    RefusedError; UnreadableError if a successful answer is not as documented
    """
    if not response.is_success:
        raise refusal(response, now_ms=now_ms)
    kind: Any = call.kind
    try:
        if call.is_enveloped:
            data: Data = decode_json(response.content, _decoder(kind)).data
        else:
            data = decode_json(response.content, _bare_decoder(kind))
    except Undecodable as cause:
        raise UnreadableError(
            f"expected an answer to {call.method} {call.path} as documented; {cause}",
            status=response.status_code,
        ) from cause
    headers = response.headers
    return Answered(
        data=data,
        credits_left=_integer(headers.get("X-Credits-Remaining")),
        data_slot=_integer(headers.get("X-Data-Slot")),
        data_age_ms=_integer(headers.get("X-Data-Age-Ms")),
        is_degraded=headers.get("X-Data-Status") == "degraded",
        is_idle=headers.get("X-Data-Status") == "idle",
        request_id=_said(headers.get("X-Request-Id")),
        receipt=_receipt(headers.get(PAYMENT_RESPONSE)),
        status=response.status_code,
        headers={name.lower(): value for name, value in headers.items()},
    )


def refusal(response: httpx.Response, *, now_ms: int, key: str | None = None) -> RefusedError:
    """Return the exception for *response*, an error of the service.

    key   the key of a payment that may still land, for the exception; None: there is none
    """
    try:
        reason = decode_json(response.content, _REFUSAL).error
    except Undecodable:
        reason = _of_exchange(response)
    code = reason.code[:SAID_MAX]
    return refusal_kind(response.status_code, code)(
        reason.message[:SAID_MAX],
        status=response.status_code,
        code=code,
        request_id=_said(response.headers.get("X-Request-Id")),
        retry_after_s=retry_after_s(response.headers, now_ms=now_ms),
        key=key,
    )


def _of_exchange(response: httpx.Response) -> _Reason:
    """Return the reason for which the exchange of a secret for an API key was refused.

    Its code is UNKNOWN if the response has no header `X-Error-Code`.
    """
    code = response.headers.get("X-Error-Code")
    if code is None:
        return _Reason(UNKNOWN, "the answer cannot be read")
    try:
        messages = decode_json(response.content, _MESSAGES).messages
    except Undecodable:
        messages = []
    return _Reason(
        code, "; ".join(each.message for each in messages) or "the answer has no message"
    )


def _integer(text: str | None) -> int | None:
    if text is None or not (text.isascii() and text.isdigit() and len(text) < 20):  # noqa: PLR2004
        return None
    return int(text)


def _receipt(header: str | None) -> str | None:
    """Return the signed receipt in *header*, the PAYMENT-RESPONSE; None if it has no receipt."""
    try:
        settled = decode_json(decode_base64(header or ""), _SETTLEMENT)
    except Undecodable:
        return None
    return settled.extensions.offer_receipt.info.receipt.signature


def _said(text: str | None) -> str | None:
    return None if text is None else text[:SAID_MAX]
