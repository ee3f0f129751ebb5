"""OpenAPI document of the API."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from mintscope import __version__
from mintscope.api.discovery import responses
from mintscope.api.discovery.operation import (
    API_KEY,
    EVENTS_TYPE,
    TAGS,
    X402,
    Operation,
    PriceRange,
)
from mintscope.api.wire import EXAMPLE_WALLET, Meta
from mintscope.kit.errors import ErrorCode
from mintscope.kit.primitives import ADDRESS
from mintscope.payments.pricing import BUNDLES, REQUEST_USD
from mintscope.solana.blocks import WSOL

IDENTITY_TAGS: Final = ("solana", "token-analytics", "technical-indicators", "market-data", "rsi")
DESCRIPTION: Final = (
    "Real-time analytics of any Solana token that is tracked here: price in USD and SOL, EMA, RSI,"
    " MACD, Fibonacci levels and buy and sell pressure from 1 minute to 1 day, computed from the"
    " swaps on chain. Paid per request by x402 or with prepaid credits, without an account. A"
    " response of 400 or above costs nothing."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The public name, address and contact of the service.

    origin      the address at which clients reach the service, such as `https://api.example`
    name        at most 32 ASCII characters
    contact     `mailto:` or https URL of the operator; None if no contact is published
    has_pages   whether there are pages for people, with an icon
    """

    origin: str
    name: str = "mintscope"
    contact: str | None = None
    has_pages: bool = True
    description: str = DESCRIPTION

    @property
    def icon(self) -> str | None:
        """The URL of the service's icon; None if there are no pages."""
        return f"{self.origin}/favicon.ico" if self.has_pages else None

    def contact_fields(self) -> dict[str, str]:
        """Return the `contact` of the OpenAPI document; empty if no contact is published."""
        if self.contact is None:
            return {}
        email = self.contact.removeprefix("mailto:")
        return {"email": email} if email != self.contact else {"url": self.contact}

    def guidance(self) -> str:
        """Return the guide of the OpenAPI document: how an agent pays for its first call."""
        most = BUNDLES[-1]
        return (
            f"Try GET {self.origin}/v1/token/So11111111111111111111111111111111111111112 (wrapped"
            " SOL). Without payment, the response is a 402 with PAYMENT-REQUIRED: sign a payment"
            " and send the request again with PAYMENT-SIGNATURE (x402 v2, exact, Solana),"
            f" {REQUEST_USD} USD a call. For many calls buy credits once, POST"
            f" /v1/credits/purchase?bundle=10 (up to {most.credits}, {most.discount_percent} %"
            " cheaper), and send Authorization: Bearer svc_credit_...; each call then takes one"
            " credit and does not wait for the chain. Send an Idempotency-Key of 16 or more"
            " characters, hard to guess, with every payment, and the same key with every retry: if"
            " a response was lost, the retry returns it. After 503 PAYMENT_PENDING do not pay"
            " again; send the same request again. Errors cost nothing. Prices are of one whole"
            f" token; times are Unix seconds. All steps are in {self.origin}/llms.txt"
        )


PROOFS: Final = {
    API_KEY: {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "svc_live_<80 hex>",
        "description": "An API key, from POST /api/auth/exchange-secret or created by a person"
        " under Settings > API Keys; it acts for its owner within its scopes.",
    },
    "creditToken": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "svc_credit_<64 hex>",
        "description": "A prepaid credit token. Every endpoint that accepts it also accepts an API"
        " key (svc_live_) with the scope trade:read, which spends the credits of"
        " its account.",
    },
}
# OpenAPI has no notion of payments as credentials, so a payment is an optional header.
PAYMENT_SIGNATURE: Final = {
    "name": "PAYMENT-SIGNATURE",
    "in": "header",
    "required": False,
    "description": "A payment of x402 version 2, scheme exact, on the terms of PAYMENT-REQUIRED:"
    " base64 of JSON.",
    "schema": {"type": "string", "maxLength": 8192},
}
SIGN_IN_WITH_X: Final = {
    "name": "SIGN-IN-WITH-X",
    "in": "header",
    "required": False,
    "description": "The challenge of a 402, signed by a wallet that has bought credits: the"
    " request is paid for with those credits. The value is base64 of JSON, as"
    " defined by sign-in-with-x of x402. Each signature pays once.",
    "schema": {"type": "string", "maxLength": 4096},
}
IDEMPOTENCY_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A key for this request, hard to guess. If a response was lost, send the"
    " request again with the same key: you get the same response, and the request"
    " is neither executed nor paid for twice. This works for a day for payments,"
    " and for ten minutes for credits and applications.",
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-]{16,128}$"},
    "example": "1f0e9d8c7b6a59483726150403020100",
}
IF_NONE_MATCH: Final = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": (
        "The ETag of an earlier response: the response is 304 if nothing has changed since."
    ),
    "schema": {"type": "string"},
    "example": 'W/"5f0c1d2e3b4a59687f0e1d2c"',
}
MINT: Final = {
    "type": "string",
    "format": ADDRESS,
    "minLength": 32,
    "maxLength": 44,
}
PATH_PARAMS: Final[Mapping[str, tuple[str, responses.Schema, str]]] = {
    "tokenAddress": ("Token mint address, base58 of 32 bytes.", MINT, WSOL),
    "keyId": ("The keyId of an API key, as GET /v1/account lists it.", {"type": "string"}, "3"),
    "groupId": ("The groupId of a watchlist, as GET /v1/groups lists it.", {"type": "string"}, "7"),
    "signalId": ("The signalId, as GET /v1/signals lists it.", {"type": "string"}, "7"),
    "mint": ("Mint address of a token, base58 of 32 bytes.", MINT, WSOL),
    "wallet": ("Address of the wallet, base58 of 32 bytes.", MINT, EXAMPLE_WALLET),
}


def describe(operations: Sequence[Operation], identity: Identity) -> dict[str, Any]:
    """Return the OpenAPI document of *operations* for the service *identity*."""
    shapes = (
        shape
        for operation in operations
        for shape in (operation.error_format.body_type, operation.data, operation.body)
    )
    types = [Meta, *dict.fromkeys(shape for shape in shapes if shape is not None)]
    queries = [each.query for each in operations if each.query is not None]
    # Schemas that are inlined where they are used.
    inline = {each.__name__ for each in queries}
    inline |= {each.data.__name__ for each in operations if each.media_type == EVENTS_TYPE}
    schemas, components = responses.schemas_of((*types, *queries))
    names = dict(zip(types, schemas, strict=False))  # the other schemas are those of queries
    examples = responses.Examples(components)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        described = _describe(operation, names, examples)
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": _info(identity),
        "servers": [{"url": identity.origin}],
        "tags": [
            {"name": name, "description": text}
            for name, text in {tag.name: tag.description for tag in TAGS}.items()
        ],
        "paths": paths,
        "components": {
            "schemas": {name: schema for name, schema in components.items() if name not in inline},
            "examples": responses.examples_of(operations),
            "headers": responses.headers_described(),
            "securitySchemes": PROOFS,
        },
        "x-agentcash-guidance": {"llmsTxtUrl": f"{identity.origin}/llms.txt"},
    }


def _info(identity: Identity) -> dict[str, Any]:
    return {
        "title": identity.name,
        "version": __version__,
        "summary": "Real-time analytics for Solana tokens.",
        "description": identity.description,
        "contact": {"name": identity.name, "url": identity.origin} | identity.contact_fields(),
        "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        "x-guidance": identity.guidance(),
    }


def _describe(
    operation: Operation, names: Mapping[Any, responses.Schema], examples: responses.Examples
) -> dict[str, Any]:
    described: dict[str, Any] = {
        "summary": operation.summary,
        "description": operation.text,
        "operationId": operation.name,
        "tags": [operation.tag],
        "security": _security(operation),
        "x-cost": operation.cost,
        "responses": {
            str(operation.status): responses.success_of(operation, names, examples),
            **responses.unchanged_of(operation),
            **responses.refusals_of(operation, names[operation.error_format.body_type]),
        },
    }
    if operation.is_payable:
        described["x-payment-info"] = payment_info(operation.price)
    parameters = parameters_of(operation)
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        schema = names[operation.body]
        content = {"application/json": {"schema": schema, "example": examples.of(schema)}}
        # `()` among the proofs: the body is a proof, and a request with a credential has no body.
        described["requestBody"] = {"required": () not in operation.proofs, "content": content}
    return described


def _security(operation: Operation) -> list[dict[str, list[str]]]:
    """Return the credentials that *operation* accepts; an empty entry means that none are needed.

    If a payment is accepted, too, only the credit token is named, and its description mentions API
    keys: catalogs of APIs assume that routes with API keys are closed to strangers.
    """
    needs = [
        {name: list[str]() for name in proof if name != X402}
        for proof in operation.proofs
        if not operation.is_payable or API_KEY not in proof
    ]
    # A request without credentials gets the price, as on a route that takes payments.
    is_priced = ErrorCode.PAYMENT_REQUIRED in operation.refusals
    return [*needs, {}] if is_priced and {} not in needs else needs


def payment_info(price: PriceRange) -> dict[str, Any]:
    """Return the OpenAPI fields from which x402scan reads *price*, in its new and its old form."""
    least, most = (f"{each.normalize():f}" for each in price)
    protocols: list[dict[str, Any]] = [{"x402": {}}]
    if least == most:
        now = {"mode": "fixed", "currency": "USD", "amount": least}
        return {"pricingMode": "fixed", "price": now, "protocols": protocols}
    now = {"mode": "dynamic", "currency": "USD", "min": least, "max": most}
    before = {"pricingMode": "range", "minPrice": least, "maxPrice": most}
    return before | {"price": now, "protocols": protocols}


def parameters_of(operation: Operation) -> list[dict[str, Any]]:
    """Return the parameters of a request for *operation*: query, path and headers."""
    parameters = [] if operation.query is None else _query_parameters(operation.query)
    for name in operation.path_params:
        text, schema, example = PATH_PARAMS[name]
        parameters.append(
            {
                "name": name,
                "in": "path",
                "required": True,
                "description": text,
                "schema": schema,
                "example": example,
            }
        )
    if operation.is_conditional:
        parameters.append(IF_NONE_MATCH)
    if operation.is_payable:
        parameters.append(PAYMENT_SIGNATURE)
    if operation.takes_sign_in:
        parameters.append(SIGN_IN_WITH_X)
    if operation.takes_key or operation.is_payable:
        parameters.append(IDEMPOTENCY_KEY)
    return parameters


def _query_parameters(shape: type[msgspec.Struct]) -> list[dict[str, Any]]:
    """Return the fields of the query *shape* as OpenAPI parameters, with their schemas."""
    components = responses.schemas_of((shape,))[1]
    fields = components[shape.__name__]
    examples = responses.Examples(components)
    required = fields.get("required", ())
    return [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            "description": field.get("description", ""),
            "schema": _of_field(field, examples.resolved(field)),
        }
        | ({"example": field["examples"][0]} if "examples" in field else {})
        | ({"style": "form", "explode": False} if field.get("type") == "array" else {})
        for name, field in fields["properties"].items()
    ]


def _of_field(field: responses.Schema, resolved: responses.Schema) -> responses.Schema:
    """Return the schema of *field* without its description.

    A reference in *field* is replaced by the type and the enum of its target *resolved*.
    """
    own = {key: value for key, value in field.items() if key not in {"description", "$ref"}}
    if "$ref" in field:
        own |= {key: resolved[key] for key in ("type", "enum") if key in resolved}
    return own
