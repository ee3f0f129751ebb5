"""Measures alert rules: the cost of one at a slot, and stalls while many are evaluated.

The peer is the same comparison in plain Python over the same reports and rules in memory: it stores
no state, sends no firing, and does not yield to other tasks.  For stalls, the rules and their state
are in SQLite; the log is in memory.  The processor time of an iteration of the loop counts, not its
wait for a core.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import based58
from typing_extensions import override

from bench.figure import Figure, tell
from bench.turns import spread, take_turns
from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import NewUser, UserKind
from mintscope.accounts.rows import AccountRows
from mintscope.alerts.alert import Alert, AlertRule, SignalId
from mintscope.alerts.alerts import AlertWriter
from mintscope.alerts.conditions import FIELDS, Field, SignalKind, Tracks
from mintscope.alerts.evaluation import Evaluation
from mintscope.alerts.evaluator import RENEW_S, AlertEvaluator
from mintscope.app.stores.folder import MONEY_FILE
from mintscope.app.stores.money import SqlAccountStore
from mintscope.app.stores.sqlite import account_connections
from mintscope.kit.audit import UserId
from mintscope.kit.clock import SystemClock
from mintscope.kit.machine import freeze_startup_objects
from mintscope.kit.primitives import Mint, UnixMs, UnixS
from mintscope.market.log import PricedSwap
from mintscope.market.report import TokenReport

OURS: Final = "mintscope"
PLAIN: Final = "plain Python"
RULES: Final = 10_000
SLOTS: Final = 20
PART: Final = 2_000  # rules that one transaction adds
EVENTS: Final = 5  # the number of events in a round of the evaluator
NAMES: Final = ("price.usd", "price.sol", "indicators.m1.rsi", "indicators.m1.ema9")
START: Final = UnixS(1_760_000_040)
WINDOW_S: Final = 3_600
NONCE: Final = bytes(32)
STALL_MS_MAX: Final = 50

Look = Callable[[TokenReport], object]


def mint_of(number: int) -> Mint:
    return Mint(based58.b58encode((number + 1).to_bytes(32)).decode())


def rule_of(number: int, kind: SignalKind, mint: Mint) -> AlertRule:
    """Return an alert rule that hardly ever fires, to measure its evaluation alone."""
    random = Random(number)
    field = Field(NAMES[number % len(NAMES)])
    if kind is SignalKind.CHANGES_BY:
        return AlertRule(
            name="move", mint=mint, field=field, kind=kind, percent=99.0, window_s=WINDOW_S
        )
    return AlertRule(name="up", mint=mint, field=field, kind=kind, level=random.uniform(101, 999))


class Trading:
    """A swap log in memory, to which each call of `slot` adds a swap of each token."""

    def __init__(self, mints: Sequence[Mint]) -> None:
        self.log: Any = import_module("tests.support.fakes.log").FakeLog()
        self._mints, self._random, self._slot, self._time = mints, Random(1), 0, int(START)
        for mint in mints:
            self.log.track(mint)

    def slot(self, pause_s: int = 10) -> None:
        self._slot, self._time = self._slot + 1, self._time + pause_s
        price = self._random.uniform(8.0, 11.0)
        swaps = [
            PricedSwap(mint, 0, 0, -1, 0, True, 10**6, price, 0.01)  # noqa: FBT003
            for mint in self._mints
        ]
        self.log.append(self._slot, self._time, *swaps)


def plain_levels(rules: Sequence[AlertRule]) -> Look:
    ways = [(FIELDS[rule.field], rule.level) for rule in rules]
    above, fired = [False] * len(rules), []

    def look(report: TokenReport) -> None:
        for number, (names, level) in enumerate(ways):
            value: Any = report
            for name in names:
                value = getattr(value, name)
            is_above = value > level
            if is_above and not above[number]:
                fired.append(number)
            above[number] = is_above

    return look


def plain_moves(rules: Sequence[AlertRule]) -> Look:
    ways = [(FIELDS[rule.field], rule.percent / 100, deque[Any]()) for rule in rules]
    fired = []

    def look(report: TokenReport) -> None:
        now = report.data_span.to
        for number, (names, share, window) in enumerate(ways):
            value: Any = report
            for name in names:
                value = getattr(value, name)
            while window and window[0][0] <= now - WINDOW_S:
                window.popleft()
            values = [kept for _, kept in window]
            if values and (value / min(values) - 1 >= share or 1 - value / max(values) >= share):
                fired.append(number)
                window.clear()
            window.append((now, value))

    return look


def cost(kind: SignalKind, plain: Callable[[Sequence[AlertRule]], Look]) -> list[Figure]:
    """Measure the evaluation of an alert rule of a token with many, in mintscope and in *plain*.

    plain   returns a function that evaluates the given rules on a report
    """
    rules = [rule_of(number, kind, mint_of(0)) for number in range(RULES)]
    trading = Trading([mint_of(0)])
    for _ in range(WINDOW_S // 10):
        trading.slot()
    evaluation = Evaluation(tracks=Tracks(1))
    evaluation.begin_at(asyncio.run(trading.log.tip()))
    evaluation.watch([kept(number, rule) for number, rule in enumerate(rules)])
    evaluation.take(asyncio.run(trading.log.load(mint_of(0))))
    look, reports = plain(rules), deque[TokenReport]()

    def ours() -> None:
        for _ in range(EVENTS):
            trading.slot()
            for _ in evaluation.apply(trading.log.kept[-1], UnixMs(0)):
                pass
            report = evaluation.tracks.report(mint_of(0))
            assert report is not None
            reports.append(report)

    def theirs() -> None:
        for _ in range(EVENTS):
            look(reports[-1])

    ours()
    turns = take_turns({OURS: ours, PLAIN: theirs})
    each = RULES * EVENTS
    what = f"evaluate a rule of kind {kind}"
    times = [median(turns[who].cpu_s) / each * 1e6 for who in (OURS, PLAIN)]
    spreads = [spread(turns[who].cpu_s) for who in (OURS, PLAIN)]
    ratio = turns[PLAIN].times_as_long(turns[OURS])
    return [
        Figure(what=what, who=OURS, value=times[0], unit="us", spread=spreads[0]),
        Figure(what=what, who=PLAIN, value=times[1], unit="us", spread=spreads[1], ratio=ratio),
    ]


def kept(number: int, rule: AlertRule) -> Alert:
    return Alert(
        signal_id=SignalId(number + 1),
        user_id=UserId(1),
        rule=rule,
        nonce=NONCE,
        old_nonce=None,
        old_nonce_until=None,
        revision=1,
        state=None,
        created_at=UnixMs(0),
        fired_at=None,
        webhook_failed_at=None,
    )


class Turn:
    """Records the processor time of each iteration of the event loop."""

    def __init__(self) -> None:
        self.took_s: list[float] = []

    async def run(self) -> None:
        while True:
            began_s = time.thread_time()
            await asyncio.sleep(0)
            self.took_s.append(time.thread_time() - began_s)

    def longest_ms(self) -> float:
        longest, self.took_s = max(self.took_s), []
        return longest * 1_000


def fill(rows: AccountRows, numbers: range, tokens: int) -> None:
    """Add a user with the alert rules *numbers*: half of each kind, over *tokens* mints."""
    email = EmailAddress(f"{numbers[0]}@example.org")
    new = NewUser(kind=UserKind.AGENT, username=f"{numbers[0]}", email=email, created_at=UnixMs(0))
    user_id = rows.users.insert(new)
    for number in numbers:
        kind = SignalKind.CHANGES_BY if number % 2 else SignalKind.ABOVE
        rows.signals.insert(
            user_id, rule_of(number, kind, mint_of(number // 2 % tokens)), NONCE, UnixMs(0)
        )
    rows.lease.touch()


async def stall(rules: int, tokens: int) -> list[Figure]:
    """Measure how long the event loop is blocked while alert rules are read, evaluated and stored.

    rules, tokens   the number of rules, and of the tokens over which they are distributed
    """
    trading = Trading([mint_of(number) for number in range(tokens)])
    for _ in range(60):
        trading.slot(60)
    with TemporaryDirectory() as folder:
        file = account_connections(Path(folder) / MONEY_FILE)
        store = SqlAccountStore(file)

        for start in range(0, rules, PART):
            await store.transact(partial(fill, numbers=range(start, start + PART), tokens=tokens))
        clock = Ahead()
        watcher = AlertEvaluator(
            reader=trading.log,
            writer=AlertWriter(store=store, clock=clock, holder=b"here"),
            evaluation=Evaluation(tracks=Tracks(tokens)),
            clock=clock,
            wait=never,
        )
        freeze_startup_objects()  # as an api process does
        turn = Turn()
        watching = asyncio.ensure_future(turn.run())
        await asyncio.sleep(0)
        turn.took_s.clear()
        await watcher.round()
        begin_ms = turn.longest_ms()
        for _ in range(SLOTS):
            trading.slot()
            clock.ahead_s += 3.0  # so that each slot is stored
            await watcher.round()
        follow_ms = turn.longest_ms()
        trading.slot()
        clock.ahead_s += RENEW_S
        await watcher.round()
        renew_ms = turn.longest_ms()
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        await file.close()
    of = f"{rules:,} rules of {tokens:,} token{'s' if tokens > 1 else ''}"
    return [
        _stall(f"{of}: stall at begin", begin_ms),
        _stall(f"{of}: at a slot", follow_ms),
        _stall(f"{of}: at a new base", renew_ms),
    ]


class Ahead(SystemClock):
    """The system's clock, ahead by *ahead_s* seconds."""

    ahead_s = 0.0

    @override
    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_s


async def never() -> None:
    raise AssertionError("the bench calls the rounds")


def _stall(what: str, value: float) -> Figure:
    return Figure(what=what, who=OURS, value=value, unit="ms", goal=f"{STALL_MS_MAX} at most")


def run() -> list[Figure]:
    """Measure alert rules: the time to evaluate one, and stalls while many are evaluated."""
    figures = [
        *cost(SignalKind.ABOVE, plain_levels),
        *cost(SignalKind.CHANGES_BY, plain_moves),
    ]
    for rules, tokens in ((RULES, 1), (RULES, 1_000), (10 * RULES, 1)):
        figures += asyncio.run(stall(rules, tokens))
    return figures


if __name__ == "__main__":
    for figure in run():
        tell(figure)
