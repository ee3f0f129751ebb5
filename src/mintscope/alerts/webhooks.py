"""Sending of webhooks: checks of IP addresses, requests, and limits of attempts.

Webhooks are sent in batches of one alert each, so that a slow receiver delays only its own alert.
Outcomes of batches are stored together.  If a process is killed after it has sent a webhook and
before it has stored the outcome, the webhook is sent again, with the same `webhook-id`.

A user chooses the host name, and the owner of the name chooses its address.  Therefore the address
is checked after the lookup, and the connection goes to the checked address: a second lookup could
return another address.

Limits of attempts:

host      the most attempts in a minute to one host name, from all accounts together; the same limit
          applies to one address, so that several names of one machine do not raise the limit
account   half as many attempts of one account to all hosts, so that one account cannot use up the
          limit of a host
silence   a host that did not answer three times in a row gets no attempts for up to a minute
"""

import asyncio
import socket
import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from threading import Thread
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import httpx
import structlog

from mintscope.alerts.deliveries import Attempt, Deliveries, DeliveryBatch, DueWebhook, Ended
from mintscope.kit.audit import UserId
from mintscope.kit.clock import Clock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.limits import Denied, Limit, Limiter, Limits, take_all
from mintscope.kit.metrics import WEBHOOKS, WEBHOOKS_OLDEST_S, WEBHOOKS_WAITING
from mintscope.kit.time import HOUR_S, MINUTE_S

Address: TypeAlias = IPv4Address | IPv6Address
Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]

# Networks whose addresses end in an IPv4 address, and lead to it.
NAT64: Final = IPv6Network("64:ff9b::/96")
COMPATIBLE: Final = IPv6Network("::/96")
UNICAST: Final = IPv6Network("2000::/3")  # all assigned unicast addresses
RELAYS: Final = IPv4Network("192.88.99.0/24")  # addresses of the nearest 6to4 relay


class NotPublic(Exception):
    """A host has no IP address, or one that is not allowed; the message has the reason."""


async def resolve(host: str, port: int) -> Sequence[str]:
    """Return the IP addresses of *host*, as texts.  Raises OSError, UnicodeError.

    The lookup runs in a new thread, because it can wait half a minute for a name server.  In one of
    the few threads of the event loop it would delay other lookups.
    """
    found: Future[Sequence[str]] = Future()
    Thread(target=_resolve, args=(host, port, found), name="webhook-name", daemon=True).start()
    return await asyncio.wrap_future(found)


def _resolve(host: str, port: int, found: Future[Sequence[str]]) -> None:
    # From now on the future cannot be cancelled, so its result can always be set.
    found.set_running_or_notify_cancel()
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        found.set_result(list(dict.fromkeys(str(each[4][0]) for each in infos)))
    except (OSError, UnicodeError) as trouble:
        found.set_exception(trouble)


def expect_allowed(texts: Sequence[str], *, allows_loopback: bool) -> list[Address]:
    """Return the IP addresses in *texts*, parsed.

    allows_loopback   whether addresses of this machine are allowed, besides public addresses
    Raises            NotPublic if there is no address, or if one is malformed or not allowed
    """
    if not texts:
        raise NotPublic("expected an address; the name has none")
    addresses = []
    for text in texts:
        try:
            address = ip_address(text)
        except ValueError as cause:
            raise NotPublic(f"expected an address; was {text[:60]!r}") from cause
        if not is_public(address) and not (allows_loopback and address.is_loopback):
            raise NotPublic("expected a public address; the name leads to another")
        addresses.append(address)
    return addresses


def is_public(address: Address) -> bool:
    """Return whether *address*, or the IPv4 address that it embeds, is a public unicast address."""
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return False
        inner = _inner(address)
        if inner is not None:
            return is_public(inner)
        if address not in UNICAST:
            return False
    elif address in RELAYS:
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def _inner(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that *address* embeds; None if *address* embeds none."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in COMPATIBLE or address in NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return None


USER_AGENT: Final = "mintscope-webhooks/1"
ADDRESSES_MAX: Final = 3  # addresses of a name that are tried, one after the other
PORTS: Final = {"https": 443, "http": 80}


class NotAccepted(Exception):
    """The webhook was not accepted, or could not be sent; the message has the reason.

    is_gone     whether the receiver wants no further webhooks
    is_silent   whether the lookup of the host or the request failed without an answer
    """

    def __init__(self, why: str, *, is_gone: bool = False, is_silent: bool = False) -> None:
        super().__init__(why)
        self.is_gone = is_gone
        self.is_silent = is_silent


class NotNow(Exception):
    """The limit of attempts to reach the receiver's address is reached, so nothing was sent."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"expected to wait {retry_after_s} s")
        self.retry_after_s = retry_after_s


async def always(_address: str) -> None:
    """Place no limit on the attempts to send webhooks to an IP address."""


@dataclass(kw_only=True, eq=False)
class WebhookPost:
    """Sends webhooks; each takes *timeout_s* at most, from the name lookup to the status.

    allows_loopback   whether addresses of this machine are allowed, also by plain http
    admit             is called with an IP address before a connection; returns the seconds to wait,
                      or None if the connection is allowed now
    """

    timeout_s: float
    allows_loopback: bool = False
    resolve: Resolve = resolve
    tls: ssl.SSLContext = field(default_factory=ssl.create_default_context)
    admit: Callable[[str], Awaitable[int | None]] = always

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
        """Send *body* to *url*; a status of 200 to 299 is success.  Raises NotAccepted, NotNow."""
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
        texts = await self.resolve(_host(url), port)
        addresses = expect_allowed(texts, allows_loopback=self.allows_loopback)
        if url.scheme != "https" and not all(address.is_loopback for address in addresses):
            raise NotPublic("expected https; plain http stays on this machine")
        head = {
            **headers,
            "host": url.netloc.decode(),
            "content-type": "application/json",
            "user-agent": USER_AGENT,
            "accept-encoding": "identity",
        }
        found = addresses[:ADDRESSES_MAX]
        for address in found[:-1]:
            with suppress(httpx.ConnectError, httpx.ConnectTimeout):  # unsent: try the next address
                return await self._post_to(address, url, head, body, len(found))
        return await self._post_to(found[-1], url, head, body, len(found))

    async def _post_to(
        self,
        address: Address,
        url: httpx.URL,
        head: Mapping[str, str],
        body: bytes,
        count: int,
    ) -> int:
        """Send the webhook to *address*, one of *count* addresses to try; return the status."""
        retry_after_s = await self.admit(str(address))
        if retry_after_s is not None:
            raise NotNow(retry_after_s)
        async with (
            httpx.AsyncClient(
                trust_env=False,  # a proxy would resolve the name again
                follow_redirects=False,
                # A share for each address, so that a silent address leaves time for the next one.
                timeout=httpx.Timeout(self.timeout_s, connect=self.timeout_s / count),
                verify=self.tls,
            ) as http,
            http.stream(
                "POST",
                url.copy_with(host=str(address)),
                headers=head,
                content=body,
                extensions={"sni_hostname": _host(url)},  # the certificate must name this host
            ) as response,
        ):
            return response.status_code  # the body is not read


def _host(url: httpx.URL) -> str:
    """Return the host of *url*; a name in its encoded form.

    `url.host` is decoded: the resolver would encode it by an older standard, to another name.
    """
    return url.raw_host.decode()


PER_MINUTE: Final = 60
SILENT_MAX: Final = 3
REST_S_MIN: Final = 10
REST_S_MAX: Final = 60
SILENT_HOSTS_MAX: Final = 10_000


class _Silence(NamedTuple):
    failures: int
    until_s: float


class Receivers:
    """Limits attempts to send webhooks.

    per_minute   the most attempts in a minute to one host or one IP address, from all accounts
                 together
    """

    def __init__(self, limits: Limits, clock: Clock, *, per_minute: int = PER_MINUTE) -> None:
        def limiter(name: str, count: int) -> Limiter:
            return limits.limiter(Limit(name=name, count=count, window_s=MINUTE_S))

        self._hosts = limiter("webhooks to a host", per_minute)
        self._addresses = limiter("webhooks to an address", per_minute)
        self._accounts = limiter("webhooks of an account", max(1, per_minute // 2))
        self._clock = clock
        self._silent: OrderedDict[str, _Silence] = OrderedDict()

    async def admit(self, host: str, user_id: UserId) -> int | None:
        """Count an attempt of *user_id* to reach *host*; return None.

        If the attempt is not allowed yet, do not count it, and return the seconds to wait.
        """
        silence = self._silent.get(host)
        now_s = self._clock.monotonic_s()
        if silence is not None and silence.failures < SILENT_MAX:
            silence = None
        if silence is not None and now_s < silence.until_s:
            return max(1, round(silence.until_s - now_s))
        verdict = await take_all([(self._hosts, host), (self._accounts, user_id)])
        if isinstance(verdict, Denied):
            return verdict.retry_after_s
        if silence is not None:  # this attempt tests the host; others wait for its outcome
            self._silent[host] = _Silence(silence.failures, now_s + REST_S_MAX)
        return None

    async def admit_address(self, address: str) -> int | None:
        """Count an attempt to reach *address*; return None, or the seconds to wait if refused."""
        verdict = await self._addresses.take(address)
        return verdict.retry_after_s if isinstance(verdict, Denied) else None

    def note(self, host: str, *, is_silent: bool) -> None:
        """Record an attempt to reach *host*; *is_silent*: whether the host did not answer."""
        before = self._silent.pop(host, None)
        if not is_silent:
            return
        failures = 1 if before is None else before.failures + 1
        rest_s = min(REST_S_MIN << min(max(0, failures - SILENT_MAX), 8), REST_S_MAX)
        self._silent[host] = _Silence(failures, self._clock.monotonic_s() + rest_s)
        while len(self._silent) > SILENT_HOSTS_MAX:
            self._silent.popitem(last=False)


POLL_S: Final = 0.5
COUNT_S: Final = 30.0  # the least seconds between two counts of waiting webhooks
SWEEP_S: Final = float(HOUR_S)
TROUBLE_S: Final = 5.0

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False)
class WebhookSender:
    """Sends the webhooks that *deliveries* leases to this process, and stores their outcomes."""

    deliveries: Deliveries
    post: WebhookPost
    receivers: Receivers
    clock: Clock
    _sending: dict[asyncio.Task[Ended], DeliveryBatch] = field(default_factory=dict, init=False)
    _counted_at_s: float | None = field(default=None, init=False)
    _swept_at_s: float | None = field(default=None, init=False)

    async def run(self) -> None:
        """Send due webhooks until cancelled; normally each is sent within a second."""
        try:
            while True:
                try:
                    await self.take()
                    await self._keep()
                except Exception as trouble:  # an error must not stop the sending of later webhooks
                    is_bug = not isinstance(trouble, ServiceUnavailable)
                    log.warning("due webhooks could not be read", exc_info=is_bug, why=str(trouble))
                    await asyncio.sleep(TROUBLE_S)
                await asyncio.sleep(POLL_S)
        finally:
            for task in self._sending:
                task.cancel()
            await asyncio.gather(*self._sending, return_exceptions=True)

    async def take(self) -> int:
        """Store outcomes, and start to send due webhooks; return the number of these webhooks.

        A webhook that this process is still sending is not sent twice, even if its lease has ended.
        Raises ServiceUnavailable.
        """
        await self._collect()
        dropped = await self.deliveries.take_in()
        if dropped:
            WEBHOOKS.labels("dropped").inc(dropped)
            log.info("webhooks were dropped: too many of a signal wait", count=dropped)
        batches = await self.deliveries.lease(self._sending.values())
        for batch in batches:
            self._sending[asyncio.create_task(self._send(batch))] = batch
        return sum(len(batch.webhooks) for batch in batches)

    async def settle(self) -> None:
        """Wait until all batches in progress have ended, then store their outcomes.

        If a batch raised an error, raise it, and store nothing.
        """
        outcomes = await asyncio.gather(*self._sending, return_exceptions=True)
        self._sending.clear()
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        await self._note([outcome for outcome in outcomes if isinstance(outcome, Ended)])

    async def _collect(self) -> None:
        """Store the outcomes of ended batches, so that other batches can be sent."""
        ended = []
        for task in [task for task in self._sending if task.done()]:
            batch = self._sending.pop(task)
            trouble = task.exception()
            if trouble is None:
                ended.append(task.result())
            else:
                log.warning("a webhook was not sent", signal=batch.signal_id, exc_info=trouble)
        await self._note(ended)

    async def _note(self, ended: list[Ended]) -> None:
        if not ended:
            return
        try:
            last = await self.deliveries.note(ended)
        except ServiceUnavailable as trouble:  # the webhooks are sent again later
            log.warning("outcomes of webhooks could not be stored", why=str(trouble))
            return
        over = {each.batch.signal_id for each in last}
        for batch, attempts in ended:
            for each in attempts:
                WEBHOOKS.labels(_outcome(each, is_last=batch.signal_id in over)).inc()
            failed = [each for each in attempts if each.has_failed]
            if failed:
                log.info(
                    "a webhook was not accepted",
                    signal=batch.signal_id,
                    firing=failed[0].firing.firing_id,
                    reason=failed[0].reason,
                    is_last=batch.signal_id in over,
                )

    async def _keep(self) -> None:
        """Count waiting webhooks every COUNT_S, and delete old webhooks every SWEEP_S."""
        now_s = self.clock.monotonic_s()
        if self._counted_at_s is None or now_s - self._counted_at_s >= COUNT_S:
            waiting, oldest = await self.deliveries.length()
            WEBHOOKS_WAITING.set(waiting)
            WEBHOOKS_OLDEST_S.set(0 if oldest is None else (self.clock.now() - oldest) / 1000)
            self._counted_at_s = now_s
        if self._swept_at_s is None or now_s - self._swept_at_s >= SWEEP_S:
            await self.deliveries.sweep()
            self._swept_at_s = now_s

    async def _send(self, batch: DeliveryBatch) -> Ended:
        tried = (self._try(batch, webhook) for webhook in batch.webhooks)
        return Ended(batch, await asyncio.gather(*tried))

    async def _try(self, batch: DeliveryBatch, webhook: DueWebhook) -> Attempt:
        firing = webhook.firing
        host = urlsplit(webhook.url).hostname or ""
        retry_after_s = await self.receivers.admit(host, batch.user_id)
        if retry_after_s is not None:
            return Attempt(firing, retry_after_s=retry_after_s)
        try:
            await self.post.send(webhook.url, webhook.headers, webhook.body)
        except NotNow as rest:
            return Attempt(firing, retry_after_s=rest.retry_after_s)
        except NotAccepted as failure:
            self.receivers.note(host, is_silent=failure.is_silent)
            return Attempt(firing, str(failure), failure.is_gone)
        self.receivers.note(host, is_silent=False)
        return Attempt(firing)


def _outcome(attempt: Attempt, *, is_last: bool) -> str:
    if attempt.retry_after_s is not None:
        return "postponed"
    if not attempt.has_failed:
        return "delivered"
    return "given_up" if is_last else "failed"
