"""Transports for httpx that limit the size of answers."""

from collections.abc import AsyncIterator, Iterator
from typing import Final

import httpx
from typing_extensions import override

ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024  # 1,000 signatures of a node take a tenth of this
PLAIN: Final = "identity"
ENDLESS: Final = "mintscope_endless"  # the extension of a request whose answer may have any length


class AnswerTooLarge(httpx.ReadError):
    """A response is longer than ANSWER_BYTES_MAX, or is compressed."""


class BoundedTransport(httpx.AsyncBaseTransport):
    """Sends requests with the transport *inner*, and aborts responses over ANSWER_BYTES_MAX bytes.

    A request with the extension ENDLESS has no limit.  Requests demand answers without compression,
    because httpx decompresses without a limit.  Raises AnswerTooLarge, an httpx.RequestError, if an
    answer is too long or compressed: the outcome of the request is unknown.
    """

    def __init__(self, inner: httpx.AsyncBaseTransport | None = None) -> None:
        self._inner = httpx.AsyncHTTPTransport() if inner is None else inner

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["Accept-Encoding"] = PLAIN
        response = await self._inner.handle_async_request(request)
        if _is_packed(response):
            await response.aclose()
            raise _packed(response)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        if ENDLESS not in request.extensions:
            response.stream = _Bounded(response.stream)
        return response

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()


class BoundedSyncTransport(httpx.BaseTransport):
    """Sends requests with the transport *inner*, and aborts responses over ANSWER_BYTES_MAX bytes.

    It is BoundedTransport for `httpx.Client`.
    """

    def __init__(self, inner: httpx.BaseTransport | None = None) -> None:
        self._inner = httpx.HTTPTransport() if inner is None else inner

    @override
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["Accept-Encoding"] = PLAIN
        response = self._inner.handle_request(request)
        if _is_packed(response):
            response.close()
            raise _packed(response)
        assert isinstance(response.stream, httpx.SyncByteStream)
        if ENDLESS not in request.extensions:
            response.stream = _BoundedSync(response.stream)
        return response

    @override
    def close(self) -> None:
        self._inner.close()


class _Bounded(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for chunk in self._stream:
            read += len(chunk)
            _expect_room(read)
            yield chunk

    @override
    async def aclose(self) -> None:
        await self._stream.aclose()


class _BoundedSync(httpx.SyncByteStream):
    def __init__(self, stream: httpx.SyncByteStream) -> None:
        self._stream = stream

    @override
    def __iter__(self) -> Iterator[bytes]:
        read = 0
        for chunk in self._stream:
            read += len(chunk)
            _expect_room(read)
            yield chunk

    @override
    def close(self) -> None:
        self._stream.close()


def _expect_room(read: int) -> None:
    if read > ANSWER_BYTES_MAX:
        raise AnswerTooLarge(f"expected at most {ANSWER_BYTES_MAX} bytes; was more")


def _is_packed(response: httpx.Response) -> bool:
    encoding: str = response.headers.get("Content-Encoding", PLAIN)
    return encoding.strip().lower() != PLAIN


def _packed(response: httpx.Response) -> AnswerTooLarge:
    encoding = response.headers["Content-Encoding"]
    return AnswerTooLarge(f"expected an answer as it is; it is packed: {encoding[:40]!r}")
