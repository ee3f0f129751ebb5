"""Spans of requests and settlements, sent to the tracer as they end, if one is configured."""

from collections.abc import Callable, Mapping
from typing import Final

Attributes = Mapping[str, str | int]
Listener = Callable[[str, float, Attributes], None]


class Spans:
    """Receives each span that ends: its name, its seconds, and attributes without secrets.

    A listener must not block: it is called while requests are answered.
    """

    def __init__(self) -> None:
        self.listener: Listener | None = None  # None: nothing is traced

    def answered(self, route: str, status: int, elapsed_s: float) -> None:
        """Report the span of an answered request to *route*."""
        self.ended(route, elapsed_s, {"http.route": route, "http.response.status_code": status})

    def ended(self, name: str, elapsed_s: float, attributes: Attributes) -> None:
        """Report the span *name*, which has ended."""
        if self.listener is not None:
            self.listener(name, elapsed_s, attributes)


SPANS: Final = Spans()
