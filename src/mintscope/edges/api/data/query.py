"""The fields of a query: a struct says what they are, for the reader and for OpenAPI alike.

Each field carries its description and its range (`Annotated[int, msgspec.Meta(...)]`); a list is
one field whose values are separated by commas, or several of the same name: clients that are
generated from OpenAPI send either.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple, TypeVar
from urllib.parse import parse_qsl

import msgspec

from mintscope.base.errors import BadRequest
from mintscope.edges.server.request import Request

FIELDS_MAX: Final = 32
NO_SUCH: Final = re.compile(r"Invalid enum value (.*)")
BETWEEN: Final = re.compile(r",(?![^()]*\))")  # a comma in parentheses is of one value

Shape = TypeVar("Shape", bound=msgspec.Struct)


def read_query(request: Request, shape: type[Shape]) -> Shape:
    """Return the query of *request* as *shape*.

    Raises BadRequest for a field that is unknown, repeated, missing or out of its range.
    """
    names, lists = _names(shape)
    values: dict[str, str | list[str]] = {}
    lists_read: dict[str, list[str]] = {}
    for name, text in _fields(request):
        if name not in names:
            known = ", ".join(sorted(names)) or "none"
            raise BadRequest(f"expected the query fields {known}; was {name[:50]!r}")
        if name in lists:
            lists_read.setdefault(name, []).extend(BETWEEN.split(text))
        elif name in values:
            raise BadRequest(f"{name}: expected once; was there several times")
        else:
            values[name] = text
    values |= lists_read
    try:
        return msgspec.convert(values, shape, strict=False)
    except msgspec.ValidationError as cause:
        raise BadRequest(_told(str(cause), values, shape)) from cause


class QueryField(NamedTuple):
    """The values of a field: any of *values*, where they are few; a list has several.

    range   of an integer, in words; None where it is none
    """

    values: Sequence[str]
    is_list: bool
    range: str | None


@cache
def query_fields(shape: type[msgspec.Struct]) -> Mapping[str, QueryField]:
    """Return the fields of *shape* by their names."""
    shapes = msgspec.json.schema_components((shape,))[1]
    found: dict[str, QueryField] = {}
    for name, field in shapes[shape.__name__]["properties"].items():
        one = field.get("items", field)
        reference = one.get("$ref", "").rpartition("/")[2]
        values = [str(value) for value in shapes.get(reference, one).get("enum", ())]
        if one.get("type") == "boolean":
            values = ["true", "false"]
        found[name] = QueryField(values, is_list="items" in field, range=_range(one))
    return found


def _fields(request: Request) -> list[tuple[str, str]]:
    try:
        return parse_qsl(request.query.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX)
    except ValueError as cause:
        raise BadRequest(f"expected a query of at most {FIELDS_MAX} fields, in UTF-8") from cause


@cache
def _names(shape: type[msgspec.Struct]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of all fields, and of those that are lists."""
    properties = msgspec.json.schema(shape)["$defs"][shape.__name__]["properties"]
    lists = [name for name, field in properties.items() if field.get("type") == "array"]
    return frozenset(properties), frozenset(lists)


def _range(field: Mapping[str, object]) -> str | None:
    if field.get("type") != "integer":
        return None
    least = field.get("minimum")
    most = field.get("maximum")
    above = "" if least is None else f" of at least {least}"
    return f" from {least} to {most}" if least is not None and most is not None else above


def _told(problem: str, values: Mapping[str, str | list[str]], shape: type[msgspec.Struct]) -> str:
    """Return what is wrong with one of *values*, the field before it: `limit: expected ...`."""
    what, at, where = problem.partition(" - at `$.")
    if not at:
        return what.replace("Object missing required field", "expected the query field")
    field = where.rstrip("`").replace("[...]", "")
    known = query_fields(shape).get(field.partition("[")[0])
    value = NO_SUCH.match(what)
    if known and known.range is not None:
        return f"{field}: expected an integer{known.range}; was {str(values[field])[:50]!r}"
    if known and known.values and value:
        return f"{field}: expected one of {', '.join(known.values)}; was {value[1][:50]}"
    if known and known.values and what == "Expected `bool`, got `str`":
        return f"{field}: expected one of true, false; was {str(values[field])[:50]!r}"
    return f"{field}: {what[:1].lower()}{what[1:]}"
