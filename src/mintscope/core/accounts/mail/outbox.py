"""The outbox: letters that were written and are to be sent, by whoever leases them."""

from collections.abc import Sequence
from typing import Final, Protocol

from mintscope.base.primitives import UnixMs
from mintscope.base.time import DAY_MS, HOUR_MS, MINUTE_MS
from mintscope.core.accounts.mail.email import Draft, EmailId

LEASE_MS: Final = MINUTE_MS
GIVE_UP_MS: Final = 3 * DAY_MS
RETRY_MS_MIN: Final = MINUTE_MS
RETRY_MS_MAX: Final = 6 * HOUR_MS


class Outbox(Protocol):
    """Where letters wait; the same letter may be sent twice after a crash, never not at all."""

    async def lease(self, now: UnixMs, *, limit: int) -> Sequence[Draft]:
        """Return letters that are due, oldest first; nobody else gets them for a minute.

        Letters with a link that is not good any more are given up instead.
        """
        ...

    async def sent(self, letter_id: EmailId, now: UnixMs) -> None:
        """Note that the letter was accepted by the mail server."""
        ...

    async def failed(
        self, letter_id: EmailId, now: UnixMs, *, reason: str, retry_at: UnixMs | None
    ) -> None:
        """Note why it was not, and when to try again; None: never."""
        ...

    async def give_up(self, now: UnixMs, *, written_before: UnixMs, reason: str) -> int:
        """Give up what was written then or before and was not sent; return how many."""
        ...

    async def recent(self, *, limit: int) -> Sequence[Draft]:
        """Return the newest letters, sent or not, for the mailbox page of a demo."""
        ...

    async def count_waiting(self) -> int:
        """Return how many letters were neither sent nor given up."""
        ...


def retry_at(draft: Draft, now: UnixMs) -> UnixMs | None:
    """Return when to try again what failed *now*; None: three days are enough.

    A minute later, then twice as long each time, at most six hours; the last time three days
    after the letter was written.
    """
    end = draft.written_at + GIVE_UP_MS
    if now >= end:
        return None
    pause_ms = min(RETRY_MS_MIN << min(draft.attempts, 16), RETRY_MS_MAX)
    return UnixMs(min(now + pause_ms, end))
