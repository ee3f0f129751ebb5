"""The queue of webhooks that wait, and their outcomes; a store beside money.

A signal is due, not a firing: after a failure all of it rests, and one webhook is tried when the
rest is over.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.signals.signal import FiringId, SignalId

T = TypeVar("T")


class QueueLength(NamedTuple):
    """How many webhooks wait.

    oldest   when the first of them fired; None: none waits
    """

    waiting: int
    oldest: UnixMs | None


class NewWebhook(NamedTuple):
    """A firing that is to be sent by webhook; *given_up_at*: it came too late."""

    firing_id: FiringId
    signal_id: SignalId
    fired_at: UnixMs
    attempts: int = 0
    given_up_at: UnixMs | None = None
    reason: str | None = None


class Waiting(NamedTuple):
    """A webhook that waits, and how often it was sent."""

    firing_id: FiringId
    attempts: int


class DueSignal(NamedTuple):
    """A signal whose turn it is; *failures*: how often in a row it was not accepted."""

    signal_id: SignalId
    failures: int
    webhooks: Sequence[Waiting]


class DueWanted(NamedTuple):
    """Which signals a process can send for now.

    webhooks     that can be sent, at most
    of_each      webhooks of one signal, at most
    without      signals for which it is sending already
    is_failing   signals whose last webhook failed; False: all others
    """

    webhooks: int
    of_each: int
    without: Collection[SignalId] = ()
    is_failing: bool = False


class Told(NamedTuple):
    """The delivery of a firing by webhook, as Firing has it; *due_at*: None once that is over."""

    due_at: UnixMs | None
    attempts: int
    delivered_at: UnixMs | None
    given_up_at: UnixMs | None
    reason: str | None


class QueueView(Protocol):
    """The queue inside one transaction that changes nothing."""

    def taken_until(self) -> FiringId | None:
        """Return the last firing that was taken in; None: none was ever."""

    def is_due(self, now: UnixMs) -> bool:
        """Say whether the turn of any signal has come."""

    def time(self, now: UnixMs) -> UnixMs:
        """Return what the clock says that all processes share, when ours says *now*."""

    def told(self, numbers: Sequence[FiringId]) -> Mapping[FiringId, Told]:
        """Return the deliveries of these firings, of those that were taken in."""

    def length(self) -> QueueLength:
        """Return how many wait."""

    def signals(self) -> Sequence[SignalId]:
        """Return the signals of which anything is kept."""


class QueueRows(Protocol):
    """The queue inside one transaction; no other changes it meanwhile."""

    def take_in(self, until: FiringId, webhooks: Sequence[NewWebhook], now: UnixMs) -> None:
        """Let *webhooks* wait, each once; *until*: the last firing that was looked at."""

    def drop_oldest(
        self, numbers: Collection[SignalId], waiting_max: int, at: UnixMs, reason: str
    ) -> int:
        """Give up what waits of each of these signals beyond *waiting_max*; return how many.

        The oldest go, save the very first: it shows for how long nothing was accepted.
        """

    def claim(self, now: UnixMs, until: UnixMs, wanted: DueWanted) -> Sequence[DueSignal]:
        """Return signals of *wanted* whose turn has come, oldest webhook first; not due *until*."""

    def note(self, told: Mapping[FiringId, Told]) -> None:
        """Note the deliveries of these firings; their due times are those of their signals."""

    def schedule(self, signal_id: SignalId, failures: int, due_at: UnixMs) -> None:
        """Let the next turn of a signal be at *due_at*, if any webhook of it waits."""

    def give_up(self, signal_id: SignalId, at: UnixMs, reason: str) -> None:
        """Let no further attempt be made of any that waits of a signal."""

    def purge(self, before: UnixMs, kept_max: int, deleted: Collection[SignalId] = ()) -> None:
        """Forget what fired before then, and of each signal all but *kept_max* that are over.

        Of *deleted* signals nothing is kept.
        """


class WebhookQueue(Protocol):
    """Where the queue is kept."""

    async def transact(self, work: Callable[[QueueRows, QueueView], T]) -> T:
        """Return what *work* returns, once it is committed.  Raises ServiceUnavailable."""

    async def read(self, work: Callable[[QueueView], T]) -> T:
        """Return what *work* returns, which changes nothing.  Raises ServiceUnavailable."""
