"""Turns functions that return a request into methods of a client that send the request."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar, overload

from typing_extensions import Self

from mintscope_client.calls.call import Answered, ApiCall
from mintscope_client.calls.paged import Line, PageData, PagedCall
from mintscope_client.calls.pages import AsyncPagedLines, PagedLines

Given = ParamSpec("Given")
Data = TypeVar("Data")


class Blocking(ABC):
    """A client whose methods send a request, wait for the response, and return its data."""

    @abstractmethod
    def send(self, call: ApiCall[Data], *, key: str | None = None) -> Answered[Data]:
        """Send *call*; return the whole answer, with status, headers and credits left."""

    def result(self, call: ApiCall[Data]) -> Data:
        """Send *call*; return the data of the answer."""
        return self.send(call).data


class Async(ABC):
    """An asyncio client whose methods send a request, await the response, and return its data."""

    @abstractmethod
    async def send(self, call: ApiCall[Data], *, key: str | None = None) -> Answered[Data]:
        """Send *call*; return the whole answer, with status, headers and credits left."""

    async def result(self, call: ApiCall[Data]) -> Data:
        """Send *call*; return the data of the answer."""
        return (await self.send(call)).data


class Raw:
    """A client whose methods return the whole response: data, status, headers and credits left."""

    def __init__(self, client: Blocking) -> None:
        self._client = client

    def send(self, call: ApiCall[Data]) -> Answered[Data]:
        """Send *call*; return the whole answer, with status, headers and credits left."""
        return self._client.send(call)

    result = send


class AsyncRaw:
    """An asyncio client whose methods return the whole response: data, status and headers."""

    def __init__(self, client: Async) -> None:
        self._client = client

    async def send(self, call: ApiCall[Data]) -> Answered[Data]:
        """Send *call*; return the whole answer, with status, headers and credits left."""
        return await self._client.send(call)

    result = send


class Method(Generic[Given, Data]):
    """A descriptor: the method of a client that sends the request that *call* returns."""

    def __init__(self, call: Callable[Given, ApiCall[Data]]) -> None:
        self._call = call
        self.__doc__ = call.__doc__

    @overload
    def __get__(self, client: None, kind: Any = None) -> Self: ...
    @overload
    def __get__(self, client: Blocking, kind: Any = None) -> Callable[Given, Data]: ...
    @overload
    def __get__(self, client: Async, kind: Any = None) -> Callable[Given, Awaitable[Data]]: ...
    @overload
    def __get__(self, client: Raw, kind: Any = None) -> Callable[Given, Answered[Data]]: ...
    @overload
    def __get__(
        self, client: AsyncRaw, kind: Any = None
    ) -> Callable[Given, Awaitable[Answered[Data]]]: ...
    def __get__(self, client: Any, kind: Any = None) -> Any:
        """Return the method of *client*; the descriptor itself if *client* is None."""
        if client is None:
            return self

        @wraps(self._call)
        def method(*args: Given.args, **options: Given.kwargs) -> Any:
            return client.result(self._call(*args, **options))

        return method


class PagedMethod(Generic[Given, PageData, Line]):
    """A descriptor: the method of a client that returns the pages of *call*, as they are read."""

    def __init__(self, call: Callable[Given, PagedCall[PageData, Line]]) -> None:
        self._call = call
        self.__doc__ = call.__doc__

    @overload
    def __get__(self, client: None, kind: Any = None) -> Self: ...
    @overload
    def __get__(
        self, client: Blocking, kind: Any = None
    ) -> Callable[Given, PagedLines[PageData, Line]]: ...
    @overload
    def __get__(
        self, client: Async, kind: Any = None
    ) -> Callable[Given, AsyncPagedLines[PageData, Line]]: ...
    def __get__(self, client: Any, kind: Any = None) -> Any:
        """Return the method of *client*; the descriptor itself if *client* is None."""
        if client is None:
            return self

        @wraps(self._call)
        def method(*args: Given.args, **options: Given.kwargs) -> Any:
            lines: Any = PagedLines if isinstance(client, Blocking) else AsyncPagedLines
            return lines(client.send, self._call(*args, **options))

        return method
