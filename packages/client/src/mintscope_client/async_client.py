"""An asyncio client of a mintscope service."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Final, TypeVar

import httpx
from typing_extensions import Self, Unpack, override

from mintscope_client.budget import CreditBudget
from mintscope_client.calls.bound import Async
from mintscope_client.calls.call import Answered, ApiCall
from mintscope_client.calls.conversation import (
    PATIENCE_S,
    TIMEOUT_S,
    Conversation,
    NotPaid,
    PayingAuth,
    Reply,
    Send,
    converse,
)
from mintscope_client.calls.opening import open_session
from mintscope_client.endpoints import purchases
from mintscope_client.endpoints.methods import AsyncRawResponses, Methods, PagedMethods
from mintscope_client.endpoints.purchases import CreditPurchase
from mintscope_client.endpoints.reports import ReportOptions
from mintscope_client.streams.live import LiveReport
from mintscope_client.streams.streaming import LiveCall
from mintscope_client.transport import BoundedTransport

REQUEST_S_MAX: Final = 120.0

Data = TypeVar("Data")


class AsyncClient(Methods, PagedMethods, Async):
    """The asyncio version of `mintscope_client.Client`, with the same arguments.

    Each attempt of a call takes at most REQUEST_S_MAX seconds, however slowly the service answers.
    """

    def __init__(  # noqa: PLR0913 - a client has one argument for each setting
        self,
        url: str,
        *,
        credential: str | None = None,
        payer: PayingAuth | None = None,
        budget: CreditBudget | None = None,
        patience_s: float = PATIENCE_S,
        timeout_s: float = TIMEOUT_S,
        retries_max: int | None = None,
        by_websocket: bool = False,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._session = open_session(
            url,
            credential=credential,
            payer=payer,
            budget=budget,
            patience_s=patience_s,
            timeout_s=timeout_s,
            retries_max=retries_max,
        )
        self._by_websocket = by_websocket
        self._http = httpx.AsyncClient(transport=BoundedTransport(transport))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections to the service."""
        await self._http.aclose()

    @property
    def budget(self) -> CreditBudget:
        """The budget of the client, with the credits that it has spent so far."""
        return self._session.budget

    @property
    def with_raw_response(self) -> AsyncRawResponses:
        """The methods of this client; each returns an `Answered`, with status and headers."""
        return AsyncRawResponses(self)

    async def balance(self) -> int:
        """Return the number of credits that are left on the credential.  Free."""
        return (await self.send(purchases.balance())).data.balance

    async def buy_credits(self, credit_count: int, *, key: str | None = None) -> CreditPurchase:
        """Buy the bundle of *credit_count* credits with the wallet.

        The credits are added to the credential, if there is one.

        key    the key of a PendingError, to continue that payment; None: a new purchase, unless an
               earlier process left a payment for the same request, which is then continued
        """
        return (await self.send(purchases.purchase(credit_count), key=key)).data

    async def stream(
        self, mints: Sequence[str], **options: Unpack[ReportOptions]
    ) -> AsyncIterator[LiveReport]:
        """Yield the current report of each mint, and then each report that has changed.

        Each started minute costs a credit per mint.  The client reconnects after a lost connection.
        The stream ends with an error, such as NoCreditsError.
        """
        live = LiveCall(self._session, mints, options)
        try:
            while True:
                try:
                    opened = self._messages(live) if self._by_websocket else self._events(live)
                    # Closes the connection at once if the caller ends the iteration.
                    async with aclosing(opened) as reports:
                        async for report in reports:
                            yield report
                except httpx.RequestError as trouble:
                    live.lose(trouble)
                await asyncio.sleep(live.wait_s())
        finally:
            live.close()

    async def _events(self, live: LiveCall) -> AsyncGenerator[LiveReport, None]:
        async with aclosing(await self._http.send(live.request(), stream=True)) as response:
            if response.is_success:
                # Raw, because the transport refuses compressed answers.
                async for chunk in response.aiter_raw():
                    for report in live.feed(chunk):
                        yield report
            else:
                await response.aread()
                live.refuse(response)

    def _messages(self, live: LiveCall) -> AsyncGenerator[LiveReport, None]:
        from mintscope_client.streams.sockets import reports_later  # noqa: PLC0415 - as in Client

        return reports_later(live)

    @override
    async def send(self, call: ApiCall[Data], *, key: str | None = None) -> Answered[Data]:
        """Send *call*, from a function of `endpoints`; return the whole response.

        key    the key of a PendingError, to continue that payment; None: a new call, unless an
               earlier process left a payment for the same request, which is then continued
        """
        return await drive(converse(self._session, call, key=key), self._http)


async def drive(
    conversation: Conversation[Data],
    http: httpx.AsyncClient,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    request_s_max: float = REQUEST_S_MAX,
) -> Data:
    """Send the requests of *conversation* with *http*, and return its result.

    request_s_max    seconds after which a request is aborted, even if its answer is still arriving
    """
    reply: Reply = None
    try:
        while True:
            step = conversation.send(reply)
            if isinstance(step, Send):
                reply = await _exchange(http, step, request_s_max)
            else:
                await sleep(step.seconds)
                reply = None
    except StopIteration as done:
        data: Data = done.value
        return data
    finally:
        # If the task is cancelled, this gives the reserved credits back.
        conversation.close()


async def _exchange(http: httpx.AsyncClient, step: Send, request_s_max: float) -> Reply:
    try:
        return await asyncio.wait_for(http.send(step.request, auth=step.auth), request_s_max)
    except (httpx.RequestError, NotPaid) as trouble:
        return trouble
    except asyncio.TimeoutError:  # not the same as TimeoutError in Python 3.10
        expected = f"expected the whole answer within {request_s_max:g} s; it goes on"
        return httpx.ReadTimeout(expected, request=step.request)
