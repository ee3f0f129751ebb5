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

    event_id    what the client sends as Last-Event-ID when it comes back; None changes nothing
    retry_ms    how long the client waits before it comes back
    """
    number = b"" if event_id is None else b"id: %d\n" % event_id
    retry = b"" if retry_ms is None else b"retry: %d\n" % retry_ms
    return b"event: %b\n%b%bdata: %b\n\n" % (name, number, retry, data)
