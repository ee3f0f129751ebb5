"""Buying from a mintscope service, to the end: until the goods are here or the money is safe."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import httpx
import msgspec

from mintscope.client.auth import IDEMPOTENCY_KEY, KEY_BYTES, PaymentAuth
from mintscope.credentials import CreditToken

ATTEMPTS_MAX: Final = 10
RETRY_AFTER_S: Final = 2.0
RETRY_AFTER_S_MAX: Final = 30.0
TIMEOUT_S: Final = 90.0  # a seller may hold an answer for a minute


class PurchaseFailed(Exception):
    """The service refused; *status* and *code* say how.  Nothing was charged."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code


class PurchasePending(Exception):
    """The payment was sent and its outcome is still unknown; *key* redeems it later."""

    def __init__(self, key: str) -> None:
        super().__init__("the payment is still pending: send the same request again, with its key")
        self.key = key


@dataclass(frozen=True, slots=True)
class Purchase:
    """What a bundle bought; the token is like a password."""

    token: CreditToken
    credits: int
    price_paid: int


class Buyer:
    """Pays for requests and bundles at one service.

    http    its base_url is the service's
    """

    def __init__(
        self,
        http: httpx.AsyncClient,
        auth: PaymentAuth,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._http = http
        self._auth = auth
        self._sleep = sleep

    async def buy_credits(self, credit_count: int) -> Purchase:
        """Buy the bundle of *credit_count* credits.

        Raises    WillNotPay, PurchaseFailed, PurchasePending
        """
        data = await self._pay("POST", "/v1/credits/purchase", {"bundle": credit_count})
        return Purchase(CreditToken(data["token"]), data["credits"], data["pricePaid"])

    async def request(self, mint: str) -> dict[str, Any]:
        """Buy one report about *mint*.

        Raises    WillNotPay, PurchaseFailed, PurchasePending
        """
        return await self._pay("GET", f"/v1/token/{mint}", {})

    async def _pay(self, method: str, path: str, params: dict[str, int]) -> dict[str, Any]:
        """Send the request until it is answered, always with the same payment and key."""
        key = secrets.token_urlsafe(KEY_BYTES)
        for _ in range(ATTEMPTS_MAX):
            request = self._http.build_request(
                method, path, params=params, headers={IDEMPOTENCY_KEY: key}, timeout=TIMEOUT_S
            )
            try:
                response = await self._http.send(request, auth=self._auth)
            except httpx.TransportError:
                if not self._auth.holds(key):
                    raise  # nothing has been paid yet
                await self._sleep(RETRY_AFTER_S)
                continue
            if response.is_success:
                data: dict[str, Any] = msgspec.json.decode(response.content)["data"]
                return data
            if response.status_code != httpx.codes.SERVICE_UNAVAILABLE or not self._auth.holds(key):
                raise _failure(response)
            await self._sleep(_retry_after_s(response))
        raise PurchasePending(key)


def _failure(response: httpx.Response) -> PurchaseFailed:
    try:
        error = msgspec.json.decode(response.content)["error"]
        return PurchaseFailed(response.status_code, str(error["code"]), str(error["message"]))
    except (msgspec.DecodeError, KeyError, TypeError):
        return PurchaseFailed(response.status_code, "UNKNOWN", "the answer cannot be read")


def _retry_after_s(response: httpx.Response) -> float:
    text = response.headers.get("Retry-After", "")
    seconds = float(text) if text.isascii() and text.isdigit() else RETRY_AFTER_S
    return min(seconds, RETRY_AFTER_S_MAX)
