"""The wire structs as JSON Schema, and an example of each made of the examples of its fields."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec

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
            if field.keys() == {"enum"}:  # what tells one struct of several from the others
                field |= {"type": "string", "description": component["description"]}
    return schemas, components


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
            return {
                name: self.of(field, f"{where}.{name}")
                for name, field in schema["properties"].items()
            }
        if "items" in schema:
            return [self.of(schema["items"], f"{where}[]")]
        if schema.get("type") in PLAIN:
            return PLAIN[schema["type"]]
        self.missing.append(where)
        return None


def _first_that_is_there(choices: Sequence[Schema]) -> Schema:
    return next((choice for choice in choices if choice.get("type") != "null"), choices[0])
