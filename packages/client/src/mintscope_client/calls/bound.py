"""Calls as methods of a client: each sends a call of `verbs` or `account` and returns its data."""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from mintscope_client.calls.call import Answered, ApiCall

Given = ParamSpec("Given")
Data = TypeVar("Data")


class Sends(Protocol):
    """A client whose calls block until the response arrives."""

    def send(self, call: ApiCall[Data]) -> Answered[Data]:
        """Return the answer to *call*."""


class SendsLater(Protocol):
    """A client for asyncio."""

    async def send(self, call: ApiCall[Data]) -> Answered[Data]:
        """Return the answer to *call*."""


class Method(Generic[Given, Data]):
    """A descriptor that turns *call* into a method, which returns the data of the answer."""

    def __init__(self, call: Callable[Given, ApiCall[Data]]) -> None:
        self._call = call
        self.__doc__ = call.__doc__

    def __get__(self, client: Sends, _: Any = None) -> Callable[Given, Data]:
        """Return the method of *client*."""

        def method(*args: Given.args, **options: Given.kwargs) -> Data:
            return client.send(self._call(*args, **options)).data

        return method


class AsyncMethod(Generic[Given, Data]):
    """Method for asyncio."""

    def __init__(self, call: Callable[Given, ApiCall[Data]]) -> None:
        self._call = call
        self.__doc__ = call.__doc__

    def __get__(self, client: SendsLater, _: Any = None) -> Callable[Given, Awaitable[Data]]:
        """Return the method of *client*."""

        async def method(*args: Given.args, **options: Given.kwargs) -> Data:
            return (await client.send(self._call(*args, **options))).data

        return method


class RawMethod(Generic[Given, Data]):
    """A descriptor that turns *call* into a method, which returns the whole answer."""

    def __init__(self, call: Callable[Given, ApiCall[Data]]) -> None:
        self._call = call
        self.__doc__ = call.__doc__

    def __get__(self, client: Sends, _: Any = None) -> Callable[Given, Answered[Data]]:
        """Return the method of *client*."""

        def method(*args: Given.args, **options: Given.kwargs) -> Answered[Data]:
            return client.send(self._call(*args, **options))

        return method


class AsyncRawMethod(Generic[Given, Data]):
    """RawMethod for asyncio."""

    def __init__(self, call: Callable[Given, ApiCall[Data]]) -> None:
        self._call = call
        self.__doc__ = call.__doc__

    def __get__(
        self, client: SendsLater, _: Any = None
    ) -> Callable[Given, Awaitable[Answered[Data]]]:
        """Return the method of *client*."""

        async def method(*args: Given.args, **options: Given.kwargs) -> Answered[Data]:
            return await client.send(self._call(*args, **options))

        return method
