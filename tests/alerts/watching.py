"""An installation whose alerts are evaluated: its accounts, its swap log, and its evaluators."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import NewUser, UserKind
from mintscope.accounts.rows import AccountRows, AccountStore
from mintscope.accounts.secrets import AccountSecrets
from mintscope.alerts.alert import Alert, AlertRule, Firing, SignalId
from mintscope.alerts.alerts import Alerts, AlertWriter
from mintscope.alerts.conditions import Field, SignalKind, Tracks
from mintscope.alerts.emails import EmailBounds
from mintscope.alerts.evaluation import Evaluation
from mintscope.alerts.evaluator import AlertEvaluator
from mintscope.kit.audit import UserId
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Mint, UnixMs
from mintscope.market.follow.tailer import look_again_soon
from mintscope.market.log import Appended, PricedSwap
from mintscope.solana.blocks import WSOL
from support.fakes.log import FakeLog
from support.scenes.account_stores import ENGINES
from support.scenes.service import NOW
from support.scenes.stores import PEPPER

MINT: Final = Mint(WSOL)
LEVEL: Final = 10.0
# One item for each process; conditions stay compiled between tests
TRACKS: Final = [Tracks(4), Tracks(4)]
EMAIL: Final = EmailAddress("alice@example.org")


def swap(price: float) -> PricedSwap:
    return PricedSwap(MINT, 0, 0, -1, 0, True, 10**6, price, 0.01)  # noqa: FBT003


def begun_log() -> FakeLog:
    """Return a log with one swap of MINT in each of nine minutes, at the price 9.0."""
    log = FakeLog()
    log.track(MINT)
    for minute in range(9):
        log.append(minute + 1, NOW // 1000 - 600 + 60 * minute, swap(9.0))
    return log


def trade(log: FakeLog, price: float) -> None:
    tip = log.tip_at(log.seq)
    slot = 1 + max(each.header.slot for each in log.kept if isinstance(each, Appended))
    log.append(slot, (tip.time or 0) + 1, swap(price))


AT_ONCE: Final = EmailBounds(pause_ms=0)


@dataclass
class Scene:
    """An installation: its accounts, its swap log, and its evaluators."""

    store: AccountStore
    log: FakeLog
    clock: ManualClock
    user_id: UserId = field(init=False)
    signals: Alerts = field(init=False)

    def __post_init__(self) -> None:
        self.signals = Alerts(
            store=self.store,
            secrets=AccountSecrets.derive(PEPPER),
            clock=self.clock,
            entropy=Random(1).randbytes,
        )

    async def open_user(self) -> None:
        new = NewUser(
            kind=UserKind.AGENT, username="a", email=EMAIL, verified_at=NOW, created_at=NOW
        )
        self.user_id = await self.store.transact(lambda rows: rows.users.insert(new))

    async def begin_again(self) -> None:
        """Begin with a new log, without alerts and without a stored state of the evaluator."""
        for signal in await self.signals.of_user(self.user_id):
            await self.signals.delete(self.user_id, signal.signal_id)

        def forget(rows: AccountRows) -> None:
            rows.lease.drop_bases([MINT])
            rows.lease.hold(b"", UnixMs(0))
            rows.lease.advance(0)

        await self.store.transact(forget)
        self.log = begun_log()

    async def make(self, kind: SignalKind = SignalKind.ABOVE, **more: Any) -> SignalId:
        asked: dict[str, Any] = {
            "name": "up",
            "mint": MINT,
            "field": Field("price.usd"),
            "level": LEVEL,
            **more,
        }
        made = await self.signals.make(self.user_id, AlertRule(kind=kind, **asked))
        assert isinstance(made, Alert)
        return made.signal_id

    def watcher(
        self,
        process: int = 0,
        store: AccountStore | None = None,
        clock: ManualClock | None = None,
        bounds: EmailBounds = AT_ONCE,
    ) -> AlertEvaluator:
        """Return a new evaluator, like that of a process that has just started.

        bounds    the limits on the e-mails that the evaluator writes
        """
        writer = AlertWriter(
            store=store or self.store,
            clock=clock or self.clock,
            holder=bytes([1 + process]),
            bounds=bounds,
        )
        return AlertEvaluator(
            reader=self.log,
            writer=writer,
            evaluation=Evaluation(tracks=TRACKS[process]),
            clock=self.clock,
            wait=look_again_soon,
        )

    async def fired(self, signal_id: SignalId) -> Sequence[Firing]:
        """Return the firings of an alert, oldest first."""
        found = await self.signals.firings(self.user_id, signal_id, None, 1000)
        assert found is not None
        return found[::-1]

    async def seqs(self, signal_id: SignalId) -> list[int]:
        return [each.fired.seq for each in await self.fired(signal_id)]


@asynccontextmanager
async def opened(engine: str, folder: Path) -> AsyncIterator[Scene]:
    async with ENGINES[engine](folder) as store:
        scene = Scene(store, begun_log(), ManualClock(NOW))
        await scene.open_user()
        yield scene
