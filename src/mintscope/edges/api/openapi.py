"""GET /openapi.json: the route table and the wire structs, as OpenAPI 3.1."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from mintscope import __version__
from mintscope.base.errors import ErrorCode
from mintscope.edges.api.errors import STATUS
from mintscope.edges.api.routes import Route
from mintscope.edges.api.wire import Meta
from mintscope.edges.server.request import Request, Response

REF: Final = "#/components/schemas/{name}"
EVERYWHERE: Final = (ErrorCode.BAD_REQUEST, ErrorCode.INTERNAL_ERROR)
RESPONSE_HEADERS: Final = {
    "X-Request-Id": "Names this request; quote it when something is wrong.",
}
PAYMENT_HEADERS: Final = {
    "PAYMENT-RESPONSE": "x402: what became of the payment, where one was presented.",
}
DEMAND_HEADERS: Final = {
    "PAYMENT-REQUIRED": "x402: what to pay, to whom; absent while there is no price.",
}
PENDING_HEADERS: Final = {
    "Retry-After": "Seconds to wait.",
    "Idempotency-Key": "With PAYMENT_PENDING, once, if none was sent: what to send it again with.",
}
CREDIT_HEADERS: Final = {
    "X-Credits-Remaining": "Credits left after this request, where a credit token paid.",
    "X-Data-Slot": "The last Solana slot the answer knows of.",
    "X-Data-Age-Ms": "Age of the data in milliseconds.",
    "X-Data-Status": "live, or degraded when the data is older than 30 s.",
}
CODE_HEADERS: Final = {
    "X-Error-Code": "The code, which the body does not carry.",
}
WAIT_HEADERS: Final = {
    "Retry-After": "Seconds to wait.",
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


class Document:
    """The document, made once."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._body = msgspec.json.encode(describe(routes))

    async def get(self, _call: Request) -> Response:
        """Answer with the document; it needs no envelope."""
        return Response(200, self._body)


def describe(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the OpenAPI document of *routes*."""
    shapes = (
        shape
        for route in routes
        for shape in (route.failing.body_type, route.data, route.body, route.answer)
    )
    types = [Meta, *dict.fromkeys(shape for shape in shapes if shape is not None)]
    schemas, components = msgspec.json.schema_components(types, ref_template=REF)
    names = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, names)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "mintscope",
            "version": __version__,
            "summary": "Real-time analytics for Solana tokens.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": PROOFS,
        },
    }


def _operation(route: Route, names: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": route.handler.__name__,
        "responses": {
            str(route.status): _success(route, names),
            **_refusals(route, names[route.failing.body_type]),
        },
    }
    if route.proofs:
        operation["security"] = [{name: [] for name in proof} for proof in route.proofs]
    parameters = _parameters(route)
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        content = {"application/json": {"schema": names[route.body]}}
        operation["requestBody"] = {"required": not route.proofs, "content": content}
    return operation


def _parameters(route: Route) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = [
        {
            "name": query.name,
            "in": "query",
            "required": True,
            "description": query.summary,
            "schema": {"type": "integer", "enum": list(query.choices)},
        }
        for query in route.query
    ]
    if route.parameter is not None:
        parameters.append(
            {
                "name": route.parameter,
                "in": "path",
                "required": True,
                "description": "Token mint address, base58 of 32 bytes.",
                "schema": {"type": "string", "minLength": 32, "maxLength": 44},
            }
        )
    return parameters


def _success(route: Route, names: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    headers = RESPONSE_HEADERS
    if route.is_charged:
        headers = headers | PAYMENT_HEADERS
        if ("creditToken",) in route.proofs:
            headers = headers | CREDIT_HEADERS
    schema: dict[str, Any] = {"type": "object"}
    if route.answer is not None:
        schema = names[route.answer]
    elif route.data is not None:
        schema = {
            "type": "object",
            "properties": {
                "success": {"const": True},
                "data": names[route.data],
                "meta": names[Meta],
            },
            "required": ["success", "data", "meta"],
        }
    return {
        "description": route.summary,
        "headers": _headers(headers),
        "content": {"application/json": {"schema": schema}},
    }


def _headers(texts: Mapping[str, str]) -> dict[str, Any]:
    return {
        name: {"description": text, "schema": {"type": "string"}} for name, text in texts.items()
    }


def _refusals(route: Route, failure: dict[str, Any]) -> dict[str, Any]:
    """Return one response for each status, naming the codes that share it."""
    by_status: dict[int, list[ErrorCode]] = {}
    for code in (*route.refusals, *EVERYWHERE):
        by_status.setdefault(STATUS[code], []).append(code)
    hidden = CODE_HEADERS if route.failing.hides_code else {}
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
    if ErrorCode.PAYMENT_REQUIRED in codes:
        headers |= DEMAND_HEADERS
    if ErrorCode.PAYMENT_FAILED in codes:
        headers |= PAYMENT_HEADERS
    if ErrorCode.PAYMENT_PENDING in codes:
        headers |= PENDING_HEADERS
    if ErrorCode.RATE_LIMITED in codes:
        headers |= WAIT_HEADERS
    return headers
