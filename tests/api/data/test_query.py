"""Queries and cursors: invalid ones are refused with an error, and change nothing."""

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintscope.api.query import read_query
from mintscope.api.wire import decode_cursor, encode_cursor
from mintscope.kit.errors import BadRequest
from mintscope.kit.http.request import Request


class Sort(StrEnum):
    AGE = "age"
    PRICE = "price"


class Asked(msgspec.Struct, rename={"from_": "from"}):
    from_: Annotated[int, msgspec.Meta(ge=0, description="Unix seconds.")] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=100, description="Number of tokens.")] = 10
    names: Annotated[list[str], msgspec.Meta(max_length=3, description="Which.")] = []
    tf: Literal["m1", "h1"] = "m1"
    sorts: list[Sort] = []


class Place(msgspec.Struct, array_like=True, tag="place"):
    at: int
    name: str


class OtherPlace(msgspec.Struct, array_like=True, tag="other"):
    at: int
    name: str


async def nothing() -> Any:
    return {"type": "http.disconnect"}


def asked(query: str, shape: type[msgspec.Struct] = Asked) -> Any:
    scope = {"type": "http", "headers": [], "query_string": query.encode()}
    return read_query(Request(scope, nothing), shape)


def test_fields_are_read_by_their_types() -> None:
    assert asked("from=7&names=rsi,atr") == Asked(from_=7, limit=10, names=["rsi", "atr"])
    assert asked("") == Asked()


def test_a_list_is_read_from_one_field_or_from_several() -> None:
    assert asked("names=rsi&limit=5&names=atr,ema9").names == ["rsi", "atr", "ema9"]


@pytest.mark.parametrize(
    ("query", "answered"),
    [
        ("limit=0", "limit: expected an integer from 1 to 100; was '0'"),
        ("limit=many", "limit: expected an integer from 1 to 100; was 'many'"),
        ("from=-1", "from: expected Unix seconds, an integer of at least 0; was '-1'"),
        (
            "from=2026-01-01",
            "from: expected Unix seconds, an integer of at least 0; was '2026-01-01'",
        ),
        ("limit=1&limit=2", "limit: expected once; was there several times"),
        ("limt=1", "expected the query fields from, limit, names, sorts, tf; was 'limt'"),
        ("tf=1h", "tf: expected one of m1, h1; was '1h'"),
        ("sorts=age,aeg", "sorts[1]: expected one of age, price; was 'aeg'"),
        ("tf=" + "x" * 99, f"tf: expected one of m1, h1; was '{'x' * 49}"),
        (
            "names=a,b&names=c,d",
            "names: expected an array of at most 3 items; there was an array of 4 items",
        ),
        ("&".join(["a=1"] * 129), "expected a query of at most 128 fields, in UTF-8"),
    ],
)
def test_invalid_queries_are_reported(query: str, answered: str) -> None:
    with pytest.raises(BadRequest, match=r".*") as refused:
        asked(query)
    assert str(refused.value) == answered


class One(msgspec.Struct):
    limit: Annotated[int, msgspec.Meta(le=9)] = 9


class Needed(msgspec.Struct):
    mints: list[str]


class Nothing(msgspec.Struct):
    """A query without fields."""


def test_the_error_of_a_missing_field_names_it() -> None:
    with pytest.raises(BadRequest) as refused:
        asked("", Needed)
    assert str(refused.value) == "expected the query field mints; it is missing"


def test_the_error_of_a_number_without_a_minimum_shows_its_maximum() -> None:
    with pytest.raises(BadRequest) as refused:
        asked("limit=10", One)
    assert str(refused.value) == "limit: expected an integer of at most 9; was '10'"


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (One, "expected only the query field limit; was 'limt'"),
        (Nothing, "expected no query fields; was 'limt'"),
    ],
)
def test_the_error_of_an_unknown_field_lists_the_known_ones(
    shape: type[msgspec.Struct], expected: str
) -> None:
    with pytest.raises(BadRequest) as refused:
        asked("limt=1", shape)
    assert str(refused.value) == expected


@given(st.integers(-(2**63), 2**63 - 1), st.text(max_size=50))
def test_an_encoded_cursor_decodes_to_the_same_place(at: int, name: str) -> None:
    assert decode_cursor(encode_cursor(Place(at, name)), Place) == Place(at, name)


@given(st.text(max_size=600))
def test_arbitrary_text_is_refused_as_a_cursor(text: str) -> None:
    with pytest.raises(BadRequest):
        decode_cursor(text, Place)


def test_a_cursor_of_another_list_is_refused() -> None:
    with pytest.raises(BadRequest):
        decode_cursor(encode_cursor(OtherPlace(1, "a")), Place)
