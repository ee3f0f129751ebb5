"""Sending one webhook: to a public address, without following where an answer points."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

import httpx

from mintscope.edges.webhooks.addresses import Address, NotPublic, Resolve, expect_allowed, resolve

USER_AGENT: Final = "mintscope-webhooks/1"
ADDRESSES_MAX: Final = 3  # of a name are tried, one after the other
PORTS: Final = {"https": 443, "http": 80}


class NotAccepted(Exception):
    """The receiver did not accept it; the message says why, and is shown to its owner."""

    def __init__(self, why: str, *, is_gone: bool = False, is_silent: bool = False) -> None:
        super().__init__(why)
        self.is_gone = is_gone
        self.is_silent = is_silent


class NotNow(Exception):
    """The receiver has had enough for now: nothing was sent."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"expected to wait {retry_after_s} s")
        self.retry_after_s = retry_after_s


async def always(_address: str) -> None:
    """Admit every address."""


@dataclass(kw_only=True, eq=False)
class WebhookPost:
    """Sends webhooks; one of them takes *timeout_s* at most, from the name to the status.

    allows_loopback   addresses of this machine are fine, too, in plain http
    tls               what certificates are trusted
    admit             asked before an address is connected to; None: go on, else in so many seconds
    """

    timeout_s: float
    allows_loopback: bool = False
    resolve: Resolve = resolve
    tls: ssl.SSLContext = field(default_factory=ssl.create_default_context)
    admit: Callable[[str], Awaitable[int | None]] = always

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
        """Send *body* to *url*; a status of 200 to 299 accepts it.

        Raises NotAccepted, NotNow
        """
        try:
            async with asyncio.timeout(self.timeout_s):
                status = await self._post(httpx.URL(url), headers, body)
        except TimeoutError as cause:
            why = f"expected an answer within {self.timeout_s:g} s"
            raise NotAccepted(why, is_silent=True) from cause
        except NotPublic as cause:
            raise NotAccepted(str(cause)) from cause
        except (OSError, httpx.HTTPError, httpx.InvalidURL, UnicodeError) as cause:
            why = f"no answer: {type(cause).__name__}"
            raise NotAccepted(why, is_silent=True) from cause
        if not 200 <= status < 300:  # noqa: PLR2004 - the statuses of success
            raise NotAccepted(
                f"expected a status of 200 to 299; was {status}", is_gone=status == HTTPStatus.GONE
            )

    async def _post(self, url: httpx.URL, headers: Mapping[str, str], body: bytes) -> int:
        port = url.port or PORTS[url.scheme]
        texts = await self.resolve(url.host, port)
        addresses = expect_allowed(texts, allows_loopback=self.allows_loopback)
        self._expect_protected(url, addresses)
        told = {
            **headers,
            "host": url.netloc.decode(),
            "content-type": "application/json",
            "user-agent": USER_AGENT,
            "accept-encoding": "identity",
        }
        found = addresses[:ADDRESSES_MAX]
        for address in found[:-1]:
            with suppress(httpx.ConnectError, httpx.ConnectTimeout):  # nothing was sent there
                return await self._post_to(address, url, told, body, len(found))
        return await self._post_to(found[-1], url, told, body, len(found))

    async def _post_to(
        self, address: Address, url: httpx.URL, told: Mapping[str, str], body: bytes, count: int
    ) -> int:
        """Send it to one of *count* addresses that may be tried."""
        retry_after_s = await self.admit(str(address))
        if retry_after_s is not None:
            raise NotNow(retry_after_s)
        async with (
            httpx.AsyncClient(
                trust_env=False,  # no proxy, which would resolve the name again
                follow_redirects=False,
                timeout=httpx.Timeout(self.timeout_s, connect=self.timeout_s / count),
                verify=self.tls,
            ) as http,
            http.stream(
                "POST",
                url.copy_with(host=str(address)),
                headers=told,
                content=body,
                extensions={"sni_hostname": url.host},  # whom the certificate must name
            ) as response,
        ):
            return response.status_code  # what follows is not read

    def _expect_protected(self, url: httpx.URL, addresses: Sequence[Address]) -> None:
        """Raise NotPublic for plain http that leaves this machine."""
        if url.scheme != "https" and not all(address.is_loopback for address in addresses):
            raise NotPublic("expected https; plain http stays on this machine")
