"""Parses server-sent events from a stream of bytes.

Source    WHATWG HTML, section 9.2, "Server-sent events"
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mintscope_client.errors import UnreadableError

# The most bytes of an event; a report has a few thousand
EVENT_BYTES_MAX: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One server-sent event; its name is "message" if the stream gives it no name."""

    name: str
    data: bytes


class EventReader:
    """Parses server-sent events from chunks of bytes.

    last_id    the value of Last-Event-ID to send after a lost connection; None: send none
    retry_s    seconds to wait before connecting again; None: the service has not set them
    """

    def __init__(self) -> None:
        self.last_id: str | None = None
        self.retry_s: float | None = None
        self._unread = b""
        self._name = ""
        self._data: list[bytes] = []

    def restart(self) -> None:
        """Forget the incomplete event at the end of a lost connection, before a new connection."""
        self._unread = b""
        self._name = ""
        self._data = []

    def note(self, event_id: str | None, retry_ms: int | None) -> None:
        """Store an event's id and its pause before a reconnection; None changes nothing."""
        self.last_id = self.last_id if event_id is None else event_id
        self.retry_s = self.retry_s if retry_ms is None else retry_ms / 1000

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """Yield the server-sent events that *chunk* completes.

        Raises UnreadableError if an incomplete event is longer than EVENT_BYTES_MAX.
        """
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        if len(self._unread) + sum(map(len, self._data)) > EVENT_BYTES_MAX:
            raise UnreadableError("expected shorter events", status=200)
        for line in lines:
            event = self._read(line.removesuffix(b"\r"))
            if event is not None:
                yield event

    def _read(self, line: bytes) -> ServerEvent | None:
        if not line:
            name = self._name or "message"
            data = b"\n".join(self._data)
            is_event = bool(self._data)
            self._name = ""
            self._data = []
            return ServerEvent(name, data) if is_event else None
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match field:
            case b"event":
                self._name = value.decode(errors="replace")
            case b"data":
                self._data.append(value)
            case b"id" if b"\0" not in value:
                self.last_id = value.decode("latin-1")
            case b"retry" if value.isdigit() and len(value) < 9:  # noqa: PLR2004 - a day
                self.retry_s = int(value) / 1000
            case _:
                pass  # a comment, which keeps the connection alive, or a field that is not known
        return None
