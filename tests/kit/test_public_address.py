"""The check of the public URL, with real TLS servers, and good and bad certificates."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import pytest
from prometheus_client import REGISTRY
from prove.night.address import certificate as written

from mintscope.kit.clock import SystemClock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.machine import PublicAddress
from support.processes.servers import free_port

WELL: Final = b"HTTP/1.1 200 OK\r\n\r\n"


def certificate(folder: Path, days: float) -> Path:
    return written(folder / f"{days}.pem", days)


@asynccontextmanager
async def served(pem: Path | None, answer: bytes = WELL) -> AsyncIterator[int]:
    """Answer every request with *answer*, over TLS if *pem* has a certificate; yield the port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):  # the request was not HTTP
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
        writer.close()

    context = None
    if pem is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pem)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def said(origin: str, trusted: Path | None = None) -> str:
    """Return the fault that the check finds at *origin*; "" if the check passes."""
    address = PublicAddress(
        origin,
        SystemClock(),
        days_min=14,
        trusted=lambda: ssl.create_default_context(cafile=trusted),
    )
    await address.look()
    try:
        await address.expect_reachable()
    except ServiceUnavailable as trouble:
        return str(trouble)
    return ""


async def test_a_good_certificate_is_shown_with_its_end(tmp_path: Path) -> None:
    pem = certificate(tmp_path, 90)
    async with served(pem) as port:
        assert await said(f"https://localhost:{port}", pem) == ""
    expires_at = REGISTRY.get_sample_value("mintscope_certificate_expires_at_seconds")
    assert expires_at is not None
    assert abs(expires_at - SystemClock().now() / 1000 - 90 * 86_400) < 60


@pytest.mark.parametrize(
    ("days", "is_trusted", "words"),
    [
        (3, True, "is valid for 3.0 more days: renew it"),
        (-1, True, "certificate has expired: renew the certificate"),
        (90, False, "clients refuse the certificate of localhost"),
    ],
)
async def test_the_fault_of_a_certificate_is_reported(
    tmp_path: Path,
    days: float,
    is_trusted: bool,  # noqa: FBT001 - pytest names it
    words: str,
) -> None:
    pem = certificate(tmp_path, days)
    async with served(pem) as port:
        assert words in await said(f"https://localhost:{port}", pem if is_trusted else None)


async def test_an_address_that_does_not_lead_here_is_reported() -> None:
    async with served(None) as port:
        assert await said(f"http://127.0.0.1:{port}") == ""
    async with served(None, b"HTTP/1.1 502 Bad Gateway\r\n\r\n") as port:
        assert "502 Bad Gateway" in await said(f"http://127.0.0.1:{port}")
    async with served(None, b"x" * 100_000) as port:
        assert "does it lead to this service?" in await said(f"http://127.0.0.1:{port}")
    assert "cannot be reached from this machine" in await said(f"http://127.0.0.1:{free_port()}")
