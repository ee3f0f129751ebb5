"""A client of a mintscope service, for programs that wait for each answer."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TypeVar

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
from mintscope_client.calls.methods import AccountMethods, RawResponses
from mintscope_client.calls.opening import open_session
from mintscope_client.calls.pages import PagedLines
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
from mintscope_client.transport import BoundedSyncTransport

Data = TypeVar("Data")


class Client(AccountMethods):
    """Reads from the service at *url*; a context manager, usable by several threads.

    credential   a credit token or an API key: pays for reads
    payer        a `mintscope_client.auth.PaymentAuth`: pays for purchases, and for reads if there
                 is no credential
    budget       the most that may be spent, in credits
    patience_s   seconds for which a call waits and is sent again, in all, before it raises
    timeout_s    seconds that one answer may take; at least 90 if a wallet pays for it
    retries_max  how often a call is sent again; None: as often as the patience allows
    by_websocket  streams come by WebSocket; needs the package websockets
    transport    for tests and proxies

    Calls raise what `mintscope_client.errors` lists.  A call is sent again if that can help,
    after the time that the service asks for, with the same Idempotency-Key.
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
        """Close the connections."""
        self._http.close()

    @property
    def budget(self) -> CreditBudget:
        """The budget, and the credits spent from it."""
        return self._session.budget

    @property
    def with_raw_response(self) -> RawResponses:
        """The same calls, each of which returns `Answered`: the data with status and headers."""
        return RawResponses(self)

    def token(self, mint: str, **options: Unpack[TokenOptions]) -> Report:
        """Return the price, indicators and pressure of *mint*.  Costs one credit.

        options    `candles`, `partial`, `timeframes`, `at`: see `verbs.TokenOptions`
        """
        return self.send(verbs.token(mint, **options)).data

    def trial(self, mint: str, **options: Unpack[ReportOptions]) -> Report:
        """Return the report of *mint* for free, by default ten times a day per client address.

        options    `candles`, `partial` and `timeframes`: see `verbs.ReportOptions`
        """
        return self.send(verbs.trial(mint, **options)).data

    def batch(self, mints: Sequence[str], **options: Unpack[ReportOptions]) -> BatchReports:
        """Return a report or an error for each of up to 50 mints; each report costs a credit."""
        return self.send(verbs.batch(mints, **options)).data

    def candles(
        self, mint: str, tf: verbs.Timeframe = "m1", **within: Unpack[CandleRange]
    ) -> PagedLines[CandlesPage, CandleLine]:
        """Return candles of *mint*, newest page first.  A page of up to 1,000 costs a credit.

        within    `from_`, `to`, `limit`, `candles`, `fill`, `in_`, `pool`, `profile`: see
                  `verbs.CandleRange`
        """
        return PagedLines(self.send, verbs.candles(mint, tf, **within))

    def indicators(
        self, mint: str, tf: verbs.Timeframe = "m1", **within: Unpack[IndicatorRange]
    ) -> PagedLines[IndicatorsPage, IndicatorLine]:
        """Return indicators per candle, newest page first.  A page of up to 1,000 costs a credit.

        within    `names`, `from_`, `to`, `limit`, `candles`, `fill`, `in_`: see
                   `verbs.IndicatorRange`
        """
        return PagedLines(self.send, verbs.indicators(mint, tf, **within))

    def swaps(self, mint: str, *, limit: int | None = None) -> PagedLines[SwapsPage, SwapRecord]:
        """Return swaps, newest first.  A page of up to 500 costs a credit."""
        return PagedLines(self.send, verbs.swaps(mint, limit=limit))

    def tokens(
        self, text: str = "", **asked: Unpack[TokenQuery]
    ) -> PagedLines[TokensPage, TokenLine]:
        """Return tokens whose name or symbol has *text* or whose mint starts with it.  Free.

        asked    `sort`, `order` and `limit`, as `verbs.TokenQuery` describes them
        """
        return PagedLines(self.send, verbs.tokens(text, **asked))

    def pools(self, mint: str) -> TokenPools:
        """Return the pools that decide the price of *mint*, heaviest first.  Costs one credit."""
        return self.send(verbs.pools(mint)).data

    def past_prices(self, asked: Sequence[tuple[str, verbs.Moment]]) -> PastPrices:
        """Return past prices for up to 100 pairs of mint and time.  Costs one credit."""
        return self.send(verbs.past_prices(asked)).data

    def backtest(self, mint: str, where: str, **asked: Unpack[BacktestQuery]) -> TokenBacktest:
        """Return the past firings of *where* for *mint*.  Costs one credit.

        asked    as `verbs.BacktestQuery` describes it
        """
        return self.send(verbs.backtest(mint, where, **asked)).data

    def backtest_tokens(
        self, mints: Sequence[str], where: str, **asked: Unpack[BacktestQuery]
    ) -> TokensBacktest:
        """Return the past firings of *where* for *mints*.  Costs a credit per 10,000 candles.

        asked    as `verbs.BacktestQuery` describes it
        """
        return self.send(verbs.backtest_tokens(mints, where, **asked)).data

    def holders(self, mint: str) -> TokenHolders:
        """Return the 20 largest holders of *mint*.  Costs one credit."""
        return self.send(verbs.holders(mint)).data

    def traders(self, mint: str, *, limit: int | None = None) -> TokenTraders:
        """Return the traders of *mint*, largest volume first.  Costs one credit."""
        return self.send(verbs.traders(mint, limit=limit)).data

    def screen(
        self, where: str = "", **asked: Unpack[ScreenQuery]
    ) -> PagedLines[ScreenPage, ScreenedToken]:
        """Return the tokens for which *where* is true.  A page of up to 100 costs a credit.

        asked    `sort`, `order`, `fields` and `limit`, as `verbs.ScreenQuery` describes them
        """
        return PagedLines(self.send, verbs.screen(where, **asked))

    def metadata(self, mint: str) -> TokenMetadata:
        """Return the metadata of *mint* from the chain.  Free."""
        return self.send(verbs.metadata(mint)).data

    def bundles(self) -> BundleList:
        """Return the bundles for sale and their current prices.  Free."""
        return self.send(verbs.BUNDLES).data

    def balance(self) -> int:
        """Return the credits left on the credential.  Free."""
        return self.send(verbs.BALANCE).data.balance

    def history(self) -> CreditHistory:
        """Return the sources and uses of the credits of the credential.  Free."""
        return self.send(verbs.HISTORY).data

    def buy_credits(self, credit_count: int, *, key: str | None = None) -> CreditPurchase:
        """Buy the bundle of *credit_count* credits with the wallet.

        They come onto the credential, if there is one.

        key       of a PendingError: go on with that payment
        """
        return self.send(verbs.purchase(credit_count), key=key).data

    def payments(self) -> PagedLines[PaymentsPage, WalletPayment]:
        """Return payments of the linked wallets, newest first.  Free."""
        return PagedLines(self.send, account.payments())

    def signal_events(self, signal_id: int) -> PagedLines[SignalEventsPage, SignalEvent]:
        """Return the firings of a signal, newest first.  Free."""
        return PagedLines(self.send, account.signal_events(signal_id))

    def stream(
        self, mints: Sequence[str], **options: Unpack[ReportOptions]
    ) -> Iterator[LiveReport]:
        """Yield the report of each mint when it changes.

        Each started minute costs a credit per mint.

        A connection that is lost is opened again.  Ends with an error, such as NoCreditsError.
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
                for chunk in response.iter_raw():
                    yield from live.feed(chunk)
            else:
                response.read()
                live.refuse(response)

    def _messages(self, live: LiveCall) -> Iterator[LiveReport]:
        from mintscope_client.streams.sockets import reports  # noqa: PLC0415 - a package of its own

        return reports(live)

    def send(self, call: ApiCall[Data], *, key: str | None = None) -> Answered[Data]:
        """Send *call*, made by `mintscope_client.calls.verbs`; return the whole response."""
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

    def _exchange(self, step: Send) -> Reply:
        try:
            return self._http.send(step.request, auth=step.auth)
        except httpx.RequestError as trouble:
            return trouble
