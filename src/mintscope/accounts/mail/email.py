"""E-mails: their kinds, recipients and limits; they never contain an applicant's text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NewType, Protocol, TypedDict

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import User
from mintscope.accounts.session import EmailProof, ProofId, Purpose
from mintscope.kit.limits import Limit, Limiter, LimitKey, Limits, take_all
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS, DAY_S, HOUR_S, MINUTE_S

EmailId = NewType("EmailId", int)

# Anyone can request e-mails to any address, so the limits protect the owner of the address.
ADMITTED: Final = (
    Limit(name="e-mails in five minutes", count=1, window_s=5 * MINUTE_S),
    Limit(name="e-mails in an hour", count=3, window_s=HOUR_S),
    Limit(name="e-mails in a day", count=5, window_s=DAY_S),
)
# Each request leaves a row, even for an address without an account, which may be invented.
OF_SITE: Final = Limit(name="e-mails of a site", count=20, window_s=HOUR_S)
UNVERIFIED_MAX: Final = 5  # e-mails of one kind in a day to an unverified address
RESETS_MAX: Final = 20  # in a day, to an address with a valid link
GOOD_MS: Final = Purpose.RESET_PASSWORD.lifetime_ms // 2  # least time left of that link


class EmailKind(StrEnum):
    """The reason for an e-mail."""

    CONFIRM_APPLICATION = "confirm_application"
    APPLICATION_APPROVED = "application_approved"
    APPLICATION_REJECTED = "application_rejected"
    NEW_KEY = "new_key"
    VERIFY_EMAIL = "verify_email"
    RESET_PASSWORD = "reset_password"  # noqa: S105  not a password
    PASSWORD_CHANGED = "password_changed"  # noqa: S105  not a password
    CLAIM_AGENT = "claim_agent"
    CHANGE_EMAIL = "change_email"
    EMAIL_CHANGED = "email_changed"
    ACCOUNT_REMOVED = "account_removed"
    SECOND_FACTOR = "second_factor"
    SIGNAL_FIRED = "signal_fired"
    WEBHOOK_DISABLED = "webhook_disabled"
    WALLET_LINKED = "wallet_linked"
    SIGNAL_LIMIT = "signal_limit"
    SIGNAL_HOUR_LIMIT = "signal_hour_limit"
    SPEND_ALERT = "spend_alert"
    APPLICATION_REOPENED = "application_reopened"
    KEY_NETWORKS = "key_networks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A stored e-mail; its link and code are derived when the e-mail is sent.

    facts   the facts of its text.  No text of an applicant is among them; texts of a user (the name
            and message of an alert) are sent only to a verified address of that user
            approved: `scopes`; rejected: `reason`, an administrator's words;
            new key: `hint`, `scopes`; wider networks of a key: `hint`; claim: `username`;
            second factor: `what` was done, in our words;
            wallet linked: `wallet`; spend alert: `spent`, `level`, `day`;
            signal fired, signal limit: the facts of `signals.emails`; webhook disabled: `signal`
    proof   the source of the e-mail's link and code; None: it has neither
    reason  why the last attempt failed, or why the e-mail was given up
    """

    email_id: EmailId
    kind: EmailKind
    recipient: EmailAddress
    written_at: UnixMs
    facts: dict[str, str] = field(default_factory=dict)
    proof: EmailProof | None = None
    attempts: int = 0
    sent_at: UnixMs | None = None
    given_up_at: UnixMs | None = None
    reason: str | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether the e-mail was neither sent nor given up yet."""
        return self.sent_at is None and self.given_up_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Email:
    """An e-mail to send; *message_id* is the same at every attempt.

    pause   the URL that stops such e-mails with one POST, RFC 8058; None: no such URL
    """

    recipient: EmailAddress
    subject: str
    text: str
    message_id: str
    pause: str | None = None


class EmailChanges(TypedDict, total=False):
    """The columns of an e-mail that may change."""

    due_at: UnixMs
    attempts: int
    sent_at: UnixMs
    given_up_at: UnixMs
    reason: str | None


class WrittenEmails(Protocol):
    """The stored e-mails inside one transaction, as used by the limits and `tell_owner`."""

    def insert(
        self,
        kind: EmailKind,
        recipient: EmailAddress,
        facts: Mapping[str, str],
        proof: ProofId | None,
        at: UnixMs,
    ) -> EmailId:
        """Add an e-mail that is due once the transaction is committed; *facts* as in Draft."""

    def written_to(
        self, recipient: EmailAddress, kind: EmailKind, since: UnixMs
    ) -> Sequence[Draft]:
        """Return the e-mails of *kind* that were written to *recipient* after *since*."""


class EmailLimit:
    """Allows e-mails five minutes apart, up to three in an hour and five in a day.

    Strangers can ask for e-mails to any address: 20 an hour are admitted from one site, a
    `site_key`, to all addresses together.
    """

    def __init__(self, limits: Limits) -> None:
        self._windows = [limits.limiter(limit) for limit in ADMITTED]
        self._of_site = limits.limiter(OF_SITE)

    async def take(self, key: LimitKey, site: LimitKey | None = None) -> bool:
        """Allow and count an e-mail of *key*; return False without counting if a limit is reached.

        site    the site of the visitor who asks for the e-mail; None: a user asks
        """
        return await take_all(self._counted(key, site)) is None

    async def give_back(self, key: LimitKey, site: LimitKey | None = None) -> None:
        """Undo the count of an e-mail of *key* that was not written."""
        for window, counted in self._counted(key, site):
            await window.give_back(counted)

    def _counted(self, key: LimitKey, site: LimitKey | None) -> list[tuple[Limiter, LimitKey]]:
        windows = [(window, key) for window in self._windows]
        return windows if site is None else [*windows, (self._of_site, site)]


def tell_owner(
    emails: WrittenEmails, owner: User, kind: EmailKind, facts: Mapping[str, str], at: UnixMs
) -> None:
    """Write an e-mail to a person about a change in the account, if `may_write` allows it."""
    if may_write(emails, owner, kind, at):
        emails.insert(kind, owner.email, facts, None, at)


def may_write(emails: WrittenEmails, owner: User, kind: EmailKind, at: UnixMs) -> bool:
    """Return whether another e-mail of *kind* to *owner* may be written.

    An unverified address gets few a day, because it may belong to another person.
    """
    if owner.verified_at is not None:
        return True
    return len(emails.written_to(owner.email, kind, UnixMs(at - DAY_MS))) < UNVERIFIED_MAX


def may_write_reset(emails: WrittenEmails, recipient: EmailAddress, at: UnixMs) -> bool:
    """Return whether a link to set a new password may be written to *recipient*.

    The limit applies only while an earlier link is valid, so that strangers lock no owner out.
    """
    written = emails.written_to(recipient, EmailKind.RESET_PASSWORD, UnixMs(at - DAY_MS))
    has_good_link = any(
        draft.given_up_at is None
        and draft.proof is not None
        and draft.proof.is_good(Purpose.RESET_PASSWORD, UnixMs(at + GOOD_MS))
        for draft in written
    )
    return len(written) < RESETS_MAX or not has_good_link
