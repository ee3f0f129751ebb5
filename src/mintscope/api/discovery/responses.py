"""Responses, schemas and remedies in the OpenAPI document.

The remedy for each refusal is the same as in docs/api.md.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec

from mintscope.api.discovery.operation import EVENTS_TYPE, JSON_TYPE, Operation
from mintscope.api.failures import CODES, ENVELOPE, STATUS, UNAUTHORIZED
from mintscope.api.wire import EXAMPLE_WALLET, AcceptedAsset, HowToPay, Meta
from mintscope.kit.errors import ErrorCode, RateLimited, ServiceError
from mintscope.kit.primitives import INSTEAD_OF, ON_REQUEST, ONE_AT_LEAST, UnixMs
from mintscope.payments.protocol.envelope import MAINNET
from mintscope.solana.blocks import USDC

REF: Final = "#/components/schemas/{name}"
PREFIX: Final = REF.format(name="")

Schema = dict[str, Any]

PLAIN: Final = {"null": None, "number": 1.0, "integer": 1, "boolean": True}


@cache
def schemas_of(types: tuple[Any, ...]) -> tuple[tuple[Schema, ...], Mapping[str, Schema]]:
    """Return the schema of each of *types*, and the components that these schemas reference."""
    schemas, components = msgspec.json.schema_components(types, ref_template=REF)
    for component in components.values():
        for field in component.get("properties", {}).values():
            if field.keys() == {"enum"}:  # the tag field of a struct
                field |= {"type": "string", "description": component["description"]}
        _say_rivals(component)
        _say_least(component)
    return schemas, components


def _say_rivals(component: Schema) -> None:
    """State in the JSON Schema *component* which fields exclude each other, by their INSTEAD_OF."""
    fields = component.get("properties", {})
    pairs = [
        [other, name]
        for name, field in fields.items()
        if (other := field.pop(INSTEAD_OF, None)) is not None
    ]
    if pairs:
        component["not"] = {"anyOf": [{"required": pair} for pair in pairs]}


def _say_least(component: Schema) -> None:
    """Require a field of the JSON Schema *component*, if one of them has the mark ONE_AT_LEAST."""
    # `any` stops at the first mark, and would leave a second one in the schema; no shape has two.
    if any(field.pop(ONE_AT_LEAST, False) for field in component.get("properties", {}).values()):
        component["minProperties"] = 1


class Examples:
    """Creates examples of schemas; if a schema has none, a number is 1 and a boolean is true.

    missing   the paths of the fields for which no example could be created
    """

    def __init__(self, components: Mapping[str, Schema]) -> None:
        self._components = components
        self.missing: list[str] = []

    def of(self, schema: Schema, where: str = "") -> Any:
        """Return an example of *schema*: its own, or one built from the examples of its parts."""
        if "examples" in schema:
            return schema["examples"][0]
        if "$ref" in schema:
            name = schema["$ref"].removeprefix(PREFIX)
            return self.of(self._components[name], name)
        if "anyOf" in schema:
            choices = schema["anyOf"]
            known = (choice for choice in choices if choice.get("type") != "null")
            return self.of(next(known, choices[0]), where)
        for fixed in ("const", "enum", "default"):
            if fixed in schema and schema.get("type") not in {"object", "array"}:
                return schema[fixed][0] if fixed == "enum" else schema[fixed]
        return self._composed(schema, where)

    def resolved(self, schema: Schema) -> Schema:
        """Return the schema to which *schema* refers, or *schema* itself if it is no reference."""
        if "$ref" not in schema:
            return schema
        return self._components[schema["$ref"].removeprefix(PREFIX)]

    def _composed(self, schema: Schema, where: str) -> Any:
        if "properties" in schema:
            return self._of_kind(schema, where, 0)
        if "items" in schema:
            return self._line_of_each_kind(schema["items"], f"{where}[]")
        if schema.get("type") in PLAIN:
            return PLAIN[schema["type"]]
        self.missing.append(where)
        return None

    def _line_of_each_kind(self, items: Schema, where: str) -> list[Any]:
        """Return an example of an array; if fields exclude each other, it has two items."""
        shape = self.resolved(items)
        if "examples" in items or not _rivals(shape):
            return [self.of(items, where)]
        return [self._of_kind(shape, where, kind) for kind in (0, 1)]

    def _of_kind(self, shape: Schema, where: str, kind: int) -> dict[str, Any]:
        """Return an example object with only one of each pair of exclusive fields.

        kind   0: the first field of each pair; 1: the second field, and the second example of each
               field that has several
        """
        left_out = {pair[1 - kind] for pair in _rivals(shape)}
        left_out |= {name for name, of in shape["properties"].items() if of.get(ON_REQUEST)}
        return {
            name: field["examples"][kind]
            if len(field.get("examples", ())) > kind
            else self.of(field, f"{where}.{name}")
            for name, field in shape["properties"].items()
            if name not in left_out
        }


def _rivals(shape: Schema) -> Sequence[Sequence[str]]:
    """Return the pairs of fields that exclude each other in *shape*, a JSON Schema."""
    return [each["required"] for each in shape.get("not", {}).get("anyOf", ())]


REMEDIES: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.INVALID_TOKEN_ADDRESS: "Correct the address.",
    ErrorCode.TOKEN_NOT_FOUND: (
        "Look for the mint in `/v1/tokens`, or ask the operator to track it."
    ),
    ErrorCode.INSUFFICIENT_DATA: "Send the request again in a few minutes, or with `partial=true`.",
    ErrorCode.MISSING_TOKEN: "Send `Authorization: Bearer ...`.",
    ErrorCode.INVALID_TOKEN: "Check the credential; a rotated credit token is void.",
    ErrorCode.PAYMENT_REQUIRED: "Pay on the terms in `PAYMENT-REQUIRED`.",
    ErrorCode.INSUFFICIENT_CREDITS: "Buy a bundle, or top up the same credit token.",
    ErrorCode.KEY_CAP_REACHED: (
        "Wait until the month that the message names, or ask the owner of the key to raise the cap."
    ),
    ErrorCode.RATE_LIMITED: "Wait `Retry-After` seconds.",
    ErrorCode.DATA_STALE: "Send the request again later.",
    ErrorCode.SERVICE_UNAVAILABLE: "Send the request again later.",
    ErrorCode.INVALID_BUNDLE: "Choose a bundle of `/v1/credits/bundles`.",
    ErrorCode.INVALID_PAYMENT: "Correct the header; nothing was sent.",
    ErrorCode.PRICE_UNAVAILABLE: "Send the request again later, or spend credits.",
    ErrorCode.PAYMENT_FAILED: "Read the reason, and make a new payment.",
    ErrorCode.PAYMENT_ALREADY_USED: (
        "Send the original request with its `Idempotency-Key`, claim the credits with the wallet"
        " that paid, or pay again."
    ),
    ErrorCode.PAYMENT_PENDING: (
        "Send the same request again, with the `Idempotency-Key` of the response."
    ),
    ErrorCode.PAYMENT_UNAVAILABLE: "Send the same request again later.",
    ErrorCode.INVALID_PROOF: "Sign a new challenge with the wallet that paid.",
    ErrorCode.ROTATED_RECENTLY: "Wait, then rotate again.",
    ErrorCode.NOTHING_TO_ROTATE: "Use the credit token that has the credits.",
    ErrorCode.VALIDATION_ERROR: "Correct the fields that the message names.",
    ErrorCode.DUPLICATE_APPLICATION: "Continue with the secret of that application.",
    ErrorCode.INVALID_CREDENTIALS: "Check the address and the secret.",
    ErrorCode.NOT_APPROVED: "Wait for the e-mail with the decision.",
    ErrorCode.INVALID_SECRET_FORMAT: "Send the whole secret, `svc_app_...`.",
    ErrorCode.KEY_ALREADY_EXISTS: "Ask an administrator for a reset.",
    ErrorCode.ACCOUNT_NOT_FOUND: "Apply again.",
    ErrorCode.INSUFFICIENT_SCOPE: "Use a key that has the scope.",
    ErrorCode.OWNER_ONLY: "Change it under Settings > API keys.",
    ErrorCode.IDEMPOTENCY_KEY_USED: "Send the request with another key; nothing was done.",
    ErrorCode.BAD_REQUEST: "Correct the request as the message says.",
    ErrorCode.NOT_FOUND: "Check the path: it must match exactly.",
    ErrorCode.METHOD_NOT_ALLOWED: "Use a method that `Allow` names.",
    ErrorCode.REQUEST_TIMEOUT: "Send the request again, without pauses.",
    ErrorCode.PAYLOAD_TOO_LARGE: "Send a smaller body.",
    ErrorCode.HEADERS_TOO_LARGE: "Send fewer or shorter headers.",
    ErrorCode.INTERNAL_ERROR: "Send the request again; if it fails again, report the request id.",
}


EVERYWHERE: Final = (ErrorCode.BAD_REQUEST, ErrorCode.INTERNAL_ERROR)
EXAMPLE_AT: Final = UnixMs(1_763_460_000_000)
EXAMPLE_REQUEST_ID: Final = b"5f0c1d2e0000002a"
EXAMPLE_REF: Final = "#/components/examples/"
EXAMPLE_ORIGIN: Final = "https://api.example"
RESPONSE_HEADERS: Final = {
    "X-Request-Id": "The id of this request; include it when you report a problem."
}
LIMIT_HEADERS: Final = {
    "RateLimit": "The rest of the limit: r requests are left for t seconds.",
    "RateLimit-Policy": "The limit: q requests in any w seconds.",
}
PAYMENT_HEADERS: Final = {
    "PAYMENT-RESPONSE": "x402: the outcome of a payment; a signed receipt if it has settled."
}
REPLAY_HEADERS: Final = {
    "Idempotent-Replayed": "true: the response was already paid for, with the same key."
}
CREDIT_HEADERS: Final = {
    "X-Credits-Remaining": "Credits left after this request, if credits were taken.",
    "X-Data-Slot": "The newest Solana slot in the data.",
    "X-Data-Age-Ms": "Age of the data in milliseconds.",
    "X-Data-Status": "live; degraded if the data is older than 30 s; else idle if no swap has set"
    " the price of the token for 5 minutes. past: a report as it was.",
}
ETAG: Final = {"ETag": "Identifies the content; send it back as If-None-Match."}
CODE_HEADERS: Final = {"X-Error-Code": "The error code, for responses without a body."}
WAIT_HEADERS: Final = {"Retry-After": "Seconds to wait."}
CHALLENGE_HEADERS: Final = {"WWW-Authenticate": "How to authenticate: Bearer."}
REFUSAL_HEADERS: Final = {
    ErrorCode.PAYMENT_REQUIRED: {
        "PAYMENT-REQUIRED": (
            "x402: the amount and the recipient of the payment; absent if there is no price."
        )
    },
    ErrorCode.PAYMENT_FAILED: PAYMENT_HEADERS,
    **dict.fromkeys(CODES[UNAUTHORIZED], CHALLENGE_HEADERS),
    ErrorCode.PAYMENT_PENDING: WAIT_HEADERS
    | {
        "Idempotency-Key": "With PAYMENT_PENDING, if you sent no key: the key for retries. It is"
        " returned once."
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
FILE: Final = {"type": "string", "format": "binary"}
WITH_TERMS: Final = (
    ErrorCode.PAYMENT_REQUIRED,
    ErrorCode.PAYMENT_FAILED,
    ErrorCode.INSUFFICIENT_CREDITS,
)


def success_of(
    operation: Operation, names: Mapping[Any, Schema], examples: Examples
) -> dict[str, Any]:
    """Return the OpenAPI description of the response of *operation* to a successful request."""
    headers = RESPONSE_HEADERS
    if operation.is_charged:
        headers = headers | PAYMENT_HEADERS | REPLAY_HEADERS
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
        "content": {
            operation.media_type: {"schema": schema, "example": example},
            **{kind: {"schema": FILE, "example": "..."} for kind in operation.other_types},
        },
    }


def _event_of(shape: Schema, examples: Examples) -> dict[str, str]:
    """Return an example of the first kind of event in *shape*, the schema of a stream's events."""
    name, data = next(iter(shape["properties"].items()))
    return {"event": name, "data": msgspec.json.encode(examples.of(data)).decode()}


def _events_of(shape: Schema) -> Schema:
    """Return the schema of the events of a stream; *shape* has the data of each event by name."""
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
                    "retry": {
                        "type": "integer",
                        "description": "Milliseconds to wait before reconnecting.",
                    },
                },
                "required": ["event", "data"],
            }
            for name, data in shape["properties"].items()
        ]
    }


def unchanged_of(operation: Operation) -> dict[str, Any]:
    """Return the OpenAPI description of a 304, if *operation* has that answer, else {}."""
    if not operation.is_conditional:
        return {}
    text = "The client already has this content, according to If-None-Match: nothing was charged."
    return {"304": {"description": text, "headers": _headers(RESPONSE_HEADERS | ETAG)}}


def refusals_of(operation: Operation, failure: Schema) -> dict[str, Any]:
    """Return one response for each error status of *operation*, with an example of each code.

    The examples are references to those of `examples_of`, because they are the same for all routes.
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
    """Return an example of the response body of each error of *operations*, by its name."""
    # Hundreds of refusals share a few dozen names.
    refused = {
        _name_of(operation, code): (operation, code)
        for operation in operations
        for code in (*operation.refusals, *EVERYWHERE)
    }
    return {name: _example_of(operation, code) for name, (operation, code) in refused.items()}


def _name_of(operation: Operation, code: ErrorCode) -> str:
    """Return the name of the OpenAPI example for the error *code* in the format of *operation*."""
    return f"{operation.error_format.body_type.__name__}.{code}"


def _example_of(operation: Operation, code: ErrorCode) -> dict[str, Any]:
    meaning = meaning_of(code)
    error = _example_error(meaning, code)
    body = operation.error_format.write(error, at=EXAMPLE_AT, request_id=EXAMPLE_REQUEST_ID)
    value = msgspec.json.decode(body)
    return {"summary": meaning, "description": REMEDIES[code], "value": value}


def meaning_of(code: ErrorCode) -> str:
    """Return the meaning of *code* as a sentence: the first line of its error's docstring."""
    found = next(each for each in _kinds(ServiceError) if each.code is code)
    return (found.__doc__ or "").partition("\n")[0]


def _kinds(kind: type[ServiceError]) -> Iterator[type[ServiceError]]:
    for each in kind.__subclasses__():
        yield each
        yield from _kinds(each)


def _example_error(meaning: str, code: ErrorCode) -> ServiceError:
    """Return an error with *code* and the message *meaning*, for an example."""
    if code is ErrorCode.RATE_LIMITED:
        return RateLimited(30)
    error = ServiceError(meaning)
    error.code = code  # type: ignore[misc]  # for this instance only
    error.details = HOW_TO_PAY if code in WITH_TERMS else None
    return error


def headers_described() -> dict[str, Any]:
    """Return the descriptions of the headers that responses refer to, by name."""
    everything: dict[str, str] = RESPONSE_HEADERS | PAYMENT_HEADERS | REPLAY_HEADERS
    everything |= CREDIT_HEADERS | CODE_HEADERS | ETAG
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
