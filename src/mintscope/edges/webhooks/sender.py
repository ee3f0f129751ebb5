"""Sending webhooks: takes them out of the queue and notes what became of them.

Each is sent by itself: one that is slow keeps its place, and delays only those of its own signal.
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
from mintscope.core.accounts.signals.deliveries import Deliveries, DueWebhook
from mintscope.edges.webhooks.post import NotAccepted, WebhookPost

POLL_S: Final = 0.5
COUNT_S: Final = 30.0  # at least between two counts of those that wait
TROUBLE_S: Final = 5.0

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False)
class WebhookSender:
    """Sends webhooks that are due."""

    deliveries: Deliveries
    post: WebhookPost
    clock: Clock
    _sending: dict[asyncio.Task[None], DueWebhook] = field(default_factory=dict, init=False)
    _counted_at_s: float | None = field(default=None, init=False)

    async def run(self) -> None:
        """Send webhooks, each within a second of its turn, until cancelled."""
        try:
            while True:
                self._collect()
                try:
                    await self.take()
                    await self._count()
                except Exception as trouble:  # whatever it is, later webhooks must not wait for it
                    is_bug = not isinstance(trouble, ServiceUnavailable)
                    log.warning(
                        "webhooks could not be looked for", exc_info=is_bug, why=str(trouble)
                    )
                    await asyncio.sleep(TROUBLE_S)
                await self._pause()
        finally:
            for task in self._sending:
                task.cancel()
            await asyncio.gather(*self._sending, return_exceptions=True)

    async def take(self) -> int:
        """Begin to send what is due and has a place; return how many.  Raises ServiceUnavailable.

        What this process is still sending, though its lease is over, is not sent beside that.
        """
        sent = {webhook.firing.firing_id for webhook in self._sending.values()}
        webhooks = await self.deliveries.lease(self._sending.values())
        new = [webhook for webhook in webhooks if webhook.firing.firing_id not in sent]
        for webhook in new:
            self._sending[asyncio.create_task(self._send(webhook))] = webhook
        return len(new)

    async def settle(self) -> None:
        """Wait until all that is being sent has ended; raise what went wrong with it."""
        outcomes = await asyncio.gather(*self._sending, return_exceptions=True)
        self._sending.clear()
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _pause(self) -> None:
        """Wait until a place is free, or it is time to look again."""
        if self._sending:
            await asyncio.wait(self._sending, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(POLL_S)

    def _collect(self) -> None:
        """Free the places of what has ended."""
        for task in [task for task in self._sending if task.done()]:
            webhook, trouble = self._sending.pop(task), task.exception()
            if trouble is not None:
                is_bug = not isinstance(trouble, ServiceUnavailable)
                log.warning(
                    "what became of a webhook was not noted",
                    firing=webhook.firing.firing_id,
                    exc_info=trouble if is_bug else None,
                    why=str(trouble),
                )

    async def _count(self) -> None:
        now_s = self.clock.monotonic_s()
        if self._counted_at_s is not None and now_s - self._counted_at_s < COUNT_S:
            return
        queue = await self.deliveries.queue()
        WEBHOOKS_WAITING.set(queue.waiting)
        oldest = queue.oldest
        WEBHOOKS_OLDEST_S.set(0 if oldest is None else (self.clock.now() - oldest) / 1000)
        self._counted_at_s = now_s

    async def _send(self, webhook: DueWebhook) -> None:
        firing = webhook.firing
        about = {"signal": firing.fired.signal_id, "firing": firing.firing_id}
        try:
            await self.post.send(webhook.url, webhook.headers, webhook.body)
        except NotAccepted as failure:
            is_last = await self.deliveries.failed(firing, str(failure), is_gone=failure.is_gone)
            WEBHOOKS.labels("given_up" if is_last else "failed").inc()
            log.info("a webhook was not accepted", **about, reason=str(failure), is_last=is_last)
        else:
            await self.deliveries.delivered(firing.firing_id, firing.attempts + 1)
            WEBHOOKS.labels("delivered").inc()
