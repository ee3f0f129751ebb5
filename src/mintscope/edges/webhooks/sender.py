"""Sending webhooks: takes them out of the queue and notes what became of them.

At least once: if a process is killed after it sent one and before it noted that, it is sent again,
under the same `webhook-id`.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final

import structlog

from mintscope.base.clock import Clock
from mintscope.base.errors import ServiceUnavailable
from mintscope.base.metrics import WEBHOOKS, WEBHOOKS_OLDEST_S, WEBHOOKS_WAITING
from mintscope.core.accounts.signals.deliveries import Deliveries, Parcel
from mintscope.edges.webhooks.post import NotAccepted, WebhookPost

POLL_S: Final = 0.5
COUNT_S: Final = 30.0  # how often those that wait are counted while none is sent
TROUBLE_S: Final = 5.0
AT_ONCE: Final = 16  # within a lease: each takes its timeout at most

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False)
class WebhookSender:
    """Sends webhooks that are due."""

    deliveries: Deliveries
    post: WebhookPost
    clock: Clock
    _counted_at_s: float | None = field(default=None, init=False)

    async def run(self) -> None:
        """Send webhooks, each within a second of its turn, until cancelled."""
        while True:
            try:
                count = await self.round()
            except Exception as trouble:  # whatever it is, later webhooks must not wait for it
                is_bug = not isinstance(trouble, ServiceUnavailable)
                log.warning("webhooks could not be looked for", exc_info=is_bug, why=str(trouble))
                await asyncio.sleep(TROUBLE_S)
            else:
                if not count:
                    await asyncio.sleep(POLL_S)

    async def round(self) -> int:
        """Send some of what is due; return how many were taken.  Raises ServiceUnavailable."""
        parcels = await self.deliveries.lease(limit=AT_ONCE)
        outcomes = await asyncio.gather(*map(self._send, parcels), return_exceptions=True)
        now_s = self.clock.monotonic_s()
        if parcels or self._counted_at_s is None or now_s - self._counted_at_s >= COUNT_S:
            await self._count(now_s)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return len(parcels)

    async def _count(self, now_s: float) -> None:
        queue = await self.deliveries.queue()
        WEBHOOKS_WAITING.set(queue.waiting)
        oldest = queue.oldest
        WEBHOOKS_OLDEST_S.set(0 if oldest is None else (self.clock.now() - oldest) / 1000)
        self._counted_at_s = now_s

    async def _send(self, parcel: Parcel) -> None:
        firing = parcel.firing
        about = {"signal": firing.fired.signal_id, "firing": firing.firing_id}
        try:
            await self.post.send(parcel.url, parcel.headers, parcel.body)
        except NotAccepted as failure:
            is_last = await self.deliveries.failed(firing, str(failure), is_gone=failure.is_gone)
            WEBHOOKS.labels("given_up" if is_last else "failed").inc()
            log.info("a webhook was not accepted", **about, reason=str(failure), is_last=is_last)
        else:
            await self.deliveries.delivered(firing.firing_id, firing.attempts + 1)
            WEBHOOKS.labels("delivered").inc()
