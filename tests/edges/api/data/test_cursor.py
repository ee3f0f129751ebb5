"""Cursors come back from clients, who may write anything into them."""

from base64 import urlsafe_b64encode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintscope.base.errors import BadRequest
from mintscope.edges.api.data.cursor import decode_cursor, encode_cursor
from mintscope.edges.api.data.series.wire import Before, BeforeSwap
from mintscope.edges.api.signals.wire import EventPosition

INTEGER = st.integers(-(2**63) + 1, 2**63 - 1)


@given(st.builds(BeforeSwap, *[INTEGER] * 5))
def test_a_cursor_comes_back_as_it_was_given(place: BeforeSwap) -> None:
    assert decode_cursor(encode_cursor(place), BeforeSwap) == place


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64, 10**40, 10**400])
def test_numbers_that_no_store_can_hold_are_refused(number: int) -> None:
    for cursor in (
        BeforeSwap(1, 2, 3, number, 5),
        EventPosition(event_id=number),
        Before("m1", number),
    ):
        text = urlsafe_b64encode(msgspec.json.encode(msgspec.to_builtins(cursor))).decode()
        with pytest.raises(BadRequest, match="cursor"):
            decode_cursor(text.rstrip("="), type(cursor))


@given(st.text() | st.binary().map(lambda data: urlsafe_b64encode(data).decode()))
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="cursor"):
        decode_cursor(text, BeforeSwap)
