"""The queue of webhooks, in a separate database or in separate tables.

Webhooks are retried by alert, not by firing: after a failure all webhooks of the alert wait until
the end of a pause, and then one of them is sent.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from mintscope.accounts.store import AccountConnections
from mintscope.alerts.alert import Firing, FiringId, QueueLength, SignalId
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql.database import Database, ahead_ms, marks

T = TypeVar("T")
NUMBERS_MAX: Final = 500  # the most alerts in one statement
WAITS: Final = "delivered_at IS NULL AND given_up_at IS NULL"
TAKEN: Final = "SELECT firing FROM webhook_taken"
TAKE: Final = """
INSERT INTO webhook_taken (id, firing) VALUES (1, ?)
    ON CONFLICT (id) DO UPDATE SET firing = excluded.firing
"""
ADD: Final = """
INSERT INTO webhook (firing, signal, fired_at, attempts, given_up_at, reason)
    VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""
# An alert that is due already keeps its time, which may be the end of a pause.
OPEN: Final = """
INSERT INTO webhook_signal (signal, due_at, failures) VALUES (?, ?, 0)
    ON CONFLICT (signal) DO UPDATE SET due_at = coalesce(webhook_signal.due_at, excluded.due_at)
"""
IS_DUE: Final = "SELECT EXISTS (SELECT 1 FROM webhook_signal WHERE due_at <= ?)"
WAITING: Final = f"""
SELECT firing, attempts FROM webhook WHERE signal = ? AND {WAITS} ORDER BY firing LIMIT ?
"""  # noqa: S608  a constant
LEASE: Final = "UPDATE webhook_signal SET due_at = ? WHERE signal = ?"
NOTE: Final = """
UPDATE webhook SET attempts = ?, delivered_at = ?, given_up_at = ?, reason = ? WHERE firing = ?
"""
SCHEDULE: Final = f"""
UPDATE webhook_signal SET failures = ?, due_at = CASE
    WHEN EXISTS (SELECT 1 FROM webhook WHERE signal = webhook_signal.signal AND {WAITS})
    THEN CAST(? AS bigint) END
 WHERE signal = ?
"""  # noqa: S608  a constant
GIVE_UP: Final = f"""
UPDATE webhook SET given_up_at = ?, reason = ? WHERE signal = ? AND {WAITS}
"""  # noqa: S608  a constant
REST: Final = "UPDATE webhook_signal SET failures = 0, due_at = NULL WHERE signal = ?"
LENGTH: Final = f"SELECT count(*), min(fired_at) FROM webhook WHERE {WAITS}"  # noqa: S608
SIGNALS: Final = "SELECT signal FROM webhook_signal"
# One purge deletes at most TRIMMED_MAX of the webhooks beyond the newest of an alert, and at most
# PURGED_MAX old webhooks of all alerts.  Purges run hourly, so it can take several hours until a
# lowered limit is applied.
TRIMMED_MAX: Final = 2_000
PURGED_MAX: Final = 50_000
TRIM: Final = f"""
DELETE FROM webhook WHERE firing IN (
    SELECT firing FROM webhook
     WHERE signal = ?1 AND NOT ({WAITS}) AND firing <= (
           SELECT firing FROM webhook WHERE signal = ?1 ORDER BY firing DESC LIMIT 1 OFFSET ?2)
     ORDER BY firing LIMIT {TRIMMED_MAX})
"""  # noqa: S608  a constant
PURGE: Final = f"""
DELETE FROM webhook WHERE firing IN (
    SELECT firing FROM webhook WHERE fired_at < ? ORDER BY firing LIMIT {PURGED_MAX})
"""  # noqa: S608  a constant
CLEAR: Final = (
    "DELETE FROM webhook WHERE signal = ?",
    "DELETE FROM webhook_signal WHERE signal = ?",
)
FORGET: Final = """
DELETE FROM webhook_signal WHERE due_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM webhook WHERE webhook.signal = webhook_signal.signal
)
"""


class NewWebhook(NamedTuple):
    """A firing to send by webhook; *given_up_at* and *reason* are set if it is too old to send."""

    firing_id: FiringId
    signal_id: SignalId
    fired_at: UnixMs
    attempts: int = 0
    given_up_at: UnixMs | None = None
    reason: str | None = None


class Waiting(NamedTuple):
    """A waiting webhook, and the number of attempts to send it so far."""

    firing_id: FiringId
    attempts: int


class DueAlert(NamedTuple):
    """An alert with due webhooks.

    failures   the number of the alert's batches in a row with a failed webhook; batches of which
               nothing was sent do not count; a test or another URL resets the number to 0
    """

    signal_id: SignalId
    failures: int
    webhooks: Sequence[Waiting]


class DueWanted(NamedTuple):
    """The webhooks that a process can send now.

    webhooks     the maximum number of webhooks in total
    of_each      the maximum number of webhooks of one alert
    without      the alerts whose webhooks are already being sent
    is_failing   True: only alerts whose last batch failed; False: only other alerts
    """

    webhooks: int
    of_each: int
    without: Collection[SignalId] = ()
    is_failing: bool = False


class WebhookOutcome(NamedTuple):
    """The delivery of a firing by webhook.

    due_at        the time of the next attempt; None: no attempt follows
    delivered_at  the time when the webhook was accepted; None: it was not
    given_up_at   the time when the webhook was given up; None: it was not
    reason        the reason why the last attempt failed or the webhook was given up; None: neither
    """

    due_at: UnixMs | None
    attempts: int
    delivered_at: UnixMs | None
    given_up_at: UnixMs | None
    reason: str | None


def with_outcome(firing: Firing, now: WebhookOutcome) -> Firing:
    """Return *firing* with *now*, the outcome of its webhook in the queue.

    If *firing* was given up and the queue has no outcome, the webhook stays given up.
    """
    if firing.given_up_at is not None and now.delivered_at is None and now.given_up_at is None:
        return replace(firing, attempts=now.attempts)
    return replace(
        firing,
        due_at=now.due_at or firing.due_at,
        attempts=now.attempts,
        delivered_at=now.delivered_at,
        given_up_at=now.given_up_at,
        reason=now.reason,
    )


class SqlWebhookQueue:
    """Stores the webhook queue; *tidy*, if any, is called at the end of each write transaction.

    `transact` and `read` raise ServiceUnavailable if the database fails.
    """

    def __init__(
        self, connections: AccountConnections, tidy: Callable[[Database], None] | None = None
    ) -> None:
        self._connections = connections
        self._tidy = tidy

    async def transact(self, work: Callable[["SqlQueueRows"], T]) -> T:
        """Run *work* in a transaction, in the writer thread; return its result after the commit."""

        def written(db: Database) -> T:
            done = work(SqlQueueRows(db))
            if self._tidy is not None:
                self._tidy(db)
            return done

        return await self._connections.write(written)

    async def read(self, work: Callable[["SqlQueueRows"], T]) -> T:
        """Run *work*, which must only read, on one consistent snapshot; return its result."""
        return await self._connections.read(lambda db: work(SqlQueueRows(db)))

    async def close(self) -> None:
        """Finish the queued work, then close the database."""
        await self._connections.close()


class SqlQueueRows:
    """Reads and writes the webhook queue in one transaction; write transactions run one by one."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def taken_until(self) -> FiringId | None:
        """Return the newest firing that was read for the queue; None if none was read."""
        found = self._db.execute(TAKEN).get
        return None if found is None else FiringId(found)

    def is_due(self, now: UnixMs) -> bool:
        """Return whether any alert has webhooks that are due."""
        return bool(self._db.execute(IS_DUE, (self.time(now),)).get)

    def time(self, now: UnixMs) -> UnixMs:
        """Convert *now*, a time of this process's clock, to the clock that all processes share."""
        return UnixMs(now - ahead_ms(self._db))

    def outcomes(self, numbers: Sequence[FiringId]) -> Mapping[FiringId, WebhookOutcome]:
        """Return the outcomes of those firings of *numbers* that are in the queue."""
        statement = f"""
            SELECT firing, CASE WHEN {WAITS} THEN webhook_signal.due_at END,
                   attempts, delivered_at, given_up_at, reason
              FROM webhook LEFT JOIN webhook_signal ON webhook_signal.signal = webhook.signal
             WHERE firing IN ({marks(numbers)})
        """  # noqa: S608  constants and marks
        found = self._db.execute(statement, numbers)
        return {FiringId(number): WebhookOutcome(*columns) for number, *columns in found}

    def length(self) -> QueueLength:
        """Return the number of waiting webhooks, and the time of the oldest."""
        return QueueLength(*self._db.execute(LENGTH).get)

    def signals(self) -> Sequence[SignalId]:
        """Return the IDs of the alerts that have webhooks in the queue."""
        return [SignalId(number) for (number,) in self._db.execute(SIGNALS)]

    def take_in(self, until: FiringId, webhooks: Sequence[NewWebhook], now: UnixMs) -> None:
        """Queue *webhooks* that are not queued yet; *until* is the newest firing that was read."""
        self._db.executemany(ADD, webhooks)
        # Also for alerts of which nothing waits: `purge` finds alerts by their rows.
        due: dict[SignalId, UnixMs | None] = dict.fromkeys(each.signal_id for each in webhooks)
        waiting = [each.signal_id for each in webhooks if each.given_up_at is None]
        due |= dict.fromkeys(waiting, self.time(now))
        self._db.executemany(OPEN, sorted(due.items()))
        self._db.execute(TAKE, (until,))

    def drop_oldest(
        self, numbers: Collection[SignalId], waiting_max: int, at: UnixMs, reason: str
    ) -> int:
        """Give up the webhooks of each alert that wait beyond *waiting_max*; return their number.

        Older webhooks are given up, except the oldest: it shows how long attempts have failed.
        """
        dropped = 0
        left = iter(sorted(numbers))
        while part := list(islice(left, NUMBERS_MAX)):
            ranked = f"""
                SELECT firing, row_number() OVER (PARTITION BY signal ORDER BY firing) AS place,
                       row_number() OVER (PARTITION BY signal ORDER BY firing DESC) AS newness
                  FROM webhook WHERE signal IN ({marks(part)}) AND {WAITS}
            """  # noqa: S608  constants and marks
            drop = f"""
                UPDATE webhook SET given_up_at = ?, reason = ? WHERE firing IN (
                    SELECT firing FROM ({ranked}) AS ranked WHERE place > 1 AND newness >= ?)
                RETURNING firing
            """  # noqa: S608  constants and marks
            dropped += sum(1 for _ in self._db.execute(drop, (at, reason, *part, waiting_max)))
        return dropped

    def claim(self, now: UnixMs, until: UnixMs, wanted: DueWanted) -> Sequence[DueAlert]:
        """Lease due webhooks as *wanted* says; return their alerts, the longest due first.

        The webhooks are due again at *until*.
        """
        if wanted.webhooks <= 0:
            return []
        without = [0, *wanted.without]  # the list must not be empty; no alert has the number 0
        due = f"""
            SELECT signal, failures FROM webhook_signal
             WHERE due_at <= ? AND failures {">" if wanted.is_failing else "="} 0
               AND signal NOT IN ({marks(without)})
             ORDER BY due_at, signal LIMIT ?
        """  # noqa: S608  constants and marks
        found: list[DueAlert] = []
        room = wanted.webhooks
        values = (self.time(now), *without, wanted.webhooks)
        # Read to the end first, because the loop changes this table.
        for number, failures in list(self._db.execute(due, values)):
            if room <= 0:
                break
            waiting = self._db.execute(WAITING, (number, min(room, wanted.of_each)))
            webhooks = [Waiting(*columns) for columns in waiting]
            self._db.execute(LEASE, (self.time(until) if webhooks else None, number))
            if webhooks:
                found.append(DueAlert(SignalId(number), failures, webhooks))
            room -= len(webhooks)
        return found

    def note(self, reported: Mapping[FiringId, WebhookOutcome]) -> None:
        """Store the outcomes *reported*, except the times of next attempts."""
        self._db.executemany(
            NOTE,
            [
                (each.attempts, each.delivered_at, each.given_up_at, each.reason, number)
                for number, each in reported.items()
            ],
        )

    def schedule(self, signal_id: SignalId, failures: int, due_at: UnixMs) -> None:
        """Set an alert's failure count, and its next attempt: at *due_at* if a webhook waits."""
        self._db.execute(SCHEDULE, (failures, self.time(due_at), signal_id))

    def give_up(self, signal_id: SignalId, at: UnixMs, reason: str) -> None:
        """Give up every waiting webhook of an alert, and set its failure count to 0."""
        self._db.execute(GIVE_UP, (at, reason, signal_id))
        self._db.execute(REST, (signal_id,))

    def purge(self, before: UnixMs, kept_max: int, deleted: Collection[SignalId] = ()) -> None:
        """Delete webhooks whose firing is older than *before*, and webhooks of *deleted* alerts.

        Of each other alert, also delete ended webhooks that are not among its newest *kept_max*, at
        most TRIMMED_MAX per call.  Of the old webhooks, one call deletes at most PURGED_MAX.
        """
        self._db.execute(PURGE, (before,))
        for statement in CLEAR:
            self._db.executemany(statement, [(number,) for number in sorted(deleted)])
        self._db.executemany(TRIM, [(number, kept_max) for number in self.signals()])
        self._db.execute(FORGET)
