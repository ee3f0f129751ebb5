"""The outbox: stored e-mails, each of which is sent by the process that leases it.

A crash can cause an e-mail to be sent twice, but never to be lost.
"""

from collections.abc import Sequence
from typing import Final

from mintscope.accounts.mail.email import Draft, EmailId
from mintscope.accounts.rows import AccountRows, AccountStore
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS, HOUR_MS, MINUTE_MS

LEASE_MS: Final = MINUTE_MS
GIVE_UP_MS: Final = 3 * DAY_MS
GIVE_UP_MAX: Final = 500  # the most e-mails given up in one transaction
RETRY_MS_MIN: Final = MINUTE_MS
RETRY_MS_MAX: Final = 6 * HOUR_MS
LINK_EXPIRED: Final = "its link is no longer valid"


class Outbox:
    """Leases e-mails for delivery, and records their outcomes.

    Methods raise ServiceUnavailable.
    """

    def __init__(self, store: AccountStore) -> None:
        self._store = store

    async def lease(self, now: UnixMs, *, limit: int) -> Sequence[Draft]:
        """Lease up to *limit* due e-mails for a minute, and return them, oldest first.

        Due e-mails whose link was used or has expired are given up instead.
        """
        if not await self._store.read(lambda rows: rows.emails.due(now, 1)):
            return []  # without the write lock, because this is called twice a second

        def lease(rows: AccountRows) -> Sequence[Draft]:
            leased: list[Draft] = []
            given_up = 0
            while len(leased) < limit and given_up < GIVE_UP_MAX:
                due = rows.emails.claim(now, min(limit - len(leased), GIVE_UP_MAX - given_up))
                if not due:
                    break
                for draft in due:
                    if draft.proof is None or draft.proof.is_good(draft.proof.purpose, now):
                        # The lease is the next due time: if this process dies, the e-mail is due
                        # again when the lease ends.
                        rows.emails.update(draft.email_id, due_at=UnixMs(now + LEASE_MS))
                        leased.append(draft)
                    else:
                        rows.emails.update(draft.email_id, given_up_at=now, reason=LINK_EXPIRED)
                        given_up += 1
            return sorted(leased, key=lambda draft: draft.email_id)

        return await self._store.claim(lease)

    async def sent(self, email_id: EmailId, now: UnixMs) -> None:
        """Record that the mail server accepted the e-mail."""

        def note(rows: AccountRows) -> None:
            draft = rows.emails.get(email_id)
            # The row may be gone, or another process may have sent the e-mail after the lease.
            if draft is not None and draft.sent_at is None:
                attempts = draft.attempts + 1
                rows.emails.update(email_id, sent_at=now, attempts=attempts, reason=None)

        await self._store.transact(note)

    async def failed(
        self, email_id: EmailId, now: UnixMs, *, reason: str, retry_at: UnixMs | None
    ) -> None:
        """Store the reason why an e-mail was not sent, and the time of the next attempt.

        retry_at   the time of the next attempt; None: give up the e-mail
        """

        def note(rows: AccountRows) -> None:
            draft = rows.emails.get(email_id)
            if draft is None or not draft.is_waiting:
                return
            rows.emails.update(email_id, attempts=draft.attempts + 1, reason=reason)
            if retry_at is None:
                rows.emails.update(email_id, given_up_at=now)
            else:
                rows.emails.update(email_id, due_at=retry_at)

        await self._store.transact(note)

    async def give_up(self, now: UnixMs, *, written_before: UnixMs, reason: str) -> int:
        """Give up waiting e-mails written at *written_before* or earlier; return their number.

        One call gives up at most GIVE_UP_MAX e-mails.
        """
        if not await self._store.read(lambda rows: rows.emails.written_before(written_before, 1)):
            return 0

        def give_up(rows: AccountRows) -> int:
            old = rows.emails.written_before(written_before, GIVE_UP_MAX)
            for draft in old:
                rows.emails.update(draft.email_id, given_up_at=now, reason=reason)
            return len(old)

        return await self._store.transact(give_up)

    async def recent(self, *, limit: int) -> Sequence[Draft]:
        """Return up to *limit* e-mails, sent or not, newest first, for the mailbox of a demo."""
        return await self._store.read(lambda rows: rows.emails.newest(limit))

    async def count_waiting(self) -> int:
        """Return the number of e-mails that were neither sent nor given up yet."""
        return await self._store.read(lambda rows: rows.emails.count_waiting())


def retry_at(draft: Draft, now: UnixMs) -> UnixMs | None:
    """Return the time of the next attempt after a failure at *now*; None if there is none.

    The pause after the first attempt is a minute.  Each further pause is twice as long, but at most
    six hours.  The last attempt is three days after the e-mail was written.
    """
    end = draft.written_at + GIVE_UP_MS
    if now >= end:
        return None
    # 16 doublings are far beyond RETRY_MS_MAX, and the number stays small.
    pause_ms = min(RETRY_MS_MIN << min(draft.attempts, 16), RETRY_MS_MAX)
    return UnixMs(min(now + pause_ms, end))
