"""A transport for httpx that reads no more of an answer than a buyer can use."""

from collections.abc import AsyncIterator
from typing import Final

import httpx
from typing_extensions import override

ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024  # a thousand signatures of a node are a tenth of it
PLAIN: Final = "identity"


class AnswerTooLarge(httpx.ReadError):
    """An answer is longer than ANSWER_BYTES_MAX, or packed so that it may become so."""


class BoundedTransport(httpx.AsyncBaseTransport):
    """Sends requests by *inner*, and gives up an answer of more than ANSWER_BYTES_MAX bytes.

    Answers are asked for as they are, because httpx unpacks a packed one to any length.
    Raises AnswerTooLarge, which is a httpx.RequestError: what became of the request is unknown.
    """

    def __init__(self, inner: httpx.AsyncBaseTransport | None = None) -> None:
        self._inner = httpx.AsyncHTTPTransport() if inner is None else inner

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["Accept-Encoding"] = PLAIN
        response = await self._inner.handle_async_request(request)
        encoding = response.headers.get("Content-Encoding", PLAIN)
        if encoding.strip().lower() != PLAIN:
            await response.aclose()
            raise AnswerTooLarge(f"expected an answer as it is; it is packed: {encoding[:40]!r}")
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Bounded(response.stream)
        return response

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()


class _Bounded(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for chunk in self._stream:
            read += len(chunk)
            if read > ANSWER_BYTES_MAX:
                raise AnswerTooLarge(f"expected at most {ANSWER_BYTES_MAX} bytes; was more")
            yield chunk

    @override
    async def aclose(self) -> None:
        await self._stream.aclose()
