"""Server-sent events as text, and their conversion to JSON messages.

Source    WHATWG HTML, section 9.2, "Server-sent events"
"""

from typing import Final

CONTENT_TYPE: Final = b"text/event-stream"
HEARTBEAT: Final = b": \n\n"  # a comment


def encode_event(
    name: bytes, data: bytes, *, event_id: int | None = None, retry_ms: int | None = None
) -> bytes:
    """Return the text of the event *name*, whose *data* is one line.

    event_id    the id, which a client sends as Last-Event-ID when it reconnects; None: no id
    retry_ms    the pause before a client reconnects; None: the default of the client
    """
    number = b"" if event_id is None else b"id: %d\n" % event_id
    retry = b"" if retry_ms is None else b"retry: %d\n" % retry_ms
    return b"event: %b\n%b%bdata: %b\n\n" % (name, number, retry, data)


def message_of(event: bytes) -> bytes:
    """Return *event*, a text from `encode_event`, as one JSON object; b"" for a comment.

    type      the name of the event
    id        its id as text, because JavaScript rounds integers of 64 bits; absent without an id
    retryMs   the pause before the client reconnects, in milliseconds; absent without a pause
    data      the data of the event, which must be JSON
    """
    lines = (line.partition(b": ") for line in event.split(b"\n"))
    fields = {name: value for name, _, value in lines}
    if b"event" not in fields:
        return b""
    number = fields.get(b"id")
    retry = fields.get(b"retry")
    members = [b'"type":"%b"' % fields[b"event"]]
    if number is not None:
        members.append(b'"id":"%b"' % number)
    if retry is not None:
        members.append(b'"retryMs":%b' % retry)
    members.append(b'"data":%b' % fields[b"data"])
    return b"{%b}" % b",".join(members)
