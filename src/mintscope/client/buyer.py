"""Buying from a mintscope service, to the end: until the purchase is here or the money is safe."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx

from mintscope.base.clock import Clock, SystemClock
from mintscope.base.credentials import Credential, CreditToken
from mintscope.client.answers import PURCHASE, bundle_of, data_of, is_delivered, refusal_of
from mintscope.client.auth import PaymentAuth
from mintscope.client.calls.conversation import IDEMPOTENCY_KEY, KEY_BYTES

PATIENCE_S: Final = 180.0  # within which the chain forgets what it will not take
RETRY_AFTER_S: Final = 2.0
TIMEOUT_S: Final = 90.0  # for each read; a seller may hold an answer for a minute
REQUEST_S_MAX: Final = 120.0
ASKED_TO_WAIT: Final = frozenset({408, 425, 429})


class PurchaseFailed(Exception):
    """The service refused; *status* and *code* say how.

    key    of a payment that was sent and may land all the same: the same request with
           it sends that payment again.  None where nothing was charged, for certain
    """

    def __init__(self, status: int, code: str, message: str, key: str | None = None) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.key = key


class PurchasePending(Exception):
    """The payment was sent and its outcome is still unknown; *key* redeems it later."""

    def __init__(self, key: str) -> None:
        super().__init__("the payment is still pending; its key redeems it")
        self.key = key


@dataclass(frozen=True, slots=True)
class BoughtCredits:
    """What a bundle bought; the token is like a password."""

    token: CreditToken
    credits: int
    price_paid: int


class Buyer:
    """Pays for requests and bundles at the service that is the base_url of *http*.

    request_s_max   for each sending of a request, with all that it asks the seller and the node,
                    however slowly they answer.  A payment that was sent by then is not lost: the
                    request is sent again, with it.  A seller may hold an answer for 60 s
    """

    def __init__(
        self,
        http: httpx.AsyncClient,
        auth: PaymentAuth,
        *,
        clock: Clock = SystemClock(),  # noqa: B008  has no state
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        request_s_max: float = REQUEST_S_MAX,
    ) -> None:
        self._http = http
        self._auth = auth
        self._clock = clock
        self._sleep = sleep
        self._request_s_max = request_s_max

    async def buy_credits(self, credit_count: int, *, key: str | None = None) -> BoughtCredits:
        """Buy the bundle of *credit_count* credits.

        key       of a PurchasePending: go on with that payment
        Raises    WillNotPay, JournalUnusable, PurchaseFailed, PurchasePending
        """
        bought = bundle_of(await self._pay("POST", PURCHASE, {"bundle": credit_count}, key))
        # Else it would not have been delivered; no API key was sent along.
        assert bought is not None
        assert bought.token is not None
        return BoughtCredits(
            CreditToken(Credential(bought.token)), bought.credits, bought.price_paid
        )

    async def request(self, mint: str, *, key: str | None = None) -> dict[str, Any]:
        """Buy one report about *mint*; *key* and what it raises are those of `buy_credits`."""
        return await self._pay("GET", f"/v1/token/{mint}", {}, key)

    async def _pay(
        self, method: str, path: str, params: dict[str, int], key: str | None
    ) -> dict[str, Any]:
        """Send the request, with one payment and key, until it is answered; first one left over."""
        url = self._http.build_request(method, path, params=params).url
        key = key or self._auth.adopt(method, url) or secrets.token_urlsafe(KEY_BYTES)
        until_s = self._clock.monotonic_s() + PATIENCE_S
        while True:
            request = self._http.build_request(
                method, url, headers={IDEMPOTENCY_KEY: key}, timeout=TIMEOUT_S
            )
            try:
                response = await self._send(request)
            except httpx.RequestError:
                if not self._auth.holds(key):
                    raise  # nothing has been paid yet
                wait_s = RETRY_AFTER_S
            else:
                data = data_of(response)
                if data is not None and is_delivered(path, response):
                    return data
                held = key if self._auth.holds(key) else None
                if held is None or not _may_change(response):
                    raise _failure(response, held)
                wait_s = self._retry_after_s(response)
            if self._clock.monotonic_s() + wait_s > until_s:
                raise PurchasePending(key)
            await self._sleep(wait_s)

    async def _send(self, request: httpx.Request) -> httpx.Response:
        """Send *request* within its time.  Raises httpx.RequestError."""
        try:
            async with asyncio.timeout(self._request_s_max):
                return await self._http.send(request, auth=self._auth)
        except TimeoutError as cause:
            expected = f"expected the whole answer within {self._request_s_max:g} s; it goes on"
            raise httpx.ReadTimeout(expected, request=request) from cause

    def _retry_after_s(self, response: httpx.Response) -> float:
        """Return how long the seller asks to be left alone: in seconds, or until a date."""
        text = response.headers.get("Retry-After", "")
        if text.isascii() and text.isdigit():
            return float(text)
        try:
            until_s = parsedate_to_datetime(text).timestamp()
        except (ValueError, OverflowError):
            return RETRY_AFTER_S
        return max(until_s - self._clock.now() / 1000, RETRY_AFTER_S)


def _may_change(response: httpx.Response) -> bool:
    """Say whether asking again may help; a success that cannot be read is not the seller's."""
    is_garbled = response.is_success
    return is_garbled or response.is_server_error or response.status_code in ASKED_TO_WAIT


def _failure(response: httpx.Response, key: str | None) -> PurchaseFailed:
    return PurchaseFailed(response.status_code, *refusal_of(response), key)
