"""Two proxies: a TLS proxy at the public address of the service, and one that can fall silent."""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mintscope.kit.clock import SystemClock

CHUNK: Final = 65_536
PAUSE_S: Final = 0.2


def certificate(path: Path, days: float) -> Path:
    """Write a certificate for localhost and its private key to *path*; return *path*.

    The certificate is valid for *days* more days.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.fromtimestamp(SystemClock().now() / 1000, UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, path.stem)])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=30))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.touch(mode=0o600)
    path.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    return path


class Proxy:
    """A TCP proxy that listens on *port* and passes all bytes to the port *behind*, and back.

    pem         the certificate and key with which it terminates TLS; None: it does not
    is_silent   whether the proxy forwards nothing, although connections stay open
    """

    def __init__(self, port: int, behind: int, pem: Path | None = None) -> None:
        self.port = port
        self.is_silent = False
        self._behind = behind
        self._context: ssl.SSLContext | None = None
        if pem is not None:
            self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            self.show(pem)

    def show(self, pem: Path) -> None:
        """From now on, present the TLS certificate in the file *pem* to new connections."""
        assert self._context is not None
        self._context.load_cert_chain(pem)

    async def serve(self, ready: threading.Event, end: asyncio.Event) -> None:
        """Forward connections until *end* is set; set *ready* as soon as the proxy listens."""
        server = await asyncio.start_server(self._pass, "127.0.0.1", self.port, ssl=self._context)
        ready.set()
        async with server:
            await end.wait()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._behind)
            await asyncio.gather(self._copy(reader, inner_writer), self._copy(inner_reader, writer))
        except OSError:
            writer.close()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ssl.SSLError):
            while chunk := await reader.read(CHUNK):
                while self.is_silent:  # noqa: ASYNC110 - set by another thread
                    await asyncio.sleep(PAUSE_S)
                writer.write(chunk)
                await writer.drain()
        with suppress(OSError, RuntimeError):
            writer.close()


@contextmanager
def proxy_at(port: int, behind: int, pem: Path | None = None) -> Iterator[Proxy]:
    """Run a proxy in a thread of this process during the `with` block; yield the proxy."""
    proxy = Proxy(port, behind, pem)
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    end = asyncio.Event()
    thread = threading.Thread(
        target=lambda: loop.run_until_complete(proxy.serve(ready, end)), daemon=True
    )
    thread.start()
    ready.wait(10)
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join(5)
