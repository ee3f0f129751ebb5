"""`python -m prove.openapi` finds each change of a description that breaks its clients."""

from copy import deepcopy
from typing import Any

import pytest
from prove.openapi import breaks

PARAMETER = {"in": "query", "name": "limit", "schema": {"type": "integer"}}
FIELDS = {"usd": {"type": "number"}, "state": {"enum": ["open", "closed"]}}
BODY = {"application/json": {"schema": {"$ref": "#/components/schemas/Price"}}}
BEFORE: dict[str, Any] = {
    "paths": {
        "/v1/prices": {
            "post": {
                "parameters": [PARAMETER],
                "requestBody": {"content": BODY},
                "responses": {"200": {"content": BODY}, "404": {}},
            }
        }
    },
    "components": {"schemas": {"Price": {"type": "object", "properties": FIELDS}}},
}


def changed(*path: str, to: object) -> list[str]:
    after = deepcopy(BEFORE)
    part = after
    for name in path[:-1]:
        part = part[name]
    if to is None:
        del part[path[-1]]
    else:
        part[path[-1]] = to
    return sorted(breaks(BEFORE, after))


POST = ("paths", "/v1/prices", "post")
PRICE = ("components", "schemas", "Price")


def test_an_equal_or_extended_description_has_no_break() -> None:
    assert list(breaks(BEFORE, BEFORE)) == []
    assert changed(*PRICE, "properties", "sol", to={"type": "number"}) == []


@pytest.mark.parametrize(
    ("path", "to", "found"),
    [
        (POST, None, "POST /v1/prices: gone"),
        ((*POST, "parameters"), [], "parameter limit (query) is gone"),
        ((*POST, "parameters"), [PARAMETER | {"required": True}], "parameter limit is required"),
        ((*POST, "responses", "404"), None, "status 404 is gone"),
        ((*POST, "responses", "200"), {}, "200: application/json is gone"),
        ((*POST, "requestBody"), None, "no longer takes application/json"),
        ((*PRICE, "properties", "usd"), None, "200: field usd is gone"),
        ((*PRICE, "properties", "usd"), {"type": "string"}, "type number became string"),
        ((*PRICE, "properties", "state"), {"enum": ["open"]}, "value 'closed' is gone"),
        ((*PRICE, "required"), ["usd"], "body: field usd is required"),
    ],
)
def test_each_breaking_change_is_found(path: tuple[str, ...], to: object, found: str) -> None:
    assert any(found in line for line in changed(*path, to=to))
