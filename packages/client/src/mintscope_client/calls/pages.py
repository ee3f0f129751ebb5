"""Results in pages, for blocking and asyncio clients; a page is fetched when it is needed."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Generic

import msgspec

from mintscope_client.calls.call import Answered, ApiCall
from mintscope_client.calls.frames import Library, choose_library, to_dataframe
from mintscope_client.calls.paged import Line, PageData, PagedCall


class PagedLines(Generic[PageData, Line]):
    """All results of a paged request: iterate over this object, or over its `pages`.

    A page is requested, and paid for, when its first result is needed; the budget of the client
    limits the cost.
    """

    def __init__(
        self,
        send: Callable[[ApiCall[PageData]], Answered[PageData]],
        listing: PagedCall[PageData, Line],
    ) -> None:
        self._send = send
        self._listing = listing

    def __iter__(self) -> Iterator[Line]:
        for page in self.pages():
            yield from self._listing.lines(page)

    def pages(self, cursor: str | None = None) -> Iterator[PageData]:
        """Yield the pages from the one with *cursor* on; None: from the first page on."""
        while True:
            page = self._send(self._listing.call_at(cursor)).data
            yield page
            cursor = page.next_cursor
            if cursor is None:
                return

    def first(self) -> PageData:
        """Request and return the first page."""
        return next(self.pages())

    def to_dataframe(self, library: Library | None = None) -> Any:
        """Fetch all pages, and return their rows as a DataFrame of pandas or polars.

        Raises ImportError before any request if the library is not installed.
        """
        chosen = choose_library(library)
        return to_dataframe(_structs(list(self)), chosen)


class AsyncPagedLines(Generic[PageData, Line]):
    """All results of a paged request, for asyncio: iterate over this object or its `pages`."""

    def __init__(
        self,
        send: Callable[[ApiCall[PageData]], Awaitable[Answered[PageData]]],
        listing: PagedCall[PageData, Line],
    ) -> None:
        self._send = send
        self._listing = listing

    async def __aiter__(self) -> AsyncIterator[Line]:
        async for page in self.pages():
            for line in self._listing.lines(page):
                yield line

    async def pages(self, cursor: str | None = None) -> AsyncIterator[PageData]:
        """Yield the pages from the one with *cursor* on; None: from the first page on."""
        while True:
            page = (await self._send(self._listing.call_at(cursor))).data
            yield page
            cursor = page.next_cursor
            if cursor is None:
                return

    async def first(self) -> PageData:
        """Request and return the first page."""
        return await anext(self.pages())

    async def to_dataframe(self, library: Library | None = None) -> Any:
        """Fetch all pages, and return their rows as a DataFrame of pandas or polars.

        Raises ImportError before any request if the library is not installed.
        """
        chosen = choose_library(library)
        return to_dataframe(_structs([line async for line in self]), chosen)


def _structs(lines: list[Any]) -> list[msgspec.Struct]:
    return lines
