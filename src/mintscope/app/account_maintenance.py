"""Account maintenance: jobs that run at intervals, apart from every request.

30 s     store the times at which API keys were last used; add up spends by account and day,
         and notify accounts that have spent as much in a day as they want to know of
1 h      delete unconfirmed applications after three days, sessions that have expired, expired
         proofs of strangers without an account, and after a month e-mails that were sent or given
         up, proofs that were used or have expired, firings of signals, and results kept by
         Idempotency-Key; of each signal all but the newest firings; use by key and endpoint after
         `usage_kept_days`
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import structlog

from mintscope.accounts.keys.keys import ApiKeys
from mintscope.accounts.people.factor_rows import WAIT_MS
from mintscope.accounts.people.rows import AccountRows, AccountStore
from mintscope.accounts.people.session import Lifetimes
from mintscope.accounts.signups.signups import Signups
from mintscope.accounts.wallets.credits import notify_of_spending
from mintscope.alerts.alert import SignalId
from mintscope.kit.clock import Clock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS, HOUR_S, MINUTE_MS

FLUSH_S: Final = 30.0
SWEEP_S: Final = float(HOUR_S)
KEEP_MS: Final = 30 * DAY_MS
FOLDED_AFTER_MS: Final = 5 * MINUTE_MS
FOLDED_ENTRIES_MAX: Final = 20_000  # in one transaction: debits wait for it
FOLDS_MAX: Final = 20
FORGOTTEN_AT_ONCE: Final = 2_000  # of a table, in one transaction: some ten milliseconds
FORGETS_MAX: Final = 500  # in an hour: what is left then, goes in the next
TRIMMED_AT_ONCE: Final = 100  # signals: some ten milliseconds

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False, repr=False)
class AccountMaintenance:
    """Keeps accounts in order while it runs."""

    keys: ApiKeys
    signups: Signups
    store: AccountStore
    lifetimes: Lifetimes
    clock: Clock
    firings_kept_max: int = 1_000
    usage_kept_days: int = 400
    _swept_at_s: float | None = field(default=None, init=False)

    async def run(self) -> None:
        """Run until cancelled; then write down the last uses of keys."""
        try:
            while True:
                await self.round()
                await asyncio.sleep(FLUSH_S)
        finally:
            await self._flush()

    async def round(self) -> None:
        """Do the work that is due now; failed work is retried in the next round."""
        await self._flush()
        await self._fold_days()
        now_s = self.clock.monotonic_s()
        if self._swept_at_s is None or now_s - self._swept_at_s >= SWEEP_S:
            self._swept_at_s = now_s
            await self._sweep()

    async def _flush(self) -> None:
        with _logged():
            await self.keys.flush()

    async def _fold_days(self) -> None:
        before = UnixMs(self.clock.now() - FOLDED_AFTER_MS)
        with _logged():
            for _ in range(FOLDS_MAX):
                if not await self.store.transact(
                    lambda rows: rows.credits.fold_days(before, FOLDED_ENTRIES_MAX)
                ):
                    break
            now = self.clock.now()
            await self.store.transact(lambda rows: notify_of_spending(rows, now))

    async def _sweep(self) -> None:
        now = self.clock.now()
        with _logged():
            await self.signups.forget_lapsed()
            await self.store.transact(lambda rows: _purge(rows, self.lifetimes, now))
            await self._forget(now)
            last: SignalId | None = SignalId(0)
            while last is not None:
                last = await self._trim(last)

    async def _forget(self, now: UnixMs) -> None:
        """Delete old rows, a part of each table in one transaction: debits wait for it."""
        before = UnixMs(now - KEEP_MS)
        first_day = now // DAY_MS - self.usage_kept_days + 1
        for _ in range(FORGETS_MAX):
            if not await self.store.transact(lambda rows: _forget(rows, before, first_day)):
                break

    async def _trim(self, after: SignalId) -> SignalId | None:
        return await self.store.transact(
            lambda rows: rows.firings.trim(after, TRIMMED_AT_ONCE, self.firings_kept_max)
        )


@contextmanager
def _logged() -> Iterator[None]:
    try:
        yield
    except ServiceUnavailable as trouble:
        log.warning("accounts could not be kept in order", reason=str(trouble))


def _purge(rows: AccountRows, lifetimes: Lifetimes, now: UnixMs) -> None:
    """Delete ended sessions and sign-ins, and old rows of work that is done."""
    idle_since = UnixMs(now - lifetimes.idle_ms)
    begun_before = UnixMs(now - lifetimes.absolute_ms)
    rows.sessions.purge(idle_since=idle_since, begun_before=begun_before)
    rows.sign_ins.purge(UnixMs(now - WAIT_MS))
    rows.emails.purge(UnixMs(now - KEEP_MS), now)


def _forget(rows: AccountRows, before: UnixMs, first_day: int) -> bool:
    """Delete a part of old firings, results and usage; return whether more may be left."""
    return any(
        [
            rows.firings.purge(before, FORGOTTEN_AT_ONCE),
            rows.made.purge(before, FORGOTTEN_AT_ONCE),
            rows.credits.forget_usage(first_day, FORGOTTEN_AT_ONCE),
        ]
    )
