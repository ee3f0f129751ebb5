"""Keeping accounts in order: what is done now and then, beside every request.

30 s     write down when API keys were last used
1 h      delete applications that nobody confirmed, sessions that have expired, and after a
         month letters that were sent or given up and proofs that were used or have expired
"""

import asyncio
from typing import Final, Protocol

import structlog

from mintscope.base.clock import Clock
from mintscope.base.errors import ServiceUnavailable
from mintscope.base.primitives import UnixMs
from mintscope.base.time import DAY_MS, HOUR_S
from mintscope.core.accounts.keys.api_keys import ApiKeys
from mintscope.core.accounts.people.session import Lifetimes
from mintscope.core.accounts.signups.signups import Signups

FLUSH_S: Final = 30.0
SWEEP_S: Final = float(HOUR_S)
KEEP_MS: Final = 30 * DAY_MS

log = structlog.get_logger()


class Archive(Protocol):
    """Where sessions, letters and proofs are kept."""

    async def purge(self, *, idle_since: UnixMs, begun_before: UnixMs, done_before: UnixMs) -> None:
        """Delete what nobody needs.

        idle_since, begun_before    sessions not used since, or begun before, are deleted
        done_before                 letters and proofs that were done with before then, too
        """
        ...


class AccountMaintenance:
    """Does it, for as long as it runs."""

    def __init__(
        self,
        *,
        keys: ApiKeys,
        signup: Signups,
        archive: Archive,
        lifetimes: Lifetimes,
        clock: Clock,
    ) -> None:
        self._keys = keys
        self._signup = signup
        self._archive = archive
        self._lifetimes = lifetimes
        self._clock = clock
        self._swept_at_s: float | None = None

    async def run(self) -> None:
        """Keep order; has no end.  When it is cancelled it writes down the last uses of keys."""
        try:
            while True:
                await self.round()
                await asyncio.sleep(FLUSH_S)
        finally:
            await self._flush()

    async def round(self) -> None:
        """Do what is due now; what fails is tried again in its next turn."""
        await self._flush()
        now_s = self._clock.monotonic_s()
        if self._swept_at_s is None or now_s - self._swept_at_s >= SWEEP_S:
            self._swept_at_s = now_s
            await self._sweep()

    async def _flush(self) -> None:
        try:
            await self._keys.flush()
        except ServiceUnavailable as trouble:
            _tell(trouble)

    async def _sweep(self) -> None:
        now = self._clock.now()
        try:
            await self._signup.forget_lapsed()
            await self._archive.purge(
                idle_since=UnixMs(now - self._lifetimes.idle_ms),
                begun_before=UnixMs(now - self._lifetimes.absolute_ms),
                done_before=UnixMs(now - KEEP_MS),
            )
        except ServiceUnavailable as trouble:
            _tell(trouble)


def _tell(trouble: Exception) -> None:
    log.warning("accounts could not be kept in order", reason=str(trouble))
