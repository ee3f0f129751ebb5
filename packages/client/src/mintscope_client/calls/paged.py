"""Requests page by page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from mintscope_client.calls.call import ApiCall


class EndsSomewhere(Protocol):
    """A page that says where the next one begins."""

    @property
    def next_cursor(self) -> str | None:
        """The cursor of the next page; None: this is the last."""


PageData = TypeVar("PageData", bound=EndsSomewhere)
Line = TypeVar("Line")


@dataclass(frozen=True, slots=True)
class PagedCall(Generic[PageData, Line]):
    """Pages that follow one another.

    call_at    returns the call for the page at a cursor; None: the first
    lines      returns what a page holds
    """

    call_at: Callable[[str | None], ApiCall[PageData]]
    lines: Callable[[PageData], Sequence[Line]]
