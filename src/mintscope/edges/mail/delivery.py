"""Delivery: takes e-mails out of the outbox and hands them to the transport.

At least once: if a process is killed after it handed an e-mail over and before it noted that, the
e-mail is handed over again, under the same Message-ID.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog

from mintscope.base.clock import Clock
from mintscope.base.errors import ServiceUnavailable
from mintscope.base.metrics import EMAILS, EMAILS_WAITING
from mintscope.base.primitives import UnixMs
from mintscope.base.time import HOUR_S
from mintscope.core.accounts.mail.email import Draft, Email
from mintscope.core.accounts.mail.outbox import GIVE_UP_MS, Outbox, retry_at
from mintscope.edges.mail.templates import EmailWithoutLink
from mintscope.edges.mail.transport import EmailRefused, Unsent

POLL_S: Final = 0.5
COUNT_S: Final = 60.0  # how often e-mails that wait are counted while none is sent
TROUBLE_S: Final = 5.0
NO_DELIVERY: Final = "mail.delivery is none"
PER_HOUR_MAX: Final = 3_000
AT_ONCE: Final = 4  # within a lease: each takes its timeout at most

log = structlog.get_logger()


class Transport(Protocol):
    """The transport of e-mails."""

    async def send(self, email: Email) -> None:
        """Send it.  Raises EmailRefused, or Unsent for what may succeed later."""


class PageTransport:
    """Sends nothing: a page shows what is in the outbox."""

    async def send(self, email: Email) -> None:
        """Do nothing."""


@dataclass(kw_only=True, eq=False, repr=False)
class Delivery:
    """Delivers e-mails that are due.

    transport   None: e-mails stay in the outbox and are counted; after three days they are given up
    compose     writes the e-mail of a draft
    per_hour_max  attempts in any hour, of this process; what is due beyond them waits
    """

    outbox: Outbox
    transport: Transport | None
    compose: Callable[[Draft], Email]
    clock: Clock
    per_hour_max: int = PER_HOUR_MAX
    _tried_at_s: deque[float] = field(default_factory=deque, init=False)
    _counted_at_s: float | None = field(default=None, init=False)

    async def run(self) -> None:
        """Deliver e-mails, each within a second of being written, until cancelled."""
        while True:
            try:
                count = await self.round()
            except Exception as trouble:  # whatever it is, later e-mails must not wait for it
                is_bug = not isinstance(trouble, ServiceUnavailable)
                log.warning("e-mails could not be looked for", exc_info=is_bug, why=str(trouble))
                await asyncio.sleep(TROUBLE_S)
            else:
                if not count:
                    await asyncio.sleep(POLL_S)

    async def round(self) -> int:
        """Deliver some of what is due; return how many were taken.  Raises ServiceUnavailable."""
        now = self.clock.now()
        now_s = self.clock.monotonic_s()
        room = 0 if self.transport is None else self._room(now_s)
        taken = await self.outbox.lease(now, limit=room) if room else []
        self._tried_at_s += [now_s] * len(taken)
        outcomes = await asyncio.gather(*map(self._deliver, taken), return_exceptions=True)
        if taken or self._counted_at_s is None or now_s - self._counted_at_s >= COUNT_S:
            await self._count()
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return len(taken)

    def _room(self, now_s: float) -> int:
        """Return how many may be tried now."""
        tried = self._tried_at_s
        while tried and now_s - tried[0] >= HOUR_S:
            tried.popleft()
        return min(AT_ONCE, self.per_hour_max - len(tried))

    async def _count(self) -> None:
        if self.transport is None:
            await self._give_up_old()
        EMAILS_WAITING.set(await self.outbox.count_waiting())
        self._counted_at_s = self.clock.monotonic_s()

    async def _give_up_old(self) -> None:
        now = self.clock.now()
        count = await self.outbox.give_up(
            now, written_before=UnixMs(now - GIVE_UP_MS), reason=NO_DELIVERY
        )
        if count:
            EMAILS.labels("given_up").inc(count)
            log.warning("e-mails were given up", count=count, reason=NO_DELIVERY)

    async def _deliver(self, draft: Draft) -> None:
        assert self.transport is not None
        try:
            await self.transport.send(self.compose(draft))
        except (EmailRefused, EmailWithoutLink) as failure:
            await self._fail(draft, failure, None)
        except Unsent as failure:
            await self._fail(draft, failure, retry_at(draft, self.clock.now()))
        else:
            await self.outbox.sent(draft.email_id, self.clock.now())
            EMAILS.labels("sent").inc()

    async def _fail(self, draft: Draft, failure: Exception, again_at: UnixMs | None) -> None:
        now = self.clock.now()
        reason = str(failure)
        await self.outbox.failed(draft.email_id, now, reason=reason, retry_at=again_at)
        about = {"email": draft.email_id, "kind": str(draft.kind), "reason": reason}
        if again_at is None:
            EMAILS.labels("given_up").inc()
            log.error("an e-mail was given up", **about)
        else:
            EMAILS.labels("failed").inc()
            log.warning("an e-mail was not sent", **about, retry_s=(again_at - now) // 1000)
