"""A client of a mintscope service whose calls block until the answer arrives."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TypeVar

import httpx
from typing_extensions import Self, Unpack, override

from mintscope_client.budget import CreditBudget
from mintscope_client.calls.bound import Blocking
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
from mintscope_client.endpoints.methods import Methods, PagedMethods, RawResponses
from mintscope_client.endpoints.purchases import CreditPurchase
from mintscope_client.endpoints.reports import ReportOptions
from mintscope_client.streams.live import LiveReport
from mintscope_client.streams.streaming import LiveCall
from mintscope_client.transport import BoundedSyncTransport

Data = TypeVar("Data")


class Client(Methods, PagedMethods, Blocking):
    """A client of the service at *url*: a context manager, usable by several threads.

    credential   a credit token or an API key: a client with a credential pays for reads with it
    payer        pays for purchases, and for reads if there is no credential: a
                 `mintscope_client.auth.PaymentAuth`, or a
                 `mintscope_client.signatures.sign_in.WalletSignIn`; None: no payer
    budget       the limits of the credits that calls may spend; None: no limits
    patience_s   the most seconds between the beginning of a call and its last retry; 180 while a
                 payment for the call may still land
    timeout_s    seconds to wait for a connection, and for each read and write; at least 90 if a
                 wallet pays for the call
    retries_max  the largest number of retries of a call; None: only patience_s limits them. While a
                 payment for the call may still land, this limit does not apply
    by_websocket  whether streams use WebSocket, which needs the package websockets
    transport    the httpx transport that sends the requests, except those of WebSockets; for tests
                 and proxies. None: a direct connection

    Calls raise the errors of `mintscope_client.errors`; calls that a wallet pays for also raise
    WillNotPay and JournalUnusable.  A call is repeated if it may then succeed, with the same
    Idempotency-Key if it has one, after a pause, or after the time that the service names if that
    is longer.  The constructor raises ValueError for an invalid *url* or *credential*.
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
        transport: httpx.BaseTransport | None = None,
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
        self._http = httpx.Client(transport=BoundedSyncTransport(transport))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the service."""
        self._http.close()

    @property
    def budget(self) -> CreditBudget:
        """The budget of the client, with the credits that it has spent so far."""
        return self._session.budget

    @property
    def with_raw_response(self) -> RawResponses:
        """The methods of this client; each returns an `Answered`, with status and headers."""
        return RawResponses(self)

    def balance(self) -> int:
        """Return the number of credits that are left on the credential.  Free."""
        return self.send(purchases.balance()).data.balance

    def buy_credits(self, credit_count: int, *, key: str | None = None) -> CreditPurchase:
        """Buy the bundle of *credit_count* credits with the wallet.

        The credits are added to the credential, if there is one.

        key       the key of a PendingError, to continue that payment; None: a new purchase, unless
                  an earlier process left a payment for the same request, which is then continued
        """
        return self.send(purchases.purchase(credit_count), key=key).data

    def stream(
        self, mints: Sequence[str], **options: Unpack[ReportOptions]
    ) -> Iterator[LiveReport]:
        """Yield the current report of each mint, and then each report that has changed.

        Each started minute costs a credit per mint.  The client reconnects after a lost connection.
        The stream ends with an error, such as NoCreditsError.
        """
        live = LiveCall(self._session, mints, options)
        try:
            while True:
                try:
                    yield from self._messages(live) if self._by_websocket else self._events(live)
                except httpx.RequestError as trouble:
                    live.lose(trouble)
                time.sleep(live.wait_s())
        finally:
            live.close()

    def _events(self, live: LiveCall) -> Iterator[LiveReport]:
        with closing(self._http.send(live.request(), stream=True)) as response:
            if response.is_success:
                # Raw, because the transport refuses compressed answers.
                for chunk in response.iter_raw():
                    yield from live.feed(chunk)
            else:
                response.read()
                live.refuse(response)

    def _messages(self, live: LiveCall) -> Iterator[LiveReport]:
        from mintscope_client.streams.sockets import reports  # noqa: PLC0415 - a package of its own

        return reports(live)

    @override
    def send(self, call: ApiCall[Data], *, key: str | None = None) -> Answered[Data]:
        """Send *call*, from a function of `endpoints`; return the whole response.

        key    the key of a PendingError, to continue that payment; None: a new call, unless an
               earlier process left a payment for the same request, which is then continued
        """
        return self._drive(converse(self._session, call, key=key))

    def _drive(self, conversation: Conversation[Data]) -> Data:
        reply: Reply = None
        try:
            while True:
                step = conversation.send(reply)
                if isinstance(step, Send):
                    reply = self._exchange(step)
                else:
                    time.sleep(step.seconds)
                    reply = None
        except StopIteration as done:
            data: Data = done.value
            return data
        finally:
            # If a wait was interrupted, this gives the reserved credits back.
            conversation.close()

    def _exchange(self, step: Send) -> Reply:
        try:
            return self._http.send(step.request, auth=step.auth)
        except (httpx.RequestError, NotPaid) as trouble:
            return trouble
