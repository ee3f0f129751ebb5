"""Answers of an operation: its success, and each refusal, with headers and examples."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from mintscope.base.errors import ErrorCode, RateLimited, ServiceError
from mintscope.base.primitives import UnixMs
from mintscope.base.solana import USDC
from mintscope.core.payments.protocol.requirement import MAINNET
from mintscope.edges.api.description.operation import EVENTS_TYPE, JSON_TYPE, Operation
from mintscope.edges.api.description.remedies import REMEDIES
from mintscope.edges.api.description.schemas import Examples, Schema
from mintscope.edges.api.failures import CODES, ENVELOPE, STATUS, UNAUTHORIZED
from mintscope.edges.api.wire import (
    EXAMPLE_WALLET,
    AcceptedAsset,
    HowToPay,
    Meta,
)

EVERYWHERE: Final = (ErrorCode.BAD_REQUEST, ErrorCode.INTERNAL_ERROR)
EXAMPLE_AT: Final = UnixMs(1_763_460_000_000)
EXAMPLE_REQUEST_ID: Final = b"5f0c1d2e0000002a"
EXAMPLE_REF: Final = "#/components/examples/"
EXAMPLE_ORIGIN: Final = "https://api.example"
RESPONSE_HEADERS: Final = {"X-Request-Id": "Names this request; quote it when something is wrong."}
LIMIT_HEADERS: Final = {
    "RateLimit": "The rest of the limit: r requests for t seconds.",
    "RateLimit-Policy": "The limit: q requests in any w seconds.",
}
PAYMENT_HEADERS: Final = {
    "PAYMENT-RESPONSE": "x402: the outcome of a payment; a signed receipt if it has settled."
}
CREDIT_HEADERS: Final = {
    "X-Credits-Remaining": "Credits left after this request, where some were taken.",
    "Idempotent-Replayed": "true: the answer was paid for before, under the same key.",
    "X-Data-Slot": "The last Solana slot the answer knows of.",
    "X-Data-Age-Ms": "Age of the data in milliseconds.",
    "X-Data-Status": "live; degraded if the data is older than 30 s; else idle if no swap has set"
    " the price of the token for 5 minutes.",
}
ETAG: Final = {"ETag": "Names what is said; send it back as If-None-Match."}
CODE_HEADERS: Final = {"X-Error-Code": "The code, which the body does not carry."}
WAIT_HEADERS: Final = {"Retry-After": "Seconds to wait."}
CHALLENGE_HEADERS: Final = {"WWW-Authenticate": "How to authenticate: Bearer."}
REFUSAL_HEADERS: Final = {
    ErrorCode.PAYMENT_REQUIRED: {
        "PAYMENT-REQUIRED": "x402: what to pay, to whom; absent while there is no price."
    },
    ErrorCode.PAYMENT_FAILED: PAYMENT_HEADERS,
    **dict.fromkeys(CODES[UNAUTHORIZED], CHALLENGE_HEADERS),
    ErrorCode.PAYMENT_PENDING: WAIT_HEADERS
    | {
        "Idempotency-Key": "With PAYMENT_PENDING, once, if none was sent:"
        " what to send it again with."
    },
    ErrorCode.RATE_LIMITED: WAIT_HEADERS | LIMIT_HEADERS,
    ErrorCode.SERVICE_UNAVAILABLE: WAIT_HEADERS,
}
HOW_TO_PAY: Final = HowToPay(
    price_usd="0.0025",
    accepts=[
        AcceptedAsset(
            asset=USDC,
            symbol="USDC",
            decimals=6,
            amount="2500",
            network=MAINNET,
            pay_to=EXAMPLE_WALLET,
        )
    ],
    read=f"{EXAMPLE_ORIGIN}/llms.txt",
    buy=f"{EXAMPLE_ORIGIN}/v1/credits/purchase?bundle=10",
)
WITH_TERMS: Final = (
    ErrorCode.PAYMENT_REQUIRED,
    ErrorCode.PAYMENT_FAILED,
    ErrorCode.INSUFFICIENT_CREDITS,
)


def success_of(
    operation: Operation, names: Mapping[Any, Schema], examples: Examples
) -> dict[str, Any]:
    """Return the response of a call that is answered."""
    headers = RESPONSE_HEADERS
    if operation.is_charged:
        headers = headers | PAYMENT_HEADERS
        if ("creditToken",) in operation.proofs:
            headers = headers | CREDIT_HEADERS
    if operation.is_conditional:
        headers = headers | ETAG
    schema = names[operation.data]
    example: Any
    if operation.media_type == EVENTS_TYPE:
        shape = examples.resolved(schema)
        schema = _events_of(shape)
        example = _event_of(shape, examples)
    else:
        example = examples.of(schema)
    if operation.media_type == JSON_TYPE and operation.error_format is ENVELOPE:
        parts = {"success": {"const": True}, "data": schema, "meta": names[Meta]}
        schema = {"type": "object", "properties": parts, "required": list(parts)}
        example = {"success": True, "data": example, "meta": examples.of(names[Meta])}
    return {
        "description": operation.summary,
        "headers": _headers(headers),
        "content": {operation.media_type: {"schema": schema, "example": example}},
    }


def _event_of(shape: Schema, examples: Examples) -> dict[str, str]:
    """Return an example of the first event that a stream sends."""
    name, data = next(iter(shape["properties"].items()))
    return {"event": name, "data": msgspec.json.encode(examples.of(data)).decode()}


def _events_of(shape: Schema) -> Schema:
    """Return what a stream sends, event by event; *shape* has the data of each by its name."""
    return {
        "oneOf": [
            {
                "type": "object",
                "description": data["description"],
                "properties": {
                    "event": {"const": name},
                    "data": {
                        "type": "string",
                        "contentMediaType": JSON_TYPE,
                        "contentSchema": {"$ref": data["$ref"]},
                    },
                    "id": {"type": "string", "description": "Send it back as Last-Event-ID."},
                    "retry": {"type": "integer", "description": "Wait so many milliseconds."},
                },
                "required": ["event", "data"],
            }
            for name, data in shape["properties"].items()
        ]
    }


def unchanged_of(operation: Operation) -> dict[str, Any]:
    """Return the response to a client that has the success already, where there is one."""
    if not operation.is_conditional:
        return {}
    text = "The client has it already, as If-None-Match says: nothing was charged."
    return {"304": {"description": text, "headers": _headers(RESPONSE_HEADERS | ETAG)}}


def refusals_of(operation: Operation, failure: Schema) -> dict[str, Any]:
    """Return one response for each status, with an example of each code that shares it.

    The examples are those of `examples_of`, by reference: they are the same everywhere.
    """
    by_status: dict[int, list[ErrorCode]] = {}
    for code in dict.fromkeys((*operation.refusals, *EVERYWHERE)):
        by_status.setdefault(STATUS[code], []).append(code)
    hidden = CODE_HEADERS if operation.error_format.hides_code else {}
    return {
        str(status): {
            "description": ", ".join(codes),
            "headers": _headers(_refusal_headers(codes) | hidden),
            "content": {
                "application/json": {
                    "schema": failure,
                    "examples": {
                        str(code): {"$ref": EXAMPLE_REF + _name_of(operation, code)}
                        for code in codes
                    },
                }
            },
        }
        for status, codes in sorted(by_status.items())
    }


def examples_of(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return an example of every refusal, written by what writes it, by the name that it has."""
    return {
        _name_of(operation, code): _example_of(operation, code)
        for operation in operations
        for code in (*operation.refusals, *EVERYWHERE)
    }


def _name_of(operation: Operation, code: ErrorCode) -> str:
    """Return the name of an example: each format has its own."""
    return f"{operation.error_format.body_type.__name__}.{code}"


def _example_of(operation: Operation, code: ErrorCode) -> dict[str, Any]:
    meaning = meaning_of(code)
    error = _told(meaning, code)
    body = operation.error_format.write(error, at=EXAMPLE_AT, request_id=EXAMPLE_REQUEST_ID)
    value = msgspec.json.decode(body)
    return {"summary": meaning, "description": REMEDIES[code], "value": value}


def meaning_of(code: ErrorCode) -> str:
    """Return what *code* means, in a sentence: what the class of the error says."""
    found = next(each for each in _kinds(ServiceError) if each.code is code)
    return (found.__doc__ or "").partition("\n")[0]


def _kinds(kind: type[ServiceError]) -> Iterator[type[ServiceError]]:
    for each in kind.__subclasses__():
        yield each
        yield from _kinds(each)


def _told(meaning: str, code: ErrorCode) -> ServiceError:
    """Return an error of any code, for an example."""
    if code is ErrorCode.RATE_LIMITED:
        return RateLimited(30)
    error = ServiceError(meaning)
    error.code = code  # type: ignore[misc]  # of this one alone
    error.details = HOW_TO_PAY if code in WITH_TERMS else None
    return error


def headers_described() -> dict[str, Any]:
    """Return every header that an answer may have, by its name."""
    everything: dict[str, str] = RESPONSE_HEADERS | PAYMENT_HEADERS | CREDIT_HEADERS
    everything |= CODE_HEADERS | ETAG
    for texts in REFUSAL_HEADERS.values():
        everything |= texts
    return {
        name: {"description": text, "schema": {"type": "string"}}
        for name, text in everything.items()
    }


def _headers(names: Iterable[str]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _refusal_headers(codes: Sequence[ErrorCode]) -> dict[str, str]:
    headers = dict(RESPONSE_HEADERS)
    for code, texts in REFUSAL_HEADERS.items():
        headers |= texts if code in codes else {}
    return headers
