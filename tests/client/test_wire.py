"""What the client expects of an answer is what the service describes, field for field."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from mintscope.client.calls import verbs
from mintscope.client.calls.call import ApiCall
from support.scenes.service import Service

MINT = "So11111111111111111111111111111111111111112"
CALLS: dict[str, ApiCall[Any]] = {
    "GET /v1/token/{tokenAddress}": verbs.token(MINT),
    "GET /v1/trial/{tokenAddress}": verbs.trial(MINT),
    "GET /v1/token/{tokenAddress}/candles": verbs.candles(MINT, "m1").call_at(None),
    "GET /v1/token/{tokenAddress}/indicators": verbs.indicators(MINT, "m1").call_at(None),
    "GET /v1/token/{tokenAddress}/swaps": verbs.swaps(MINT).call_at(None),
    "GET /v1/token/{tokenAddress}/metadata": verbs.metadata(MINT),
    "GET /v1/tokens": verbs.tokens().call_at(None),
    "POST /v1/tokens/batch": verbs.batch([MINT]),
    "GET /v1/credits/bundles": verbs.BUNDLES,
    "GET /v1/credits/balance": verbs.BALANCE,
    "GET /v1/credits/history": verbs.HISTORY,
    "POST /v1/credits/purchase": verbs.purchase(10),
}


# How to pay, which is told with a 402: no line of a batch is one.
NOT_READ = {"BatchReports.results[].error.details: is lost"}


class Shape:
    """A schema with where its references lead."""

    def __init__(self, schema: dict[str, Any], references: dict[str, Any]) -> None:
        while "$ref" in schema:
            schema = references[schema["$ref"].rpartition("/")[2]]
        self.schema, self.references = schema, references

    def variants(self) -> Iterator["Shape"]:
        """Yield what it may be."""
        choices = self.schema.get("anyOf") or self.schema.get("oneOf")
        if choices is None:
            yield self
        for each in choices or ():
            yield from Shape(each, self.references).variants()

    def by_type(self) -> dict[str, "Shape"]:
        return {name: each for each in self.variants() for name in each.types()}

    def types(self) -> list[str]:
        kind = self.schema.get("type")
        if kind is not None:
            return [kind] if isinstance(kind, str) else kind
        values = self.schema.get("enum") or [self.schema.get("const")]
        return ["string" if isinstance(each, str) else "integer" for each in values]

    def at(self, name: str) -> "Shape":
        return Shape(self.schema[name], self.references)

    def fields(self) -> dict[str, "Shape"]:
        found = self.schema.get("properties", {})
        return {name: Shape(each, self.references) for name, each in found.items()}


def flaws(ours: Shape, theirs: Shape, where: str) -> Iterator[str]:
    """Yield what of *theirs* would not be read, or be lost, as *ours*."""
    taken = ours.by_type()
    for name, sent in theirs.by_type().items():
        other = taken.get(name) or (taken.get("number") if name == "integer" else None)
        if other is None:
            yield f"{where}: {name} is sent, and {sorted(taken)} read"
        elif name == "array":
            yield from flaws(other.at("items"), sent.at("items"), f"{where}[]")
        elif name == "object" and sent.fields():
            mine, sends = other.fields(), sent.fields()
            yield from (f"{where}.{each}: only here" for each in sorted(mine.keys() - sends.keys()))
            yield from (f"{where}.{each}: is lost" for each in sorted(sends.keys() - mine.keys()))
            needed = {*other.schema.get("required", ())} - {*sent.schema.get("required", ())}
            yield from (f"{where}.{each}: may not be sent" for each in sorted(needed))
            for each in sorted(mine.keys() & sends.keys()):
                yield from flaws(mine[each], sends[each], f"{where}.{each}")


@pytest.mark.parametrize("route", CALLS)
async def test_each_field_is_read_as_it_is_described(service: Service, route: str) -> None:
    document = (await service.client.get("/openapi.json")).json()
    method, path = route.split()
    responses = document["paths"][path][method.lower()]["responses"]
    (success,) = (found for status, found in responses.items() if status in {"200", "201"})
    answer = Shape(
        success["content"]["application/json"]["schema"], document["components"]["schemas"]
    )
    kind = CALLS[route].kind
    (schema,), components = msgspec.json.schema_components([kind])

    found = {*flaws(Shape(schema, components), answer.fields()["data"], kind.__name__)}
    assert found - NOT_READ == set()


def test_a_call_is_sent_where_the_service_listens() -> None:
    for route, call in CALLS.items():
        method, path = route.split()
        assert (call.method, call.path) == (method, path.replace("{tokenAddress}", MINT))
