"""Error messages for a body of the wrong shape, for every kind of flaw that msgspec finds."""

import json
from enum import Enum
from typing import Annotated, Any

import pytest
from msgspec import UNSET, Meta, Struct, UnsetType

from mintscope.kit.http.request import Request, UnreadableBody, described, parse_shape

SECRET = "svc_live_" + "s" * 40


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Inner(Struct, forbid_unknown_fields=True):
    x: int
    hue: Colour = Colour.RED


class Body(Struct, forbid_unknown_fields=True, rename="camel"):
    ranged: Annotated[int, Meta(ge=1, le=5)] | UnsetType = UNSET
    ratio: Annotated[float, Meta(gt=0, lt=5)] | UnsetType = UNSET
    minutes_s: Annotated[int, Meta(multiple_of=60)] | UnsetType = UNSET
    is_on: bool | UnsetType = UNSET
    url: str | UnsetType | None = UNSET
    any_kind: int | str | UnsetType | None = UNSET
    nothing: UnsetType | None = UNSET
    name: Annotated[str, Meta(min_length=1, max_length=3)] | UnsetType = UNSET
    pattern: Annotated[str, Meta(pattern="^a+$")] | UnsetType = UNSET
    mints: Annotated[list[str], Meta(min_length=1, max_length=4)] | UnsetType = UNSET
    pair: tuple[int, int] | UnsetType = UNSET
    colour: Colour | UnsetType = UNSET
    shades: list[Colour] | UnsetType = UNSET
    maybe: Colour | UnsetType | None = UNSET
    inner: Inner | UnsetType = UNSET
    counts: Annotated[dict[str, int], Meta(max_length=1)] | UnsetType = UNSET


class Above(Struct, forbid_unknown_fields=True, tag_field="kind", tag="above"):
    level: float


class Moves(Struct, forbid_unknown_fields=True, tag_field="kind", tag="moves"):
    percent: float


def flaw(body: bytes, shape: Any) -> str:
    async def receive() -> Any:
        raise AssertionError

    headers = [(b"content-type", b"application/json")]
    request = Request({"type": "http", "method": "POST", "path": "/", "headers": headers}, receive)
    with pytest.raises(UnreadableBody) as raised:
        parse_shape(request, body, shape)
    return str(raised.value)


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ({"ranged": 0}, "ranged: expected an integer of at least 1; there was 0"),
        ({"ranged": 6}, "ranged: expected an integer of at most 5; there was 6"),
        ({"ranged": 1.5}, "ranged: expected an integer; there was 1.5"),
        ({"ranged": True}, "ranged: expected an integer; there was true"),
        ({"ranged": None}, "ranged: expected an integer; there was null"),
        ({"ranged": SECRET}, "ranged: expected an integer; there was text of 49 characters"),
        ({"ranged": ""}, "ranged: expected an integer; there was text of 0 characters"),
        ({"ranged": [1]}, "ranged: expected an integer; there was an array of 1 item"),
        ({"ranged": {}}, "ranged: expected an integer; there was an object of 0 fields"),
        (
            {"ranged": 10**40},
            "ranged: expected an integer of at most 5; there was a longer number",
        ),
        ({"ratio": 0}, "ratio: expected a number of more than 0; there was 0"),
        ({"ratio": 5}, "ratio: expected a number of less than 5; there was 5"),
        ({"minutesS": 61}, "minutesS: expected an integer that is a multiple of 60; there was 61"),
        ({"isOn": 0}, "isOn: expected true or false; there was 0"),
        ({"url": 4}, "url: expected text or null; there was 4"),
        (
            {"anyKind": []},
            "anyKind: expected an integer, text or null; there was an array of 0 items",
        ),
        ({"nothing": 3}, "nothing: expected null; there was 3"),
        (
            {"name": ""},
            "name: expected text of at least 1 character; there was text of 0 characters",
        ),
        (
            {"name": SECRET},
            "name: expected text of at most 3 characters; there was text of 49 characters",
        ),
        ({"pattern": "b"}, "pattern: expected text that matches '^a+$'; there was text of 1 char"),
        (
            {"mints": []},
            "mints: expected an array of at least 1 item; there was an array of 0 items",
        ),
        (
            {"mints": ["a"] * 5},
            "mints: expected an array of at most 4 items; there was an array of 5 items",
        ),
        ({"mints": ["a", "b", "c", 7]}, "mints[3]: expected text; there was 7"),
        ({"pair": [1]}, "pair: expected an array of 2 items; there was one of 1"),
        ({"colour": "pink"}, "colour: expected one of blue, red; there was 'pink'"),
        ({"shades": ["red", "pink"]}, "shades[1]: expected one of blue, red; there was 'pink'"),
        ({"maybe": "pink"}, "maybe: expected one of blue, red; there was 'pink'"),
        ({"inner": {"x": 1, "hue": "pink"}}, "inner.hue: expected one of blue, red; there was"),
        ({"inner": 3}, "inner: expected an object; there was 3"),
        ({"inner": {}}, "inner: expected the field x; it is missing"),
        ({"inner": {"x": []}}, "inner.x: expected an integer; there was an array of 0 items"),
        (
            {"inner": {"x": 1, "y": 2}},
            "inner: expected only the fields x, hue; there was y",
        ),
        ({"counts": {"a": SECRET}}, "counts[...]: expected an integer; there was text"),
        (
            {"counts": {"a": 1, "b": 2}},
            "counts: expected an object of at most 1 field; there was an object of 2 fields",
        ),
        ({"more": 1}, "expected only the fields ranged, ratio, minutesS, isOn, url, anyKind"),
        ({SECRET: 1}, "expected only the fields ranged,"),
    ],
)
def test_the_message_of_a_flaw_states_the_expected_and_the_actual_input(
    field: Any, said: str
) -> None:
    message = flaw(json.dumps(field).encode(), Body)
    assert message.startswith(said)
    assert "`" not in message
    assert SECRET not in message


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"kind":"below"}', "kind: expected one of above, moves; there was 'below'"),
        (b'{"kind":"' + SECRET.encode() + b'"}', "kind: expected one of above, moves; there was"),
        (b'{"level":1}', "expected the field kind; it is missing"),
        (b'{"kind":"above"}', "expected the field level; it is missing"),
        (
            b'{"kind":"above","level":1,"percent":2}',
            "expected only the fields kind, level; there was percent",
        ),
        (b'{"kind":}', "expected a JSON object; the body is not JSON: invalid character near byte"),
        (b'{"kind":"a"} x', "expected a JSON object; the body is not JSON: trailing characters"),
        (b'{"kind":"\xff"}', "expected a JSON object; the body is not JSON"),
    ],
)
def test_a_choice_of_shapes_is_described_by_its_kinds(body: bytes, said: str) -> None:
    message = flaw(body, Above | Moves)
    assert message.startswith(said)
    assert SECRET not in message


@pytest.mark.parametrize(
    "problem", ["Expected `str` in a new way - at `$.name`", "Expected `int` - at `key in $.x`"]
)
def test_an_unknown_message_of_msgspec_is_shown_unchanged(problem: str) -> None:
    assert described(problem, {"name": "a"}, Body) == problem


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64, 10**300, -(10**4_000)])
@pytest.mark.parametrize("body", ['{"anyKind":%d}', '{"counts":{"a":%d}}', '{"pair":[1,%d]}'])
def test_integers_of_more_than_64_bits_are_refused_in_every_field(number: int, body: str) -> None:
    assert "expected integers of at most 64 bits" in flaw((body % number).encode(), Body)


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63)])
def test_integers_of_64_bits_are_read(number: int) -> None:
    assert "at least 1" in flaw(f'{{"ranged":{-abs(number)}}}'.encode(), Body)
    assert "at most 5" in flaw(f'{{"ranged":{abs(number) - 1}}}'.encode(), Body)
