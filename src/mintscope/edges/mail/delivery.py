"""Delivery: takes e-mails out of the outbox and hands them to the transport.

At least once: whoever is killed between handing over and noting hands over
again, under the same Message-ID.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import structlog

from mintscope.base.clock import Clock
from mintscope.base.errors import ServiceUnavailable
from mintscope.base.metrics import LETTERS, LETTERS_WAITING
from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.mail.email import Draft, Email
from mintscope.core.accounts.mail.outbox import GIVE_UP_MS, Outbox, retry_at
from mintscope.edges.mail.templates import EmailWithoutLink
from mintscope.edges.mail.transport import EmailRefused, Unsent

POLL_S: Final = 0.5
COUNT_S: Final = 60.0  # how often letters that wait are counted while none goes
TROUBLE_S: Final = 5.0
NO_DELIVERY: Final = "mail.delivery is none"
AT_ONCE: Final = 4  # within a lease: each takes its timeout at most

log = structlog.get_logger()


class Transport(Protocol):
    """Whoever delivers; `mail.smtp` does."""

    async def send(self, letter: Email) -> None:
        """Deliver.  Raises EmailRefused, or Unsent for all that may get better."""
        ...


class PageTransport:
    """Delivers by doing nothing: a page shows what is in the outbox."""

    async def send(self, letter: Email) -> None:
        """Let be."""


class Delivery:
    """Delivers what is due, for as long as it runs.

    post      None: letters stay in the outbox, and are counted; after three days they are given up
    compose   writes the letter of a draft
    """

    def __init__(
        self,
        *,
        outbox: Outbox,
        post: Transport | None,
        compose: Callable[[Draft], Email],
        clock: Clock,
    ) -> None:
        self._outbox = outbox
        self._post = post
        self._compose = compose
        self._clock = clock
        self._counted_at_s: float | None = None

    async def run(self) -> None:
        """Deliver letters, each within a second of being written; has no end."""
        while True:
            try:
                count = await self.round()
            except Exception as trouble:  # whatever it is, later letters are not to wait for it
                is_bug = not isinstance(trouble, ServiceUnavailable)
                log.warning("letters could not be looked for", exc_info=is_bug, why=str(trouble))
                await asyncio.sleep(TROUBLE_S)
            else:
                if not count:
                    await asyncio.sleep(POLL_S)

    async def round(self) -> int:
        """Deliver some of what is due now; return how many were taken.

        Raises    ServiceUnavailable
        """
        taken = await self._take()
        outcomes = await asyncio.gather(*map(self._deliver, taken), return_exceptions=True)
        if taken or self._is_to_be_counted():
            await self._count()
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return len(taken)

    def _is_to_be_counted(self) -> bool:
        counted_at_s = self._counted_at_s
        return counted_at_s is None or self._clock.monotonic_s() - counted_at_s >= COUNT_S

    async def _count(self) -> None:
        if self._post is None:
            await self._give_up_old()
        LETTERS_WAITING.set(await self._outbox.count_waiting())
        self._counted_at_s = self._clock.monotonic_s()

    async def _give_up_old(self) -> None:
        now = self._clock.now()
        count = await self._outbox.give_up(
            now, written_before=UnixMs(now - GIVE_UP_MS), reason=NO_DELIVERY
        )
        if count:
            LETTERS.labels("given_up").inc(count)
            log.warning("letters were given up", count=count, reason=NO_DELIVERY)

    async def _take(self) -> Sequence[Draft]:
        if self._post is None:
            return []
        return await self._outbox.lease(self._clock.now(), limit=AT_ONCE)

    async def _deliver(self, draft: Draft) -> None:
        assert self._post is not None
        try:
            await self._post.send(self._compose(draft))
        except (EmailRefused, EmailWithoutLink) as failure:
            await self._fail(draft, failure, None)
        except Unsent as failure:
            await self._fail(draft, failure, retry_at(draft, self._clock.now()))
        else:
            await self._outbox.sent(draft.email_id, self._clock.now())
            LETTERS.labels("sent").inc()

    async def _fail(self, draft: Draft, failure: Exception, again_at: UnixMs | None) -> None:
        now = self._clock.now()
        reason = str(failure)
        await self._outbox.failed(draft.email_id, now, reason=reason, retry_at=again_at)
        about = {"letter": draft.email_id, "kind": str(draft.kind), "reason": reason}
        if again_at is None:
            LETTERS.labels("given_up").inc()
            log.error("a letter was given up", **about)
        else:
            LETTERS.labels("failed").inc()
            log.warning("a letter was not sent", **about, retry_s=(again_at - now) // 1000)
