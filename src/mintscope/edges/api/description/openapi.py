"""GET /openapi.json: the operations and the wire structs as OpenAPI 3.1."""

from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import Any, Final

import msgspec

from mintscope import __version__
from mintscope.base.errors import ErrorCode
from mintscope.edges.api.description.operation import JSON_TYPE, Operation
from mintscope.edges.api.failures import ENVELOPE, STATUS
from mintscope.edges.api.wire import Meta
from mintscope.edges.server.content import compress, etag_of
from mintscope.edges.server.request import Request
from mintscope.edges.server.response import Response

REF: Final = "#/components/schemas/{name}"
EVERYWHERE: Final = (ErrorCode.BAD_REQUEST, ErrorCode.INTERNAL_ERROR)
RESPONSE_HEADERS: Final = {"X-Request-Id": "Names this request; quote it when something is wrong."}
PAYMENT_HEADERS: Final = {
    "PAYMENT-RESPONSE": "x402: what became of the payment, where one was presented."
}
CREDIT_HEADERS: Final = {
    "X-Credits-Remaining": "Credits left after this request, where some were taken.",
    "X-Data-Slot": "The last Solana slot the answer knows of.",
    "X-Data-Age-Ms": "Age of the data in milliseconds.",
    "X-Data-Status": "live, or degraded when the data is older than 30 s.",
}
CODE_HEADERS: Final = {"X-Error-Code": "The code, which the body does not carry."}
WAIT_HEADERS: Final = {"Retry-After": "Seconds to wait."}
REFUSAL_HEADERS: Final = {
    ErrorCode.PAYMENT_REQUIRED: {
        "PAYMENT-REQUIRED": "x402: what to pay, to whom; absent while there is no price."
    },
    ErrorCode.PAYMENT_FAILED: PAYMENT_HEADERS,
    ErrorCode.PAYMENT_PENDING: WAIT_HEADERS
    | {
        "Idempotency-Key": "With PAYMENT_PENDING, once, if none was sent:"
        " what to send it again with."
    },
    ErrorCode.RATE_LIMITED: WAIT_HEADERS,
    ErrorCode.SERVICE_UNAVAILABLE: WAIT_HEADERS,
}
ADDRESS: Final = {"type": "string", "minLength": 32, "maxLength": 44}
PATH_PARAMS: Final = {
    "tokenAddress": ("Token mint address, base58 of 32 bytes.", ADDRESS),
    "keyId": ("The keyId of an API key, as GET /v1/account lists it.", {"type": "string"}),
    "wallet": ("Address of the wallet, base58 of 32 bytes.", ADDRESS),
}
PROOFS: Final = {
    "apiKey": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "svc_live_<80 hex>",
        "description": "An API key, from POST /api/auth/exchange-secret or made by a person under"
        " Settings > API Keys; it acts for its owner within its scopes.",
    },
    "creditToken": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "svc_credit_<64 hex>",
        "description": "A prepaid credit token; token data takes one credit.",
    },
    "x402": {
        "type": "apiKey",
        "in": "header",
        "name": "PAYMENT-SIGNATURE",
        "description": "A payment of x402 version 2, scheme exact, on the terms of"
        " PAYMENT-REQUIRED. Sent again with the same Idempotency-Key (16 to 128 letters, digits,"
        " '-', '_'; hard to guess) within a day, it is answered again and not taken again.",
    },
}


class OpenApiDocument:
    """The document, made and compressed when it is first asked for."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._operations = operations

    @cached_property
    def _body(self) -> bytes:
        return msgspec.json.encode(describe(self._operations))

    @cached_property
    def _gzipped(self) -> bytes | None:
        return compress(self._body)

    async def get(self, _call: Request) -> Response:
        """Answer with the document; it needs no envelope."""
        return Response(200, self._body, etag=etag_of(self._body), gzipped=self._gzipped)


def describe(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the OpenAPI document of *operations*."""
    shapes = (
        shape
        for operation in operations
        for shape in (operation.error_format.body_type, operation.data, operation.body)
    )
    types = [Meta, *dict.fromkeys(shape for shape in shapes if shape is not None)]
    schemas, components = _schemas(tuple(types))
    names = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _describe(operation, names)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "mintscope",
            "version": __version__,
            "summary": "Real-time analytics for Solana tokens.",
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": PROOFS},
    }


@cache
def _schemas(types: tuple[Any, ...]) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    return msgspec.json.schema_components(types, ref_template=REF)


def _describe(operation: Operation, names: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "summary": operation.summary,
        "operationId": operation.endpoint.__name__,
        "responses": {
            str(operation.status): _success(operation, names),
            **_refusals(operation, names[operation.error_format.body_type]),
        },
    }
    if operation.proofs:
        described["security"] = [{name: [] for name in proof} for proof in operation.proofs]
    parameters = _parameters(operation)
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        content = {"application/json": {"schema": names[operation.body]}}
        described["requestBody"] = {"required": not operation.proofs, "content": content}
    return described


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    parameters = [] if operation.query is None else _query_parameters(operation.query)
    name = operation.path_param
    if name is not None:
        text, schema = PATH_PARAMS[name]
        parameters.append(
            {"name": name, "in": "path", "required": True, "description": text, "schema": schema}
        )
    return parameters


def _query_parameters(shape: type[msgspec.Struct]) -> list[dict[str, Any]]:
    """Return the fields of a query; their schemas say what each is."""
    schema = msgspec.json.schema(shape)
    fields = schema["$defs"][shape.__name__]
    required = fields.get("required", ())
    return [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            "description": field.pop("description"),
            "schema": field,
        }
        | ({"style": "form", "explode": False} if field.get("type") == "array" else {})
        for name, field in fields["properties"].items()
    ]


def _success(operation: Operation, names: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    headers = RESPONSE_HEADERS
    if operation.is_charged:
        headers = headers | PAYMENT_HEADERS
        if ("creditToken",) in operation.proofs:
            headers = headers | CREDIT_HEADERS
    schema = names[operation.data]
    if operation.error_format is ENVELOPE and operation.media_type == JSON_TYPE:
        schema = {
            "type": "object",
            "properties": {
                "success": {"const": True},
                "data": schema,
                "meta": names[Meta],
            },
            "required": ["success", "data", "meta"],
        }
    return {
        "description": operation.summary,
        "headers": _headers(headers),
        "content": {operation.media_type: {"schema": schema}},
    }


def _headers(texts: Mapping[str, str]) -> dict[str, Any]:
    return {
        name: {"description": text, "schema": {"type": "string"}} for name, text in texts.items()
    }


def _refusals(operation: Operation, failure: dict[str, Any]) -> dict[str, Any]:
    """Return one response for each status, naming the codes that share it."""
    by_status: dict[int, list[ErrorCode]] = {}
    for code in (*operation.refusals, *EVERYWHERE):
        by_status.setdefault(STATUS[code], []).append(code)
    hidden = CODE_HEADERS if operation.error_format.hides_code else {}
    return {
        str(status): {
            "description": ", ".join(codes),
            "headers": _headers(_refusal_headers(codes) | hidden),
            "content": {"application/json": {"schema": failure}},
        }
        for status, codes in sorted(by_status.items())
    }


def _refusal_headers(codes: Sequence[ErrorCode]) -> dict[str, str]:
    headers = dict(RESPONSE_HEADERS)
    for code, texts in REFUSAL_HEADERS.items():
        headers |= texts if code in codes else {}
    return headers
