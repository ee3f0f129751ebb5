"""Server-sent events, and their form as messages of a WebSocket."""

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from mintscope.kit.http.server_sent import HEARTBEAT, encode_event, message_of

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.sampled_from([b"minute", b"snapshot", b"update", b"end"]),
    VALUES,
    st.none() | st.integers(min_value=0, max_value=2**63 - 1),
    st.none() | st.integers(min_value=0, max_value=10**6),
)
def test_a_message_has_the_fields_of_its_event(
    name: bytes, data: object, event_id: int | None, retry_ms: int | None
) -> None:
    text = msgspec.json.encode(data)

    message = json.loads(message_of(encode_event(name, text, event_id=event_id, retry_ms=retry_ms)))

    expected = {"type": name.decode(), "data": data}
    if event_id is not None:
        expected["id"] = str(event_id)
    if retry_ms is not None:
        expected["retryMs"] = retry_ms
    assert message == expected


def test_a_heartbeat_is_no_message() -> None:
    assert message_of(HEARTBEAT) == b""
