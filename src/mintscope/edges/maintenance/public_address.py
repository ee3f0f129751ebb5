"""The check of the public address of the service, and of its certificate, as clients see them."""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from mintscope.base.clock import Clock
from mintscope.base.errors import ServiceUnavailable
from mintscope.base.metrics import CERTIFICATE_EXPIRES_AT
from mintscope.base.time import DAY_S, SECOND_MS

EVERY_S: Final = 20.0
TIMEOUT_S: Final = 10.0
LINE_BYTES_MAX: Final = 8 * 1024
PORTS: Final = {"https": 443, "http": 80}
PATH: Final = "/healthz"


class PublicAddress:
    """Sends a request to the address that clients use; `run` does so every 20 s.

    origin     as `https://api.example`
    days_min   the check fails if the certificate expires sooner
    trusted    returns the SSL context that verifies certificates
    """

    def __init__(
        self,
        origin: str,
        clock: Clock,
        *,
        days_min: int,
        trusted: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        parts = urlsplit(origin)
        self._origin = origin
        self._host = parts.hostname or ""
        self._port = parts.port or PORTS[parts.scheme]
        self._named = parts.netloc
        self._trusted = trusted() if parts.scheme == "https" else None
        self._clock = clock
        self._days_min = days_min
        self._trouble: str | None = None

    async def run(self) -> None:
        """Send requests until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(EVERY_S)

    async def look(self) -> None:
        """Send one request, and note the failure if there is one."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                self._trouble = await self._ask()
        except ssl.SSLCertVerificationError as refusal:
            self._trouble = (
                f"clients refuse the certificate of {self._named}: {refusal.verify_message}: renew"
                " it, and serve the whole chain"
            )
        except TimeoutError:
            self._trouble = f"{self._origin} gives no answer within {TIMEOUT_S:g} s"
        except OSError as trouble:
            self._trouble = (
                f"{self._origin} cannot be reached from here: {trouble}: look at the proxy and"
                " at the name"
            )

    async def expect_reachable(self) -> None:
        """Raise ServiceUnavailable if clients cannot reach the service, or soon could not."""
        if self._trouble is not None:
            raise ServiceUnavailable(self._trouble)

    async def _ask(self) -> str | None:
        """Return the failure of the answer, None if it is as expected."""
        reader, writer = await asyncio.open_connection(
            self._host,
            self._port,
            ssl=self._trusted,
            server_hostname=self._host if self._trusted else None,
            limit=LINE_BYTES_MAX,
        )
        try:
            expires_at = _expires_at(writer)
            asked = f"GET {PATH} HTTP/1.1\r\nHost: {self._named}\r\nConnection: close\r\n\r\n"
            writer.write(asked.encode())
            said = (await reader.readline()).decode(errors="replace").strip()
        except ValueError:
            said = ""  # longer than the longest line that is read
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        if said.split(" ")[1:2] != ["200"]:
            return f"{self._origin}{PATH} answers {said[:80]!r}: does it lead to this service?"
        return self._expiring(expires_at)

    def _expiring(self, expires_at: float | None) -> str | None:
        if expires_at is None:
            return None
        CERTIFICATE_EXPIRES_AT.set(expires_at)
        days = (expires_at - self._clock.now() / SECOND_MS) / DAY_S
        if days >= self._days_min:
            return None
        return f"the certificate of {self._named} is good for {days:.1f} days: renew it"


def _expires_at(writer: asyncio.StreamWriter) -> float | None:
    """Return the Unix time at which the certificate of the other side expires, if it has one."""
    certificate = writer.get_extra_info("peercert")
    return None if not certificate else ssl.cert_time_to_seconds(certificate["notAfter"])
