"""Compares two OpenAPI documents of the service: `python -m prove.openapi BEFORE.json AFTER.json`.

It prints the changes that can break clients of the first document, and returns 1 if there are any:
removed operations, parameters, statuses, fields of answers and values of enumerations, changed
types, and newly required parameters or fields of bodies. It counts additions.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Json = Mapping[str, Any]
DEPTH_MAX = 12  # compared levels of schemas; a limit, because schemas can contain themselves


def breaks(before: Json, after: Json) -> Iterator[str]:
    """Yield a line for each change that can break clients of *before*."""
    for path, ways in before["paths"].items():
        for method, old in ways.items():
            name = f"{method.upper()} {path}"
            new = after["paths"].get(path, {}).get(method)
            if new is None:
                yield f"{name}: gone"
                continue
            yield from _of_parameters(name, old, new)
            yield from _of_answers(name, old, new, before, after)
            sent = old.get("requestBody", {}).get("content", {})
            for kind, body in sent.items():
                there = new.get("requestBody", {}).get("content", {}).get(kind)
                if there is None:
                    yield f"{name}: no longer takes {kind}"
                else:
                    schemas = (body.get("schema", {}), there.get("schema", {}))
                    yield from _of_schema(f"{name} body", *schemas, before, after, is_sent=True)


def _of_parameters(name: str, old: Json, new: Json) -> Iterator[str]:
    had = {(each["in"], each["name"]): each for each in old.get("parameters", ())}
    has = {(each["in"], each["name"]): each for each in new.get("parameters", ())}
    for where, parameter in had.keys() - has.keys():
        yield f"{name}: parameter {parameter} ({where}) is gone"
    for key, each in has.items():
        if each.get("required") and not had.get(key, {}).get("required"):
            yield f"{name}: parameter {key[1]} is required"


def _of_answers(name: str, old: Json, new: Json, before: Json, after: Json) -> Iterator[str]:
    for status, answer in old["responses"].items():
        there = new["responses"].get(status)
        if there is None:
            yield f"{name}: status {status} is gone"
            continue
        for kind, body in answer.get("content", {}).items():
            content = there.get("content", {})
            if kind not in content:
                yield f"{name} {status}: {kind} is gone"
                continue
            schemas = (body.get("schema", {}), content[kind].get("schema", {}))
            yield from _of_schema(f"{name} {status}", *schemas, before, after, is_sent=False)


def _of_schema(  # noqa: PLR0913 - both schemas, and the documents of their parts
    name: str, old: Json, new: Json, before: Json, after: Json, *, is_sent: bool, depth: int = 0
) -> Iterator[str]:
    if depth > DEPTH_MAX:
        return
    old = _resolved(old, before)
    new = _resolved(new, after)
    if old.get("type") != new.get("type") and "type" in old and "type" in new:
        yield f"{name}: type {old['type']} became {new['type']}"
    for value in old.get("enum", ()):
        if "enum" in new and value not in new["enum"]:
            yield f"{name}: value {value!r} is gone"
    fields = new.get("properties", {})
    for field, schema in old.get("properties", {}).items():
        if field not in fields:
            yield f"{name}: field {field} is gone"
            continue
        deeper = f"{name}.{field}"
        parts = (schema, fields[field], before, after)
        yield from _of_schema(deeper, *parts, is_sent=is_sent, depth=depth + 1)
    if is_sent:
        for field in set(new.get("required", ())) - set(old.get("required", ())):
            yield f"{name}: field {field} is required"
    if "items" in old and "items" in new:
        parts = (old["items"], new["items"], before, after)
        yield from _of_schema(f"{name}[]", *parts, is_sent=is_sent, depth=depth + 1)


def _resolved(schema: Json, document: Json) -> Json:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def operations(document: Json) -> set[str]:
    """Return the operations of *document*, such as "GET /v1/health"."""
    return {f"{way.upper()} {path}" for path, ways in document["paths"].items() for way in ways}


def main() -> int:
    """Print the changes between two OpenAPI documents; return 1 if one may break a client."""
    before, after = (json.loads(Path(name).read_text()) for name in sys.argv[1:3])
    found = sorted(set(breaks(before, after)))
    print("\n".join(found))
    added = operations(after) - operations(before)
    print(f"{len(found)} may break a client; {len(added)} operations were added")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
