"""Spans of requests and settlements: each goes, as it ends, to the tracer, if one is configured."""

from collections.abc import Callable, Mapping
from typing import Final

Attributes = Mapping[str, str | int]
Listener = Callable[[str, float, Attributes], None]


class Spans:
    """Tells what has ended: its name, the seconds it took, and attributes without a secret.

    A listener must not wait: it is called where requests are answered.
    """

    def __init__(self) -> None:
        self.listener: Listener | None = None  # None: nothing is traced

    def answered(self, route: str, status: int, elapsed_s: float) -> None:
        """Tell that a request to *route* was answered."""
        self.ended(route, elapsed_s, {"http.route": route, "http.response.status_code": status})

    def ended(self, name: str, elapsed_s: float, attributes: Attributes) -> None:
        """Tell that *name* has ended."""
        if self.listener is not None:
            self.listener(name, elapsed_s, attributes)


SPANS: Final = Spans()
