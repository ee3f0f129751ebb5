"""Clients send cursors back, and may write anything into them."""

from base64 import urlsafe_b64encode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintscope.alerts.wire import EventPosition
from mintscope.api.series.wire import Before, BeforeSwap
from mintscope.api.wire import decode_cursor, encode_cursor
from mintscope.kit.errors import BadRequest

INTEGER = st.integers(-(2**63), 2**63 - 1)


@given(st.builds(BeforeSwap, *[INTEGER] * 5))
def test_an_encoded_cursor_decodes_to_the_same_position(place: BeforeSwap) -> None:
    assert decode_cursor(encode_cursor(place), BeforeSwap) == place


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63)])
def test_the_largest_and_smallest_64_bit_numbers_are_accepted(number: int) -> None:
    place = EventPosition(event_id=number)

    assert decode_cursor(encode_cursor(place), EventPosition) == place


@pytest.mark.parametrize(("size", "is_taken"), [(384, True), (385, False)])
def test_a_cursor_of_more_than_512_characters_is_refused(size: int, *, is_taken: bool) -> None:
    """Base64 encodes 384 bytes of a cursor as 512 characters."""
    place = EventPosition(event_id=7)
    text = urlsafe_b64encode(msgspec.json.encode(place).ljust(size)).decode().rstrip("=")
    if is_taken:
        assert decode_cursor(text, EventPosition) == place
    else:
        with pytest.raises(BadRequest, match=r"^cursor: expected the .* to the same request$"):
            decode_cursor(text, EventPosition)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64, 10**40, 10**400])
def test_numbers_beyond_64_bits_are_refused(number: int) -> None:
    for cursor in (
        BeforeSwap(1, 2, 3, number, 5),
        EventPosition(event_id=number),
        Before("m1", number),
    ):
        text = urlsafe_b64encode(msgspec.json.encode(msgspec.to_builtins(cursor))).decode()
        with pytest.raises(BadRequest, match="cursor"):
            decode_cursor(text.rstrip("="), type(cursor))


@given(st.text() | st.binary().map(lambda data: urlsafe_b64encode(data).decode()))
def test_arbitrary_text_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="cursor"):
        decode_cursor(text, BeforeSwap)
