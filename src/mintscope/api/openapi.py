"""GET /openapi.json: the route table and the wire structs, as OpenAPI 3.1."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from mintscope import __version__
from mintscope.api.call import Call, Reply
from mintscope.api.errors import STATUS
from mintscope.api.routes import Route
from mintscope.api.wire import Failure, Meta
from mintscope.errors import ErrorCode

REF: Final = "#/components/schemas/{name}"
EVERYWHERE: Final = (ErrorCode.BAD_REQUEST, ErrorCode.INTERNAL_ERROR)
REPLY_HEADERS: Final = {
    "X-Request-Id": "Names this request; quote it when something is wrong.",
}
PAID_HEADERS: Final = {
    "X-Credits-Remaining": "Credits left after this request.",
    "X-Data-Slot": "The last Solana slot the answer knows of.",
    "X-Data-Age-Ms": "Age of the data in milliseconds.",
    "X-Data-Status": "live, or degraded when the data is older than 30 s.",
}


class Document:
    """The document, made once."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._body = msgspec.json.encode(describe(routes))

    async def get(self, _call: Call) -> Reply:
        """Answer with the document; it needs no envelope."""
        return Reply(200, self._body)


def describe(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the OpenAPI document of *routes*."""
    types = [Meta, Failure, *(route.data for route in routes if route.data is not None)]
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
            "securitySchemes": {
                "creditToken": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "svc_credit_<64 hex>",
                    "description": "A prepaid credit token; token data takes one credit.",
                }
            },
        },
    }


def _operation(route: Route, names: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": route.handler.__name__,
        "responses": {
            "200": _success(route, names),
            **_refusals((*route.refusals, *EVERYWHERE), names[Failure]),
        },
    }
    if route.needs_credit_token:
        operation["security"] = [{"creditToken": []}]
    if route.parameter is not None:
        operation["parameters"] = [
            {
                "name": route.parameter,
                "in": "path",
                "required": True,
                "description": "Token mint address, base58 of 32 bytes.",
                "schema": {"type": "string", "minLength": 32, "maxLength": 44},
            }
        ]
    return operation


def _success(route: Route, names: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    headers = REPLY_HEADERS | (PAID_HEADERS if route.takes_credit else {})
    schema: dict[str, Any] = {"type": "object"}
    if route.data is not None:
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
        "headers": {
            name: {"description": text, "schema": {"type": "string"}}
            for name, text in headers.items()
        },
        "content": {"application/json": {"schema": schema}},
    }


def _refusals(codes: Iterable[ErrorCode], failure: dict[str, Any]) -> dict[str, Any]:
    """Return one response for each status, naming the codes that share it."""
    by_status: dict[int, list[ErrorCode]] = {}
    for code in codes:
        by_status.setdefault(STATUS[code], []).append(code)
    return {
        str(status): {
            "description": ", ".join(codes),
            "content": {"application/json": {"schema": failure}},
        }
        for status, codes in sorted(by_status.items())
    }
