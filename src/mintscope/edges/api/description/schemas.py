"""The wire structs as JSON Schema, and an example of each made of the examples of its fields."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec

from mintscope.base.primitives import INSTEAD_OF

REF: Final = "#/components/schemas/{name}"
PREFIX: Final = REF.format(name="")

Schema = dict[str, Any]

PLAIN: Final = {"null": None, "number": 1.0, "integer": 1, "boolean": True}


@cache
def schemas_of(types: tuple[Any, ...]) -> tuple[tuple[Schema, ...], Mapping[str, Schema]]:
    """Return the schema of each of *types*, and the components that they refer to."""
    schemas, components = msgspec.json.schema_components(types, ref_template=REF)
    for component in components.values():
        for field in component.get("properties", {}).values():
            if field.keys() == {"enum"}:  # the field that separates structs
                field |= {"type": "string", "description": component["description"]}
        _say_rivals(component)
    return schemas, components


def _say_rivals(component: Schema) -> None:
    """Say in JSON Schema which fields of *component* are there instead of others."""
    fields = component.get("properties", {})
    pairs = [
        [other, name]
        for name, field in fields.items()
        if (other := field.pop(INSTEAD_OF, None)) is not None
    ]
    if pairs:
        component["not"] = {"anyOf": [{"required": pair} for pair in pairs]}


class Examples:
    """Makes examples: numbers are 1 where a field says no better; *missing* has no example."""

    def __init__(self, components: Mapping[str, Schema]) -> None:
        self._components = components
        self.missing: list[str] = []

    def of(self, schema: Schema, where: str = "") -> Any:
        """Return an instance of *schema*: its own example, or one put together from its parts."""
        if "examples" in schema:
            return schema["examples"][0]
        if "$ref" in schema:
            name = schema["$ref"].removeprefix(PREFIX)
            return self.of(self._components[name], name)
        if "anyOf" in schema:
            return self.of(_first_that_is_there(schema["anyOf"]), where)
        for fixed in ("const", "enum", "default"):
            if fixed in schema and schema.get("type") not in {"object", "array"}:
                return schema[fixed][0] if fixed == "enum" else schema[fixed]
        return self._composed(schema, where)

    def resolved(self, schema: Schema) -> Schema:
        """Return what *schema* refers to, or itself."""
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
        """Return a line; one more where fields exclude each other, with the others of them."""
        shape = self.resolved(items)
        if "examples" in items or not _rivals(shape):
            return [self.of(items, where)]
        return [self._of_kind(shape, where, kind) for kind in (0, 1)]

    def _of_kind(self, shape: Schema, where: str, kind: int) -> dict[str, Any]:
        """Return an object with the first of each two fields that exclude each other (*kind* 0).

        With the second of them if *kind* is 1, and the second examples where there are any.
        """
        left_out = {pair[1 - kind] for pair in _rivals(shape)}
        return {
            name: field["examples"][kind]
            if len(field.get("examples", ())) > kind
            else self.of(field, f"{where}.{name}")
            for name, field in shape["properties"].items()
            if name not in left_out
        }


def _rivals(shape: Schema) -> Sequence[Sequence[str]]:
    """Return the pairs of fields that are never there together."""
    return [each["required"] for each in shape.get("not", {}).get("anyOf", ())]


def _first_that_is_there(choices: Sequence[Schema]) -> Schema:
    return next((choice for choice in choices if choice.get("type") != "null"), choices[0])
