"""A client that only buys; it repeats a paid request whose purchase did not arrive."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import httpx

from mintscope_client.async_client import REQUEST_S_MAX, drive
from mintscope_client.auth import PaymentAuth
from mintscope_client.calls.call import Answered, ApiCall
from mintscope_client.calls.clock import Clock, SystemClock
from mintscope_client.calls.conversation import Data, converse
from mintscope_client.calls.opening import open_session
from mintscope_client.endpoints import purchases, reports
from mintscope_client.errors import UnreadableError
from mintscope_client.wire import CreditToken

NO_PATIENCE: Final = 0.0  # seconds for retries: a request that is not paid yet is not sent again


@dataclass(frozen=True, slots=True)
class BoughtCredits:
    """The purchase of a bundle; its credit token must be stored like a password.

    price_paid    the price that was paid, in atoms of the payment token
    """

    token: CreditToken
    credits: int
    price_paid: int


class Buyer:
    """A client that pays for reports and bundles of the service at the base_url of *http*.

    Before anything is paid, each error is raised at once.  After the payment was sent, the request
    is repeated with the same payment until the purchase or a final refusal arrives.  PendingError
    is raised if neither arrives within PAYMENT_PATIENCE_S.

    request_s_max   seconds after which one attempt is aborted: all its requests to the seller and
                    the node together.  A payment that was sent is not lost: the next attempt sends
                    it again.  A seller may take 60 s to answer
    Raises          ValueError for an invalid base_url
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
        session = open_session(str(http.base_url), payer=auth, patience_s=NO_PATIENCE)
        self._session = replace(session, clock=clock)
        self._sleep = sleep
        self._request_s_max = request_s_max

    async def buy_credits(self, credit_count: int, *, key: str | None = None) -> BoughtCredits:
        """Buy the bundle of *credit_count* credits.

        key       the key of a PendingError, to continue that payment; None: a new purchase, unless
                  an earlier process left a payment for the same request, which is then continued
        Raises    WillNotPay, JournalUnusable, and the errors of `mintscope_client.errors`
        """
        answered = await self._pay(purchases.purchase(credit_count), key)
        bought = answered.data
        if bought.token is None:  # the seller was not paid: an answer to a payment has one
            raise UnreadableError(
                "expected a credit token in the answer; it has none", status=answered.status
            )
        return BoughtCredits(CreditToken(bought.token), bought.credits, bought.price_paid)

    async def request(self, mint: str, *, key: str | None = None) -> dict[str, Any]:
        """Buy one report about *mint*; return it as decoded JSON.

        key       the key of a PendingError, to continue that payment; None: a new payment, unless
                  an earlier process left one for the same request, which is then continued
        Raises    WillNotPay, JournalUnusable, and the errors of `mintscope_client.errors`
        """
        asked = reports.token(mint)
        call = ApiCall(
            name=asked.name,
            method=asked.method,
            path=asked.path,
            kind=dict[str, Any],
            credits_max=asked.credits_max,
        )
        return (await self._pay(call, key)).data

    async def _pay(self, call: ApiCall[Data], key: str | None) -> Answered[Data]:
        """Send *call*, pay for it at most once, and return the answer.

        If *key* is that of an earlier payment, continue it.  If *key* is None, continue the payment
        that an earlier process left for the same request, if any.
        """
        return await drive(
            converse(self._session, call, key=key),
            self._http,
            sleep=self._sleep,
            request_s_max=self._request_s_max,
        )
