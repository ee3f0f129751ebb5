"""The description of the product in a 402: `resource` and `extensions.bazaar` of x402.

The header of the 402 describes only the request for the product, in few words, because of proxies:
nginx accepts 4 KiB for all headers of a response, and 8 KiB for those of a request, in which a
client repeats the description with its payment.  The body of the 402 and `/.well-known/x402` also
describe the response, in excerpts if it is long.

Source    x402 v2, specs/extensions/bazaar.md
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

import msgspec

from mintscope.api.discovery.openapi import IDENTITY_TAGS as TAGS
from mintscope.api.discovery.openapi import Identity, parameters_of
from mintscope.api.discovery.operation import Operation, unbound
from mintscope.api.discovery.responses import PREFIX, Examples, Schema, schemas_of
from mintscope.api.failures import ENVELOPE
from mintscope.api.wire import Meta
from mintscope.kit.primitives import ON_REQUEST
from mintscope.payments.protocol.headers import DESCRIPTION_LENGTH_MAX, Advert

EXTENSION_BYTES_MAX: Final = 1_200
WHOLE: Final = 1_000
LEFT_OUT: Final = frozenset({"timeframes", "in"})  # optional fields that adverts leave out
WIDTHS: Final = (WHOLE, 2, 1, 0)  # most items of a list or fields of an object in an excerpt
DEPTHS: Final = (3, 2, 1, 0)
KEPT: Final = ("type", "enum", "const", "minLength", "maxLength", "pattern")


class Adverts:
    """Descriptions of all routes that clients can pay, for x402 clients and catalogs."""

    def __init__(self) -> None:
        self._by_route: dict[tuple[str, str], Advert] = {}
        self._whole_by_route: dict[tuple[str, str], Advert] = {}
        self._trials: dict[str, str] = {}

    def add(self, operations: Sequence[Operation], identity: Identity) -> None:
        """Create an advert, for x402 catalogs, of each of *operations* that clients can pay for."""
        for each in operations:
            if each.is_payable:
                whole = advert_of(each, identity)
                self._whole_by_route[each.method, each.path] = whole
                self._by_route[each.method, each.path] = _short_advert(whole, each.summary)

    def give_away(self, path: str, trial: str) -> None:
        """Record the path of the free trial of *path*, for adverts; both are path templates."""
        self._trials[path] = trial

    def trial(self, path: str, values: Mapping[str, str]) -> str | None:
        """Return the path of the free trial of *path*, a path template; None if it has no trial.

        values   the values of the variable segments in the result
        """
        trial = self._trials.get(path)
        return None if trial is None else trial.format(**values)

    def find_whole(self, method: str, path: str) -> Advert | None:
        """Return the full description of a route for x402 catalogs; None if it sells nothing."""
        return self._whole_by_route.get((method, path))

    def find(self, method: str, path: str) -> Advert | None:
        """Return the short advert of a route, for the 402 header; None if it sells nothing."""
        return self._by_route.get((method, path))


def advert_of(operation: Operation, identity: Identity) -> Advert:
    """Return the short description of *operation* for x402 catalogs, with part of an example."""
    return Advert(
        description=_first_sentences(operation.description or operation.summary),
        service_name=identity.name,
        tags=list(TAGS),
        icon_url=identity.icon,
        # Without its handler, an operation equals that of another application in `_bazaar_of`.
        bazaar=_bazaar_of(replace(operation, endpoint=unbound)),
    )


def _short_advert(whole: Advert, summary: str) -> Advert:
    """Return *whole* in a form that is short enough for a header, described by *summary*.

    Examples of responses and optional query fields are left out.
    """
    info = whole.bazaar["info"]["input"]
    schema = whole.bazaar["schema"]["properties"]["input"]
    if "queryParams" in info:
        required = schema["properties"]["queryParams"]["required"]
        asked = {name: info["queryParams"][name] for name in required}
        info = info | {"queryParams": asked}
    kept = ("type", "method", "bodyType")  # the body of the 402 has the whole schema
    properties = {name: schema["properties"][name] for name in kept if name in info}
    # If a route has no schema of its body or query, directories assume that it cannot be called.
    properties["body" if "body" in info else "queryParams"] = {}
    shown = {"properties": properties}  # the rest is in the body: headers must be short
    bazaar = whole.bazaar | {
        "info": {"input": info},
        "schema": {
            "type": "object",
            "properties": {"input": shown, "output": {"properties": {"example": {}}}},
        },
    }
    return msgspec.structs.replace(whole, description=summary.partition(";")[0], bazaar=bazaar)


def _first_sentences(text: str) -> str:
    """Return the leading sentences of *text* that fit into the description of an advert.

    At least the first sentence is returned; it is truncated if it does not fit.
    """
    sentences = text.split(". ")
    while len(sentences) > 1 and len(". ".join(sentences)) > DESCRIPTION_LENGTH_MAX:
        sentences.pop()
    return ". ".join(sentences).rstrip(".")[: DESCRIPTION_LENGTH_MAX - 1] + "."


@cache  # equal operations have equal extensions, in every application
def _bazaar_of(operation: Operation) -> dict[str, Any]:
    """Return x402's bazaar extension, which describes *operation*; callers must not modify it.

    It contains as much of the example response as fits into EXTENSION_BYTES_MAX of JSON, at least
    the shortest excerpt.
    """
    asked = _input_of(operation)
    extension = dict[str, Any]()
    # The excerpts become smaller; if even the last one does not fit, it is used.
    for width, depth in itertools.product(WIDTHS, DEPTHS):
        extension = _write(operation, asked, depth=depth, width=width)
        if len(msgspec.json.encode(extension)) <= EXTENSION_BYTES_MAX:
            break
    return extension


def _write(
    operation: Operation, asked: tuple[dict[str, Any], Schema], *, depth: int, width: int
) -> dict[str, Any]:
    info, schema = asked
    found: dict[str, Any] = {"input": info}
    properties: dict[str, Any] = {"input": schema}
    is_enveloped = operation.error_format is ENVELOPE
    example, shape = _output_of((operation.data, Meta), depth, is_enveloped=is_enveloped)
    if width:
        found["output"] = {"type": "json", "example": _excerpt(example, width)}
    properties["output"] = {
        "type": "object",
        "properties": {"type": {"type": "string"}, "example": shape},
    }
    extension: dict[str, Any] = {
        "info": found,
        "schema": {
            "type": "object",
            "properties": properties,
            "required": ["input"],
        },
    }
    if operation.path_params:
        extension["routeTemplate"] = operation.path.replace("{", ":").replace("}", "")
    return extension


def _input_of(operation: Operation) -> tuple[dict[str, Any], Schema]:
    """Return an example request, ready to send, and its schema."""
    info: dict[str, Any] = {"type": "http", "method": operation.method}
    properties: dict[str, Any] = {"type": {"const": "http"}, "method": {"const": operation.method}}
    for place, name in (("path", "pathParams"), ("query", "queryParams")):
        fields = [
            each
            for each in parameters_of(operation)
            if each["in"] == place and each["name"] not in LEFT_OUT
        ]
        shown = {each["name"]: each["example"] for each in fields if "example" in each}
        if place == "query":
            shown = {n: v for n, v in shown.items() if _is_required(fields, n)} or shown
        if fields:
            info[name] = shown
            properties[name] = {
                "type": "object",
                "properties": {each["name"]: _short(each["schema"], {}, 0) for each in fields},
                "required": [each["name"] for each in fields if each["required"]],
            }
    if operation.method == "POST":
        info |= {"bodyType": "json", "body": {}}
        properties |= {"bodyType": {"const": "json"}, "body": {"type": "object"}}
        if operation.body is not None:
            (schema,), components = schemas_of((operation.body,))
            info["body"] = Examples(components).of(schema)
            properties["body"] = _short(schema, components, 2)
    required = [name for name in ("type", "method", "bodyType", "body") if name in info]
    return info, {"type": "object", "properties": properties, "required": required}


def _is_required(fields: Sequence[Mapping[str, Any]], name: str) -> bool:
    return any(each["name"] == name and each["required"] for each in fields)


@cache
def _output_of(types: tuple[Any, ...], depth: int, *, is_enveloped: bool) -> tuple[Any, Schema]:
    """Return an example response whose data and metadata have *types*, and its JSON schema.

    depth          the levels of nested objects in the schema of the data
    is_enveloped   whether the response has the fields `success`, `data` and `meta`
    """
    (data, meta), components = schemas_of(types)
    examples = Examples(components)
    example = examples.of(data)
    shape = _short(data, components, depth)
    if not is_enveloped:
        return example, shape
    parts = {"success": {"const": True}, "data": shape, "meta": _short(meta, components, 0)}
    return (
        {"success": True, "data": example, "meta": examples.of(meta)},
        {"type": "object", "properties": parts, "required": list(parts)},
    )


def _short(schema: Schema, components: Mapping[str, Schema], depth: int) -> Schema:
    """Return *schema* in short form, to *depth* levels of objects and lists.

    Descriptions and fields that are sent only on request are left out; references are replaced by
    their targets.
    """
    if "$ref" in schema:
        return _short(components.get(schema["$ref"].removeprefix(PREFIX), {}), components, depth)
    if "anyOf" in schema:
        choices = [_short(each, components, depth) for each in schema["anyOf"]]
        # A list of types is shorter than `anyOf`, but cannot have other keywords.
        types = [each["type"] for each in choices if set(each) == {"type"}]
        return {"type": types} if len(types) == len(choices) else {"anyOf": choices}
    short: Schema = {key: schema[key] for key in KEPT if key in schema}
    if "properties" in schema and depth > 0:
        short["properties"] = {
            name: _short(field, components, depth - 1)
            for name, field in schema["properties"].items()
            if not field.get(ON_REQUEST)
        }
    if "items" in schema and depth > 0:
        short["items"] = _short(schema["items"], components, depth - 1)
    return short


def _excerpt(example: Any, width: int, depth: int = 0) -> Any:
    """Return *example* with at most *width* items of each list.

    Objects that are nested inside `data` keep at most *width* fields; `data` itself keeps all.
    """
    if isinstance(example, list):
        return [_excerpt(each, width, depth + 1) for each in example[:width]]
    if not isinstance(example, dict):
        return example
    shown = list(example.items())[: width if depth > 1 else None]
    return {name: _excerpt(value, width, depth + 1) for name, value in shown}
