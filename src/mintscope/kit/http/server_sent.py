"""Server-sent events: the text of one.

Source    WHATWG HTML, section 9.2, "Server-sent events"
"""

from typing import Final

CONTENT_TYPE: Final = b"text/event-stream"
HEARTBEAT: Final = b": \n\n"  # a comment


def encode_event(
    name: bytes, data: bytes, *, event_id: int | None = None, retry_ms: int | None = None
) -> bytes:
    """Return an event called *name*; *data* is one line.

    event_id    the Last-Event-ID of a returning client; None changes nothing
    retry_ms    how long the client waits before it comes back
    """
    number = b"" if event_id is None else b"id: %d\n" % event_id
    retry = b"" if retry_ms is None else b"retry: %d\n" % retry_ms
    return b"event: %b\n%b%bdata: %b\n\n" % (name, number, retry, data)


def message_of(event: bytes) -> bytes:
    """Return *event*, from `encode_event`, as one JSON object; b"" for a comment.

    type      the name of the event
    id        as text, since JavaScript rounds integers of 64 bits; if the event has one
    retryMs   how long the client waits before it comes back; if the event says so
    data      as it stands in the event
    """
    fields = {name: value for name, _, value in map(_split, event.split(b"\n"))}
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


def _split(line: bytes) -> tuple[bytes, bytes, bytes]:
    return line.partition(b": ")
