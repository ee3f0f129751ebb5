"""Definitions of all numbers, and tables of API fields.

Background and measurements are in docs/decisions; tests check the engine against the definitions.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from mintscope.market.indicators import INDICATORS
from mintscope.site.page import read_texts


class Definition(msgspec.Struct, frozen=True):
    """The definition of one number; `texts/definitions.toml` describes the fields."""

    anchor: str
    name: str
    fields: tuple[str, ...]
    reads: str
    formula: str
    seed: str
    source: str


def _definitions() -> Iterator[Definition]:
    texts = read_texts("definitions.toml", dict[str, list[Definition]])
    with_parameters = "\n".join(f"{each.usual}: {each.description}" for each in INDICATORS.values())
    for each in texts["definitions"]:
        yield msgspec.structs.replace(each, formula=each.formula or with_parameters)


DEFINITIONS: Final = tuple(_definitions())


REF: Final = "#/components/schemas/"
CHOICES_MAX: Final = 12  # longer enumerations are shown as "string"

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a body, or one parameter of a request.

    kind         type as text, with its limits
    same_as      name of the earlier field that shows the same children; "" for none
    is_optional  whether the field may be omitted
    default      default value; "" for none
    """

    name: str
    kind: str
    meaning: str
    example: str = ""
    children: tuple["Field", ...] = ()
    same_as: str = ""
    is_optional: bool = False
    default: str = ""


class SchemaReader:
    """Describes the fields of a JSON schema; an object that occurs again is only referenced."""

    def __init__(self, components: Mapping[str, Schema]) -> None:
        self._components = components
        self._shown: dict[str, str] = {}

    def fields_of(self, schema: Schema) -> tuple[Field, ...]:
        """Return the fields of the object *schema*, or of the objects in an array, else ()."""
        if "discriminator" in schema:
            return tuple(self._of_kinds(schema["discriminator"]["propertyName"], schema["anyOf"]))
        _, shape = self._resolved(schema)
        return self._children(shape)

    def field(self, name: str, schema: Schema, *, is_optional: bool = False) -> Field:
        """Describe the field *name* of a schema; *is_optional* states whether it may be omitted."""
        title, shape = self._resolved(schema)
        same_as = self._shown.get(title, "")
        # Recorded before the children are read, so that a schema that contains itself ends.
        if title and not same_as:
            self._shown[title] = name
        default = schema.get("default", shape.get("default"))
        return Field(
            name=name,
            kind=self.kind_of(schema),
            meaning=schema.get("description", shape.get("description", "")),
            example=_text((schema.get("examples") or [None])[0]),
            children=() if same_as else self._children(shape),
            same_as=same_as if _has_fields(shape) else "",
            is_optional=is_optional,
            default=_text(default) if default not in (None, "", []) else "",
        )

    def kind_of(self, schema: Schema) -> str:
        """Return the type of *schema* as text, with its limits."""
        if "anyOf" in schema:
            if all("const" in each for each in schema["anyOf"]):
                return " | ".join(_text(each["const"]) for each in schema["anyOf"])
            return " or ".join(dict.fromkeys(map(self.kind_of, _null_last(schema["anyOf"]))))
        if "$ref" in schema:
            schema = self._components[schema["$ref"].removeprefix(REF)]
        if "const" in schema:
            return f"always {_text(schema['const'])}"
        if "enum" in schema:
            choices = [_text(each) for each in schema["enum"]]
            return " | ".join(choices) if len(choices) <= CHOICES_MAX else "string"
        kind = str(schema.get("type", "any"))
        if kind == "array":
            items = self.kind_of(schema.get("items", {}))
            return f"array of {items}{_within(schema, 'minItems', 'maxItems', '')}"
        unit = " characters" if kind == "string" else ""
        least, most = ("minLength", "maxLength") if unit else ("minimum", "maximum")
        return f"{kind}{_within(schema, least, most, unit)}"

    def _of_kinds(self, tag: str, kinds: Sequence[Schema]) -> Iterator[Field]:
        """Yield the fields that all *kinds* have; then, for kinds with equal further fields, one.

        That field is named *tag*, and has the further fields as its children.
        """
        shapes = [self._resolved(each)[1] for each in kinds]
        shared = {
            name: field
            for name, field in shapes[0]["properties"].items()
            if all(each["properties"].get(name) == field for each in shapes)
        }
        yield from self._children({**shapes[0], "properties": shared})
        alike: list[tuple[Schema, list[Schema]]] = []
        for shape in shapes:
            own = {k: v for k, v in shape["properties"].items() if k not in {*shared, tag}}
            found = next((tags for fields, tags in alike if fields["properties"] == own), None)
            if found is None:
                alike.append(({**shape, "properties": own}, [shape["properties"][tag]]))
            else:
                found.append(shape["properties"][tag])
        for fields, tags in alike:
            yield Field(
                name=tag,
                kind=" | ".join(map(self.kind_of, tags)),
                meaning=" ".join(each["description"] for each in tags),
                children=self._children(fields),
            )

    def _children(self, shape: Schema) -> tuple[Field, ...]:
        required = shape.get("required", ())
        return tuple(
            self.field(name, schema, is_optional=name not in required)
            for name, schema in shape.get("properties", {}).items()
        )

    def _resolved(self, schema: Schema) -> tuple[str, Schema]:
        """Return the name ("" for none) and the shape of *schema*, or of the items of an array.

        References are resolved.  Of alternatives, the first that is not null counts; if several are
        objects with fields, they are merged.
        """
        if "anyOf" in schema:
            choices = _null_last(schema["anyOf"])
            shapes = [self._resolved(each) for each in choices]
            objects = [shape for _, shape in shapes if _has_fields(shape)]
            return ("", _merged(objects)) if len(objects) > 1 else shapes[0]
        if schema.get("type") == "array":
            return self._resolved(schema.get("items", {}))
        if "$ref" in schema:
            name = schema["$ref"].removeprefix(REF)
            return name, self._components[name]
        return "", schema


def every_name(fields: tuple[Field, ...]) -> Iterator[str]:
    """Yield the names of *fields* and of their nested fields."""
    for each in fields:
        yield each.name
        yield from every_name(each.children)


def _merged(shapes: list[Schema]) -> Schema:
    """Return an object with the fields of all *shapes*; a body matches one of them.

    A field is required if all shapes require it.  A field that the shapes describe differently gets
    all of the descriptions.
    """
    found: dict[str, list[Schema]] = {}
    for shape in shapes:
        for name, schema in shape["properties"].items():
            if schema not in found.setdefault(name, []):
                found[name].append(schema)
    needed = [set(shape.get("required", ())) for shape in shapes]
    return {
        "required": list(set.intersection(*needed)),
        "properties": {name: _either(schemas) for name, schemas in found.items()},
    }


def _either(schemas: list[Schema]) -> Schema:
    if len(schemas) == 1:
        return schemas[0]
    words = [str(each["description"]) for each in schemas if "description" in each]
    return {
        "anyOf": schemas,
        "description": " ".join(dict.fromkeys(words)),
        "examples": schemas[0].get("examples", []),
    }


def _has_fields(shape: Schema) -> bool:
    return bool(shape.get("properties"))


def _null_last(choices: list[Schema]) -> list[Schema]:
    return sorted(choices, key=lambda each: each.get("type") == "null")


def _text(value: object) -> str:
    """Return *value* as text, in the form used in a query."""
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ",".join(value)
    return value if isinstance(value, str) else json.dumps(value)


def _within(schema: Schema, least: str, most: str, unit: str) -> str:
    low = schema.get(least)
    high = schema.get(most)
    if low is None and high is None:
        return ""
    if high is None:
        return f", {low} or more{unit}"
    if low in (None, 0) and unit:
        return f", up to {high}{unit}"
    if low == high:
        return f", {low}{unit}"
    return f", {low if low is not None else 'up'} to {high}{unit}"
