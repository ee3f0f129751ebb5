"""A client of a mintscope service, for asyncio."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Final, TypeVar

import httpx
from typing_extensions import Self, Unpack

from mintscope_client.budget import CreditBudget
from mintscope_client.calls import account, verbs
from mintscope_client.calls.call import Answered, ApiCall
from mintscope_client.calls.conversation import (
    PATIENCE_S,
    TIMEOUT_S,
    Conversation,
    PayingAuth,
    Reply,
    Send,
    converse,
)
from mintscope_client.calls.methods import AsyncAccountMethods, AsyncRawResponses
from mintscope_client.calls.opening import open_session
from mintscope_client.calls.pages import AsyncPagedLines
from mintscope_client.calls.verbs import (
    BacktestQuery,
    CandleRange,
    IndicatorRange,
    ReportOptions,
    ScreenQuery,
    TokenOptions,
    TokenQuery,
)
from mintscope_client.results.account import PaymentsPage, WalletPayment
from mintscope_client.results.backtest import TokenBacktest, TokensBacktest
from mintscope_client.results.batch import BatchReports, PastPrices
from mintscope_client.results.credits import BundleList, CreditHistory, CreditPurchase
from mintscope_client.results.holders import TokenHolders
from mintscope_client.results.lists import TokenLine, TokenMetadata, TokensPage
from mintscope_client.results.live import LiveReport
from mintscope_client.results.pools import TokenPools
from mintscope_client.results.report import Report
from mintscope_client.results.screen import ScreenedToken, ScreenPage
from mintscope_client.results.series import (
    CandleLine,
    CandlesPage,
    IndicatorLine,
    IndicatorsPage,
    SwapRecord,
    SwapsPage,
)
from mintscope_client.results.signals import SignalEvent, SignalEventsPage
from mintscope_client.results.traders import TokenTraders
from mintscope_client.streams.streaming import LiveCall
from mintscope_client.transport import BoundedTransport

REQUEST_S_MAX: Final = 120.0

Data = TypeVar("Data")


class AsyncClient(AsyncAccountMethods):
    """The asyncio version of `mintscope_client.Client`, with the same arguments.

    A sending takes REQUEST_S_MAX at most, however slowly the service answers.
    """

    def __init__(  # noqa: PLR0913 - a client has an argument for each thing that it is told
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
        """Close the connections."""
        await self._http.aclose()

    @property
    def budget(self) -> CreditBudget:
        """The budget, and the credits spent from it."""
        return self._session.budget

    @property
    def with_raw_response(self) -> AsyncRawResponses:
        """The same calls, each of which returns `Answered`: the data with status and headers."""
        return AsyncRawResponses(self)

    async def token(self, mint: str, **options: Unpack[TokenOptions]) -> Report:
        """Return the price, indicators and pressure of *mint*.  Costs one credit.

        options    `candles`, `partial`, `timeframes`, `at`: see `verbs.TokenOptions`
        """
        return (await self.send(verbs.token(mint, **options))).data

    async def trial(self, mint: str, **options: Unpack[ReportOptions]) -> Report:
        """Return the report of *mint* for free, by default ten times a day per client address.

        options    `candles`, `partial` and `timeframes`: see `verbs.ReportOptions`
        """
        return (await self.send(verbs.trial(mint, **options))).data

    async def batch(self, mints: Sequence[str], **options: Unpack[ReportOptions]) -> BatchReports:
        """Return a report or an error for each of up to 50 mints; each report costs a credit."""
        return (await self.send(verbs.batch(mints, **options))).data

    def candles(
        self, mint: str, tf: verbs.Timeframe = "m1", **within: Unpack[CandleRange]
    ) -> AsyncPagedLines[CandlesPage, CandleLine]:
        """Return candles of *mint*, newest page first.  A page of up to 1,000 costs a credit.

        within    `from_`, `to`, `limit`, `candles`, `fill`, `in_`, `pool`, `profile`: see
                  `verbs.CandleRange`
        """
        return AsyncPagedLines(self.send, verbs.candles(mint, tf, **within))

    def indicators(
        self, mint: str, tf: verbs.Timeframe = "m1", **within: Unpack[IndicatorRange]
    ) -> AsyncPagedLines[IndicatorsPage, IndicatorLine]:
        """Return indicators per candle, newest page first.  A page of up to 1,000 costs a credit.

        within    `names`, `from_`, `to`, `limit`, `candles`, `fill`, `in_`: see
                   `verbs.IndicatorRange`
        """
        return AsyncPagedLines(self.send, verbs.indicators(mint, tf, **within))

    def swaps(
        self, mint: str, *, limit: int | None = None
    ) -> AsyncPagedLines[SwapsPage, SwapRecord]:
        """Return swaps, newest first.  A page of up to 500 costs a credit."""
        return AsyncPagedLines(self.send, verbs.swaps(mint, limit=limit))

    def tokens(
        self, text: str = "", **asked: Unpack[TokenQuery]
    ) -> AsyncPagedLines[TokensPage, TokenLine]:
        """Return tokens whose name or symbol has *text* or whose mint starts with it.  Free.

        asked    `sort`, `order` and `limit`, as `verbs.TokenQuery` describes them
        """
        return AsyncPagedLines(self.send, verbs.tokens(text, **asked))

    async def pools(self, mint: str) -> TokenPools:
        """Return the pools that decide the price of *mint*, heaviest first.  Costs one credit."""
        return (await self.send(verbs.pools(mint))).data

    async def past_prices(self, asked: Sequence[tuple[str, verbs.Moment]]) -> PastPrices:
        """Return past prices for up to 100 pairs of mint and time.  Costs one credit."""
        return (await self.send(verbs.past_prices(asked))).data

    async def backtest(
        self, mint: str, where: str, **asked: Unpack[BacktestQuery]
    ) -> TokenBacktest:
        """Return the past firings of *where* for *mint*.  Costs one credit.

        asked    as `verbs.BacktestQuery` describes it
        """
        return (await self.send(verbs.backtest(mint, where, **asked))).data

    async def backtest_tokens(
        self, mints: Sequence[str], where: str, **asked: Unpack[BacktestQuery]
    ) -> TokensBacktest:
        """Return the past firings of *where* for *mints*.  Costs a credit per 10,000 candles.

        asked    as `verbs.BacktestQuery` describes it
        """
        return (await self.send(verbs.backtest_tokens(mints, where, **asked))).data

    async def holders(self, mint: str) -> TokenHolders:
        """Return the 20 largest holders of *mint*.  Costs one credit."""
        return (await self.send(verbs.holders(mint))).data

    async def traders(self, mint: str, *, limit: int | None = None) -> TokenTraders:
        """Return the traders of *mint*, largest volume first.  Costs one credit."""
        return (await self.send(verbs.traders(mint, limit=limit))).data

    def screen(
        self, where: str = "", **asked: Unpack[ScreenQuery]
    ) -> AsyncPagedLines[ScreenPage, ScreenedToken]:
        """Return the tokens for which *where* is true.  A page of up to 100 costs a credit.

        asked    `sort`, `order`, `fields` and `limit`, as `verbs.ScreenQuery` describes them
        """
        return AsyncPagedLines(self.send, verbs.screen(where, **asked))

    async def metadata(self, mint: str) -> TokenMetadata:
        """Return the metadata of *mint* from the chain.  Free."""
        return (await self.send(verbs.metadata(mint))).data

    async def bundles(self) -> BundleList:
        """Return the bundles for sale and their current prices.  Free."""
        return (await self.send(verbs.BUNDLES)).data

    async def balance(self) -> int:
        """Return the credits left on the credential.  Free."""
        return (await self.send(verbs.BALANCE)).data.balance

    async def history(self) -> CreditHistory:
        """Return the sources and uses of the credits of the credential.  Free."""
        return (await self.send(verbs.HISTORY)).data

    async def buy_credits(self, credit_count: int, *, key: str | None = None) -> CreditPurchase:
        """Buy the bundle of *credit_count* credits with the wallet.

        They come onto the credential, if there is one.

        key       of a PendingError: go on with that payment
        """
        return (await self.send(verbs.purchase(credit_count), key=key)).data

    def payments(self) -> AsyncPagedLines[PaymentsPage, WalletPayment]:
        """Return payments of the linked wallets, newest first.  Free."""
        return AsyncPagedLines(self.send, account.payments())

    def signal_events(self, signal_id: int) -> AsyncPagedLines[SignalEventsPage, SignalEvent]:
        """Return the firings of a signal, newest first.  Free."""
        return AsyncPagedLines(self.send, account.signal_events(signal_id))

    async def stream(
        self, mints: Sequence[str], **options: Unpack[ReportOptions]
    ) -> AsyncIterator[LiveReport]:
        """Yield the report of each mint when it changes.

        Each started minute costs a credit per mint.

        A connection that is lost is opened again.  Ends with an error, such as NoCreditsError.
        """
        live = LiveCall(self._session, mints, options)
        try:
            while True:
                try:
                    opened = self._messages(live) if self._by_websocket else self._events(live)
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
                async for chunk in response.aiter_raw():
                    for report in live.feed(chunk):
                        yield report
            else:
                await response.aread()
                live.refuse(response)

    def _messages(self, live: LiveCall) -> AsyncGenerator[LiveReport, None]:
        from mintscope_client.streams.sockets import reports_later  # noqa: PLC0415 - as in Client

        return reports_later(live)

    async def send(self, call: ApiCall[Data], *, key: str | None = None) -> Answered[Data]:
        """Send *call*, made by `mintscope_client.calls.verbs`; return the whole response."""
        return await drive(converse(self._session, call, key=key), self._http)


async def drive(
    conversation: Conversation[Data],
    http: httpx.AsyncClient,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    request_s_max: float = REQUEST_S_MAX,
) -> Data:
    """Send the requests of *conversation* with *http*, and return its result.

    request_s_max    for each sending, however slowly it is answered
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


async def _exchange(http: httpx.AsyncClient, step: Send, request_s_max: float) -> Reply:
    try:
        return await asyncio.wait_for(http.send(step.request, auth=step.auth), request_s_max)
    except httpx.RequestError as trouble:
        return trouble
    except asyncio.TimeoutError:  # another one than TimeoutError in Python 3.10
        expected = f"expected the whole answer within {request_s_max:g} s; it goes on"
        return httpx.ReadTimeout(expected, request=step.request)
