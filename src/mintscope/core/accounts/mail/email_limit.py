"""How often e-mails are written on request: pauses in memory, and a number a day in the rows."""

from collections.abc import Mapping
from typing import Final

from mintscope.base.limits import Limit, LimitKey, Limits, take_all
from mintscope.base.primitives import UnixMs
from mintscope.base.time import DAY_MS, DAY_S, HOUR_S, MINUTE_S
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.mail.email import EmailKind, EmailRows
from mintscope.core.accounts.proof import Purpose
from mintscope.core.accounts.user import User

ADMITTED: Final = (
    Limit(name="e-mails in five minutes", count=1, window_s=5 * MINUTE_S),
    Limit(name="e-mails in an hour", count=3, window_s=HOUR_S),
    Limit(name="e-mails in a day", count=5, window_s=DAY_S),
)
UNVERIFIED_MAX: Final = 5  # e-mails of a kind in a day, to an address that may be a stranger's
RESETS_MAX: Final = 20  # in a day, to an address that has a good link already
GOOD_MS: Final = Purpose.RESET_PASSWORD.lifetime_ms // 2  # what must be left of that link's time


class EmailLimit:
    """Admits an e-mail five minutes after the one before, three in an hour, five in a day."""

    def __init__(self, limits: Limits) -> None:
        self._windows = [limits.limiter(limit) for limit in ADMITTED]

    async def take(self, key: LimitKey) -> bool:
        """Admit an e-mail of *key* and count it; False, and nothing is counted: it is too early."""
        return await take_all([(window, key) for window in self._windows]) is None

    async def give_back(self, key: LimitKey) -> None:
        """Count an e-mail of *key* less: it was not written."""
        for window in self._windows:
            await window.give_back(key)


def tell_owner(
    emails: EmailRows, owner: User, kind: EmailKind, facts: Mapping[str, str], at: UnixMs
) -> None:
    """Write to a person about what was done in the account, if `may_write` allows it."""
    if may_write(emails, owner, kind, at):
        emails.insert(kind, owner.email, facts, None, at)


def may_write(emails: EmailRows, owner: User, kind: EmailKind, at: UnixMs) -> bool:
    """Say whether another e-mail asked for in the account of *owner* may be written.

    A few a day while the address is not verified: it may be a stranger's, not to be flooded.
    """
    if owner.verified_at is not None:
        return True
    return len(emails.written_to(owner.email, kind, UnixMs(at - DAY_MS))) < UNVERIFIED_MAX


def may_write_reset(emails: EmailRows, recipient: EmailAddress, at: UnixMs) -> bool:
    """Say whether a link to set a new password may be written to *recipient*.

    The limit counts only while the owner has a good link: strangers who ask lock no owner out.
    """
    written = emails.written_to(recipient, EmailKind.RESET_PASSWORD, UnixMs(at - DAY_MS))
    has_good_link = any(
        draft.given_up_at is None
        and draft.proof is not None
        and draft.proof.is_good(Purpose.RESET_PASSWORD, UnixMs(at + GOOD_MS))
        for draft in written
    )
    return len(written) < RESETS_MAX or not has_good_link
