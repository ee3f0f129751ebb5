"""Numbers that no store can hold are refused on every route, and never answered with 500."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import pytest

from mintscope.accounts.keys.scope import OPEN_SCOPES
from mintscope.kit.clock import ManualClock
from mintscope.kit.time import DAY_MS
from support.fakes.reports import TRACKED
from support.scenes.people.agent import Agent
from support.scenes.service import NOW, bearer, running_service

pytestmark = pytest.mark.storm  # each number in each place of each route

RAW: Final = [str(2**63), str(-(2**63) - 1), str(2**64), str(10**400), "9" * 5_000, "1e19", "1e400"]
TEXTS: Final = [*RAW[:4], "1e400", "nan", "-0", "٣²", "1_0", "0x10", " 1"]
# Numbers within a list or an object are read by the same code: a few are enough.
WRAPPED: Final = [RAW[0], RAW[4], RAW[6]]
JSON: Final = "application/json"


def resolved(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return *schema*, or the schema of *schemas* to which it refers."""
    name = schema.get("$ref", "").rpartition("/")[2]
    return schemas[name] if name else schema


def bodies(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    """Yield JSON bodies of each form of *schema*, with a hostile number in one field at a time."""
    shape = resolved(schema, schemas)
    for one in shape.get("anyOf", shape.get("oneOf", [shape])):
        properties = resolved(one, schemas).get("properties", {})
        usual = {name: json.dumps(example(field, schemas)) for name, field in properties.items()}
        for name in usual:
            wrapped = [f"[{number}]" for number in WRAPPED]
            wrapped += [f'{{"a":{number}}}' for number in WRAPPED]
            for text in (*RAW, *(f'"{number}"' for number in RAW), *wrapped):
                changed = usual | {name: text}
                fields = ",".join(f'"{key}":{value}' for key, value in changed.items())
                yield f"{{{fields}}}"


def example(field: Mapping[str, Any], schemas: Mapping[str, Any]) -> Any:
    """Return an example of a value for the schema *field*."""
    if "examples" in field:
        return field["examples"][0]
    shape = resolved(field, schemas)
    if "const" in shape or "enum" in shape:
        return shape.get("const", shape.get("enum", [None])[0])
    return TRACKED


def filled(path: str) -> str:
    """Return *path* with TRACKED for each mint parameter, and 1 for each other parameter."""
    return re.sub(r"{\w+}", "1", re.sub("{(mint|tokenAddress)}", TRACKED, path))


def requests(document: Mapping[str, Any]) -> Iterator[tuple[str, str, str | None]]:
    """Yield requests with one hostile number each, as the method, the target and the body."""
    schemas = document["components"]["schemas"]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            parameters = operation.get("parameters", [])
            plain = filled(path)
            content = operation.get("requestBody", {}).get("content", {}).get(JSON)
            body = None if content is None else "{}"
            for parameter in parameters:
                name, where = parameter["name"], parameter["in"]
                for text in TEXTS:
                    if where == "path":
                        yield method, filled(path.replace(f"{{{name}}}", quote(text))), body
                    elif where == "query":
                        yield method, f"{plain}?{urlencode({name: text})}", body
            for text in bodies(content["schema"], schemas) if content else ():
                yield method, plain, text


@pytest.mark.parametrize("credential", ["", "token", "key"])
async def test_no_route_answers_a_hostile_number_with_500(tmp_path: Path, credential: str) -> None:
    limit_clock = ManualClock(NOW)
    async with running_service(tmp_path, limit_clock=limit_clock) as service:
        key = await Agent(service).key(*OPEN_SCOPES)
        value = {"token": await service.issue(10_000), "key": key, "": ""}[credential]
        document = (await service.client.get("/openapi.json")).json()
        seen = 0
        for method, target, body in requests(document):
            if target.startswith("/v1/stream"):
                continue  # a stream has no end
            limit_clock.advance(DAY_MS)
            headers = ({"content-type": JSON} if body else {}) | (bearer(value) if value else {})
            answer = await service.client.request(method, target, content=body, headers=headers)
            assert answer.status_code not in {429, 500}, (method, target, body and body[:300])
            assert "out of range" not in answer.text, (method, target, answer.text)
            seen += 1
        assert seen > 1_000, seen
