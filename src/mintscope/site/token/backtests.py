"""The page that tests a rule on the history of a token, for one credit.

A test is bought once: the same user can see the same test for 15 minutes.  The test is run before
it is charged, so that a test without a candle costs nothing, as in the API.
"""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from secrets import token_hex
from typing import Any, Final, cast
from urllib.parse import urlencode

from mintscope.accounts.wallets.credits import AccountCredits
from mintscope.alerts import emails
from mintscope.api.series.backtest import (
    FEE_BPS_MAX,
    TRADE_USD_MAX,
    BacktestQuery,
    TestedPast,
    checked_condition,
    findings_of,
)
from mintscope.credits.ledger import Spent
from mintscope.kit.audit import UserId
from mintscope.kit.errors import (
    BadRequest,
    DataStale,
    NotFound,
    ServiceError,
    TokenNotFound,
)
from mintscope.kit.limits import Denied, Limit, Limiter
from mintscope.kit.primitives import Mint, UnixMs, UnixS
from mintscope.kit.time import DAY_S, MINUTE_S, SECOND_MS
from mintscope.market.screening.grammar import TEXT_MAX, Condition
from mintscope.market.screening.look_alikes import cleaned
from mintscope.market.timeframe import BY_NAME, FRAME_S
from mintscope.site.chart import draw_marked
from mintscope.site.figures import ends_of
from mintscope.site.page import NO_ERRORS, Page, PageResponse, Redirect
from mintscope.site.routes import (
    Access,
    FormData,
    InvalidForm,
    PageRequest,
    PageRoute,
    get,
    post,
    sentence,
)
from mintscope.site.sol import MarketParts
from mintscope.site.token.reading import point_of
from mintscope.site.token.shown import NAMES

BEGUN_S: Final = 30  # longer than a ledger may take to answer


class Purchases:
    """Purchases of one kind, by all users; a key identifies the buyer and the purchased item.

    limit    a limit whose count is 1: a key that was taken counts as bought until its window ends
    """

    def __init__(self, market: MarketParts, accounts: AccountCredits, limit: Limit) -> None:
        self._market = market
        self._accounts = accounts
        self._bought: Limiter = market.limits.limiter(limit)
        # The credit of these keys is being taken, and may still be refused.
        begun = Limit(name=f"{limit.name}, begun", count=1, window_s=BEGUN_S)
        self._begun: Limiter = market.limits.limiter(begun)

    async def has(self, key: str) -> bool:
        """Return whether the item of *key* is bought and still valid."""
        if await self._bought.room(key) or not await self._begun.room(key):
            return False
        # Again: a purchase that was refused between the two reads is in neither of them.  With
        # PostgreSQL, a process may still see it as bought for the second that it caches a count.
        return not await self._bought.room(key)

    async def buy(self, user_id: UserId, key: str) -> bool:
        """Buy the item of *key* for a credit, unless it is bought.

        Return False if no credit is left.  If ServiceUnavailable is raised, nothing is spent.
        """
        # Before the credit is spent: of several requests at the same time, only one spends.
        if isinstance(await self._begun.take(key), Denied):
            return True
        try:
            return await self._buy(user_id, key)
        finally:
            await self._begun.give_back(key)

    async def _buy(self, user_id: UserId, key: str) -> bool:
        # Also before: if this process ends after the credit is spent, the key is bought.
        if isinstance(await self._bought.take(key), Denied):
            return True
        is_bought = False
        try:
            account = await self._accounts.find(user_id)
            if account is not None:
                is_bought = isinstance(await self._market.ledger.spend(account), Spent)
        finally:
            # Also if the ledger fails or the request is cancelled: the key is not bought then.
            if not is_bought:
                await self._bought.give_back(key)
        return is_bought

    async def credits_of(self, user_id: UserId) -> int:
        """Return the credit balance of a user."""
        account = await self._accounts.find(user_id)
        return 0 if account is None else await self._market.ledger.balance(account)


PATH: Final = "/token/{mint}/backtest"
TEMPLATE: Final = "token/backtest.html"
SHOWN_S: Final = 15 * MINUTE_S
BOUGHT: Final = Limit(name="backtests that were bought", count=1, window_s=SHOWN_S)
FIRINGS: Final = 100  # the most firings in the list; they are the newest
WIDTHS: Final = {name: words for name, words in emails.SPANS.items() if name != "s15"}
SPANS: Final = {"1": "1 day", "7": "7 days", "30": "30 days", "all": "Everything kept"}
FIRST: Final = {
    "where": "crosses_below(rsi_m5, 30)",
    "tf": "m5",
    "days": "7",
    "fee": "30",
    "size": "100",
}
OVER: Final = "The candles of this test are now older than the chosen span. Choose a longer span."
ONCE_BYTES: Final = 16  # bytes of a key, so that a form that is sent twice creates one alert


@dataclass(frozen=True, slots=True)
class _Asked:
    """A valid request for a backtest; *values* are the fields of the form."""

    mint: Mint
    values: Mapping[str, str]
    query: BacktestQuery
    condition: Condition

    @property
    def address(self) -> str:
        return f"/token/{self.mint}/backtest?{urlencode(self.values)}"

    def key(self, user_id: UserId) -> str:
        """Return the purchase key of this backtest for a user: a digest of fixed length."""
        text = "\n".join([str(user_id), self.mint, *self.values.values()])
        return blake2b(text.encode(), digest_size=16).hexdigest()


class BacktestPages:
    """The page at `/token/{mint}/backtest`."""

    def __init__(self, market: MarketParts, accounts: AccountCredits) -> None:
        self._market = market
        self._purchases = Purchases(market, accounts, BOUGHT)

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the backtests of a token."""
        yield get(PATH, self.show, Access.SIGNED_IN)
        yield post(PATH, self.buy, Access.SIGNED_IN, refilled=tuple(FIRST))

    async def show(self, request: PageRequest) -> PageResponse:
        """Show the form, and the results of the backtest in the query if the user bought it."""
        mint = request.mint
        values = filled(request.query_params)
        if not request.query_params.texts("where"):
            return await self._form(request, mint, FIRST)
        try:
            asked = asked_test(mint, values, request.now)
        except InvalidForm as invalid:
            return await self._form(request, mint, values, invalid.errors)
        if not await self._purchases.has(asked.key(request.user_id)):
            return await self._form(request, mint, values)
        try:
            past = await self._run(asked, request.now)
        except ServiceError as reason:
            return await self._form(request, mint, values, {"": sentence(reason)})
        if not past.found.looks:
            return await self._form(request, mint, values, {"": OVER})
        # 10,000 candles take tens of milliseconds: a thread keeps other clients from waiting.
        shown = await asyncio.to_thread(shown_test, asked, past)
        return await self._form(request, mint, values, shown=shown)

    async def buy(self, request: PageRequest) -> PageResponse:
        """Buy the backtest that the form describes for a credit, and redirect to its results.

        A backtest that the user has bought is not charged again.  Nothing is spent if the backtest
        fails or read no candle.
        """
        mint = request.mint
        values = filled(request.form)
        user_id = request.user_id
        try:
            asked = asked_test(mint, values, request.now)
        except InvalidForm as invalid:
            return await self._form(request, mint, values, invalid.errors)
        if await self._purchases.has(asked.key(user_id)):
            return Redirect(asked.address)
        if not await self._purchases.credits_of(user_id):  # without a credit, the test is not run
            return Redirect(asked.address, "no-credits")
        try:
            past = await self._run(asked, request.now)
        except ServiceError as reason:
            flaw = f"{sentence(reason)} Nothing was charged."
            return await self._form(request, mint, values, {"": flaw})
        if not past.found.looks:
            flaw = "No candle had closed in this span, so nothing was tested or charged."
            return await self._form(request, mint, values, {"": flaw})
        is_bought = await self._purchases.buy(user_id, asked.key(user_id))
        return Redirect(asked.address, "backtest-bought" if is_bought else "no-credits")

    async def _run(self, asked: _Asked, now: UnixMs) -> TestedPast:
        """Run the backtest.

        Raises TokenNotFound, InsufficientData, DataStale, ServiceUnavailable.
        """
        tip = await self._market.series.tip()
        age_ms = 0 if tip.follows_files else max(0, now - (tip.time or 0) * SECOND_MS)
        if self._market.is_stale(age_ms):
            raise DataStale(f"The newest data is {age_ms // SECOND_MS} s old")
        read = self._market.series.candles
        return await findings_of(
            read, tip.time or UnixS(0), asked.mint, asked.query, asked.condition
        )

    async def _form(
        self,
        request: PageRequest,
        mint: Mint,
        values: Mapping[str, str],
        errors: Mapping[str, str] = NO_ERRORS,
        *,
        shown: Mapping[str, Any] | None = None,
    ) -> Page:
        """Return the page; *shown* has the results of a bought test.

        Raises NotFound if *mint* is not tracked.
        """
        try:
            facts = await self._market.lists.facts_of(mint)
        except TokenNotFound:
            raise NotFound from None
        symbol = None if facts is None else cleaned(facts.symbol)
        known = {
            "mint": mint,
            "called": symbol or ends_of(mint),
            "widths": WIDTHS,
            "spans": SPANS,
            "where_max": TEXT_MAX,
            "credits_left": await self._purchases.credits_of(request.user_id),
            "shown": shown,
            "once": token_hex(ONCE_BYTES),
        }
        return Page(TEMPLATE, known, errors=errors, values=values)


def filled(form: FormData) -> dict[str, str]:
    """Return the entered values by field; empty fields except `where` get their defaults."""
    typed = {name: form.line(name) for name in FIRST}
    return {name: value or FIRST[name] for name, value in typed.items()} | {"where": typed["where"]}


def asked_test(mint: Mint, values: Mapping[str, str], now: UnixMs) -> _Asked:
    """Return the test described by *values*.  Raises InvalidForm."""
    errors: dict[str, str] = {}
    fee = -1
    with suppress(ValueError):
        fee = int(values["fee"])
    if not 0 <= fee <= FEE_BPS_MAX:
        errors["fee"] = f"Expected a whole number from 0 to {FEE_BPS_MAX}."
    size = -1.0
    with suppress(ValueError):
        size = float(values["size"])
    if not 0 <= size <= TRADE_USD_MAX:
        errors["size"] = f"Expected a number of US dollars from 0 to {TRADE_USD_MAX:,}."
    if values["tf"] not in WIDTHS or values["days"] not in SPANS:
        raise InvalidForm(errors | {"": "Choose the candles and the span from the lists."})
    since = 0
    if values["days"] != "all":
        since = now // SECOND_MS - int(values["days"]) * DAY_S
    if not values["where"] or len(values["where"]) > TEXT_MAX:
        raise InvalidForm(
            errors | {"where": f"Expected a condition of 1 to {TEXT_MAX} characters."}
        )
    query = BacktestQuery(
        where=values["where"],
        tf=cast("Any", values["tf"]),  # a key of WIDTHS
        from_=since,
        fee_bps=max(0, fee),
        trade_usd=max(0.0, size),
    )
    try:
        condition = checked_condition(query)
    except BadRequest as flaw:
        raise InvalidForm(errors | {"where": sentence(str(flaw).removeprefix("where: "))}) from flaw
    if errors:
        raise InvalidForm(errors)
    return _Asked(mint, values, query, condition)


def shown_test(asked: _Asked, past: TestedPast) -> Mapping[str, Any]:
    """Return the results of a backtest as template values."""
    found = past.found
    width_s = FRAME_S[BY_NAME[asked.query.tf]]
    candles = [
        point_of(each)
        for each in past.candles
        if found.first is not None and each.bucket + width_s >= found.first
    ]
    # A condition fires at the end of a candle, and marks are at the start of a candle.
    marks = {firing.time - width_s for firing in found.firings}
    label = f"Prices of the tested span, with a mark below each of {len(marks)} firings"
    return {
        "found": found,
        "names": NAMES,
        "firings": found.firings[: -FIRINGS - 1 : -1],
        "listed_max": FIRINGS,
        "chart": draw_marked(candles, marks, width_s, label),
    }
