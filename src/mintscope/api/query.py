"""Queries of requests, read as the struct that describes them, with errors in plain English.

A list is one field with values separated by commas, or several fields of the same name, because
clients generated from OpenAPI send either form.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple, TypeVar
from urllib.parse import parse_qsl

import msgspec

from mintscope.kit.errors import BadRequest
from mintscope.kit.http.request import Request, described

FIELDS_MAX: Final = 128  # more than the fields of a token, which a screen may name one by one
BOOLEANS: Final = ["true", "false"]
UNITS: Final = ("", "s", "m", "h", "d")  # "" is the unit of the charting feed, minutes
TIMEFRAME: Final = re.compile(r"([smhd]?)([0-9]+)")
UNIX_SECONDS: Final = "Unix seconds"
"""Names the unit of a query field in its description, and in the error of a wrong value."""
NO_SUCH: Final = re.compile(r"Invalid enum value (.*)")
MISSING: Final = re.compile(r"Object missing required field `(.*)`")
BETWEEN: Final = re.compile(r",(?![^()]*\))")  # a comma in parentheses does not separate values

Shape = TypeVar("Shape", bound=msgspec.Struct)


def read_query(request: Request, shape: type[Shape]) -> Shape:
    """Return the query of *request* as *shape*.

    Raises BadRequest for a query that cannot be read, and for a field that is unknown, missing,
    invalid, or repeated although it is no list.
    """
    names, lists, optional = _names(shape)
    values: dict[str, str | list[str]] = {}
    lists_read: dict[str, list[str]] = {}
    for name, text in _fields(request):
        if name not in names:
            raise BadRequest(f"expected {_listed(names)}; was {name[:50]!r}")
        if name in lists:
            # `names=` is an empty list, not a list of one empty name.
            one = () if not text and name in optional else BETWEEN.split(text)
            lists_read.setdefault(name, []).extend(one)
        elif name in values:
            raise BadRequest(f"{name}: expected once; was there several times")
        else:
            values[name] = text
    values |= lists_read
    try:
        return msgspec.convert(values, shape, strict=False)
    except msgspec.ValidationError as cause:
        raise BadRequest(_flaw_text(str(cause), values, shape)) from cause


class NoQuery(msgspec.Struct):
    """The query of a request whose fields are all in its body."""


class QueryField(NamedTuple):
    """The values that a query field accepts.

    values    all of them if the field is an enumeration or a boolean; otherwise empty
    is_list   whether the field is a list; *values* and *range* are then those of an item
    range     the expected integer or number with its range, for messages; None for other types
    """

    values: Sequence[str]
    is_list: bool
    range: str | None


@cache
def query_fields(shape: type[msgspec.Struct]) -> Mapping[str, QueryField]:
    """Return the accepted values of each field of the query *shape*, by the name of the field."""
    shapes = msgspec.json.schema_components((shape,))[1]
    found: dict[str, QueryField] = {}
    for name, field in shapes[shape.__name__]["properties"].items():
        one = field.get("items", field)
        reference = one.get("$ref", "").rpartition("/")[2]
        values = [str(value) for value in shapes.get(reference, one).get("enum", ())]
        values.sort(key=_by_length)
        if one.get("type") == "boolean":
            values = BOOLEANS
        found[name] = QueryField(values, is_list="items" in field, range=_range(one))
    return found


def _by_length(value: str) -> tuple[int, int]:
    """Return the position of *value* by unit and number, if it is a timeframe like `m15` or `240`.

    Other values have the same position, the last.
    """
    match = TIMEFRAME.fullmatch(value)
    return (UNITS.index(match[1]), int(match[2])) if match else (len(UNITS), 0)


def _fields(request: Request) -> list[tuple[str, str]]:
    try:
        return parse_qsl(request.query.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX)
    except ValueError as cause:
        raise BadRequest(f"expected a query of at most {FIELDS_MAX} fields, in UTF-8") from cause


@cache
def _names(
    shape: type[msgspec.Struct],
) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Return the names of the fields of *shape*: all, lists, and lists that may be empty."""
    properties = msgspec.json.schema(shape)["$defs"][shape.__name__]["properties"]
    lists = [name for name, field in properties.items() if field.get("type") == "array"]
    optional = [name for name in lists if properties[name].get("default") == []]
    return frozenset(properties), frozenset(lists), frozenset(optional)


def _listed(names: Collection[str]) -> str:
    match sorted(names):
        case []:
            return "no query fields"
        case [name]:
            return f"only the query field {name}"
        case several:
            return f"the query fields {', '.join(several)}"


def _range(field: Mapping[str, object]) -> str | None:
    """Return the expected number, such as "an integer from 1 to 9"; None for other types."""
    name = {"integer": "an integer", "number": "a number"}.get(str(field.get("type")))
    if name is None:
        return None
    if UNIX_SECONDS in str(field.get("description")):  # people send dates
        name = f"{UNIX_SECONDS}, {name}"
    least = field.get("minimum")
    most = field.get("maximum")
    if least is not None and most is not None:
        return f"{name} from {least} to {most}"
    if most is not None:
        return f"{name} of at most {most}"
    return name if least is None else f"{name} of at least {least}"


def _flaw_text(
    problem: str, values: Mapping[str, str | list[str]], shape: type[msgspec.Struct]
) -> str:
    """Return the error text for a faulty query field: msgspec's *problem* in plain English."""
    # msgspec's messages look like this: Expected `int`, got `str` - at `$.limit`
    what, at, where = problem.partition(" - at `$.")
    if not at:
        missing = MISSING.match(what)
        return f"expected the query field {missing[1]}; it is missing" if missing else what
    field = where.rstrip("`").replace("[...]", "")
    known = query_fields(shape).get(field.partition("[")[0])
    value = NO_SUCH.match(what)
    if known and known.range is not None:
        return f"{field}: expected {known.range}; was {str(values[field])[:50]!r}"
    if known and known.values and value:
        return f"{field}: expected one of {', '.join(known.values)}; was {value[1][:50]}"
    # msgspec describes a boolean that is a number in other words, such as "Number out of range".
    if known and known.values == BOOLEANS:
        return f"{field}: expected one of true, false; was {str(values[field])[:50]!r}"
    return described(problem, values, shape)
