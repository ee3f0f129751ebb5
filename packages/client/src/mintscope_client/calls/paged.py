"""Requests for results that come in pages."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from mintscope_client.calls.call import ApiCall


class EndsSomewhere(Protocol):
    """A page of results with the cursor of the next page."""

    @property
    def next_cursor(self) -> str | None:
        """The cursor of the next page; None on the last page."""


PageData = TypeVar("PageData", bound=EndsSomewhere)
Line = TypeVar("Line")


@dataclass(frozen=True, slots=True)
class PagedCall(Generic[PageData, Line]):
    """A request for a result that comes in pages.

    call_at    a function that returns the call for the page at a cursor; None: the first page
    lines      a function that returns the rows of a page
    """

    call_at: Callable[[str | None], ApiCall[PageData]]
    lines: Callable[[PageData], Sequence[Line]]
