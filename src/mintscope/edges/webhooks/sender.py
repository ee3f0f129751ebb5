"""Sending webhooks: takes them out of the queue and notes what became of them.

The webhooks sent for a signal at once are a turn: one that is slow keeps its places, and delays
only those of its own signal.  Outcomes of turns are noted together, at each look. At least once: if
a process is killed after it sent one and before it noted that, it is sent again, under the same
`webhook-id`.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

import structlog

from mintscope.base.clock import Clock
from mintscope.base.errors import ServiceUnavailable
from mintscope.base.metrics import WEBHOOKS, WEBHOOKS_OLDEST_S, WEBHOOKS_WAITING
from mintscope.base.time import HOUR_S
from mintscope.core.accounts.signals.deliveries import (
    Attempt,
    Deliveries,
    DueWebhook,
    Ended,
    Turn,
)
from mintscope.edges.webhooks.post import NotAccepted, NotNow, WebhookPost
from mintscope.edges.webhooks.receivers import Receivers

POLL_S: Final = 0.5
COUNT_S: Final = 30.0  # at least between two counts of those that wait
SWEEP_S: Final = float(HOUR_S)
TROUBLE_S: Final = 5.0

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False)
class WebhookSender:
    """Sends webhooks that are due."""

    deliveries: Deliveries
    post: WebhookPost
    receivers: Receivers
    clock: Clock
    _sending: dict[asyncio.Task[Ended], Turn] = field(default_factory=dict, init=False)
    _counted_at_s: float | None = field(default=None, init=False)
    _swept_at_s: float | None = field(default=None, init=False)

    async def run(self) -> None:
        """Send webhooks, each within a second of its turn, until cancelled."""
        try:
            while True:
                try:
                    await self.take()
                    await self._keep()
                except Exception as trouble:  # whatever it is, later webhooks must not wait for it
                    is_bug = not isinstance(trouble, ServiceUnavailable)
                    log.warning(
                        "webhooks could not be looked for", exc_info=is_bug, why=str(trouble)
                    )
                    await asyncio.sleep(TROUBLE_S)
                await asyncio.sleep(POLL_S)
        finally:
            for task in self._sending:
                task.cancel()
            await asyncio.gather(*self._sending, return_exceptions=True)

    async def take(self) -> int:
        """Note what has ended, and begin to send what is due and has a place; return how many.

        A webhook that this process is still sending, though its lease is over, is not sent twice.
        Raises ServiceUnavailable.
        """
        await self._collect()
        dropped = await self.deliveries.take_in()
        if dropped:
            WEBHOOKS.labels("dropped").inc(dropped)
            log.info("webhooks were dropped: too many of a signal wait", count=dropped)
        turns = await self.deliveries.lease(self._sending.values())
        for turn in turns:
            self._sending[asyncio.create_task(self._send(turn))] = turn
        return sum(len(turn.webhooks) for turn in turns)

    async def settle(self) -> None:
        """Wait until all that is being sent has ended, note it, raise what went wrong with it."""
        outcomes = await asyncio.gather(*self._sending, return_exceptions=True)
        self._sending.clear()
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        await self._note([outcome for outcome in outcomes if isinstance(outcome, Ended)])

    async def _collect(self) -> None:
        """Free the places of what has ended, and note what came of it."""
        ended = []
        for task in [task for task in self._sending if task.done()]:
            turn = self._sending.pop(task)
            trouble = task.exception()
            if trouble is None:
                ended.append(task.result())
            else:
                log.warning("a webhook was not sent", signal=turn.signal_id, exc_info=trouble)
        await self._note(ended)

    async def _note(self, ended: list[Ended]) -> None:
        if not ended:
            return
        try:
            last = await self.deliveries.note(ended)
        except ServiceUnavailable as trouble:  # it is sent once more
            log.warning("what became of webhooks was not noted", why=str(trouble))
            return
        over = {each.turn.signal_id for each in last}
        for turn, attempts in ended:
            for each in attempts:
                WEBHOOKS.labels(_outcome(each, is_last=turn.signal_id in over)).inc()
            failed = [each for each in attempts if each.has_failed]
            if failed:
                log.info(
                    "a webhook was not accepted",
                    signal=turn.signal_id,
                    firing=failed[0].firing.firing_id,
                    reason=failed[0].reason,
                    is_last=turn.signal_id in over,
                )

    async def _keep(self) -> None:
        """Count what waits, and forget what is not kept any more, each in its turn."""
        now_s = self.clock.monotonic_s()
        if self._counted_at_s is None or now_s - self._counted_at_s >= COUNT_S:
            waiting, oldest = await self.deliveries.length()
            WEBHOOKS_WAITING.set(waiting)
            WEBHOOKS_OLDEST_S.set(0 if oldest is None else (self.clock.now() - oldest) / 1000)
            self._counted_at_s = now_s
        if self._swept_at_s is None or now_s - self._swept_at_s >= SWEEP_S:
            await self.deliveries.sweep()
            self._swept_at_s = now_s

    async def _send(self, turn: Turn) -> Ended:
        tried = (self._try(turn, webhook) for webhook in turn.webhooks)
        return Ended(turn, await asyncio.gather(*tried))

    async def _try(self, turn: Turn, webhook: DueWebhook) -> Attempt:
        firing = webhook.firing
        host = urlsplit(webhook.url).hostname or ""
        retry_after_s = await self.receivers.admit(host, turn.user_id)
        if retry_after_s is not None:
            return Attempt(firing, retry_after_s=retry_after_s)
        try:
            await self.post.send(webhook.url, webhook.headers, webhook.body)
        except NotNow as rest:
            return Attempt(firing, retry_after_s=rest.retry_after_s)
        except NotAccepted as failure:
            self.receivers.note(host, is_silent=failure.is_silent)
            return Attempt(firing, str(failure), failure.is_gone)
        self.receivers.note(host, is_silent=False)
        return Attempt(firing)


def _outcome(attempt: Attempt, *, is_last: bool) -> str:
    if attempt.retry_after_s is not None:
        return "postponed"
    if not attempt.has_failed:
        return "delivered"
    return "given_up" if is_last else "failed"
