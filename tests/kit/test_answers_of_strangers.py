"""The body of a third party's response is read and decompressed up to a limit, else refused."""

import gzip
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import repeat
from typing import Any, Final

import httpx
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mintscope.kit.errors import Undecodable, decode_base64, decode_json
from mintscope.kit.http_client import open_client, read_body
from support.fakes.raw_server import Body, raw_server, whole

LIMIT: Final = 1_000_000
CHUNKED: Final = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
PACKED: Final = b"Content-Encoding: gzip"
BOMB: Final = zlib.compress(bytes(32 * LIMIT), 1, wbits=31)
DECODERS: Final = [msgspec.json.Decoder[Any](kind) for kind in (Any, msgspec.Raw, int, list[str])]


async def fetch(written: bytes | Body) -> bytes:
    async with (
        raw_server(written) as url,
        open_client(timeout_s=10) as client,
        client.stream("GET", url) as response,
    ):
        return await read_body(response, bytes_max=LIMIT)


def endless() -> Iterator[bytes]:
    yield CHUNKED + b"\r\n"
    yield from repeat(b"10000\r\n" + b" " * 0x10000 + b"\r\n")


def endless_and_packed() -> Iterator[bytes]:
    """Yield a response whose body is complete gzip data, followed by endless spaces."""
    end = gzip.compress(b"[]")
    yield CHUNKED + PACKED + b"\r\n\r\n" + b"%x\r\n%b\r\n" % (len(end), end)
    yield from repeat(b"10000\r\n" + b" " * 0x10000 + b"\r\n")


@pytest.mark.parametrize("size", [0, 1, 70_000, LIMIT])
async def test_a_body_within_the_limit_arrives_packed_or_not(size: int) -> None:
    body = b"x" * size

    assert await fetch(whole(body)) == body
    assert await fetch(whole(gzip.compress(body), PACKED)) == body


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (whole(bytes(LIMIT + 1)), "at most 1000000 bytes"),
        (whole(gzip.compress(bytes(LIMIT + 1)), PACKED), "at most 1000000 bytes"),
        (whole(BOMB, PACKED), "at most 1000000 bytes"),
        (whole(gzip.compress(BOMB), b"Content-Encoding: gzip, gzip"), "'gzip, gzip'"),
        (whole(zlib.compress(b"7"), b"Content-Encoding: deflate"), "'deflate'"),
        (whole(b"no gzip", PACKED), "a gzip body"),
        (whole(b"", PACKED), "breaks off"),
        (whole(gzip.compress(b"7")[:-4], PACKED), "breaks off"),
        (whole(gzip.compress(b"7") + b"more", PACKED), "nothing behind"),
        (endless, "at most 1000000 bytes"),
        (endless_and_packed, "nothing behind"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
async def test_any_other_body_is_undecodable_and_takes_little_memory(
    written: bytes | Body, said: str
) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(Undecodable, match=said):
            await fetch(written)
        assert tracemalloc.get_traced_memory()[1] < 10 * LIMIT
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "written",
    [
        b"",
        b"\xff" * 100,
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        CHUNKED + b"\r\nffffffffffffffffffffff\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000,
        b"SSH-2.0-OpenSSH_9.2\r\n",
    ],
    ids=len,
)
async def test_an_invalid_http_answer_is_an_error_of_the_connection(written: bytes) -> None:
    with pytest.raises(httpx.HTTPError):
        await fetch(written)


async def test_a_node_cannot_make_us_keep_cookies() -> None:
    cookies = [b"Set-Cookie: n%d=%b; Path=/" % (n, b"x" * 100) for n in range(50)]
    async with raw_server(whole(b"7", *cookies)) as url, open_client(timeout_s=10) as client:
        assert (await client.get(url)).content == b"7"
        assert len(client.cookies.jar) == 0


@given(st.binary())
@example(b'"\xff"')
@example(b"[" * 100_000 + b"]" * 100_000)
@example(b"1e400")
@example(b"9" * 5_000)
@example(b'["\xed\xa0\x80"]')
@example(b'["\\ud800"]')
@example(b"\x1f\x8b\x08")
def test_json_of_any_bytes_raises_only_undecodable(text: bytes) -> None:
    for decoder in DECODERS:
        with suppress(Undecodable):
            decode_json(text, decoder)


@given(st.text())
@example("AA=A")
@example("é")
def test_base64_of_any_text_raises_only_undecodable(text: str) -> None:
    with suppress(Undecodable):
        decode_base64(text)


@pytest.mark.parametrize("text", ["AA!AA===", "AAAA\n", "AA-_", "A"])
def test_invalid_base64_is_undecodable(text: str) -> None:
    with pytest.raises(Undecodable):
        decode_base64(text)
