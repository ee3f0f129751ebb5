"""E-mails: their kinds, recipients and limits; they never contain an applicant's text."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NewType, TypedDict

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.session import EmailProof
from mintscope.kit.limits import Limit, Limiter, LimitKey, Limits, take_all
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_S, HOUR_S, MINUTE_S

EmailId = NewType("EmailId", int)

# Anyone can request e-mails to any address, so the limits protect the owner of the address.
ADMITTED: Final = (
    Limit(name="e-mails in five minutes", count=1, window_s=5 * MINUTE_S),
    Limit(name="e-mails in an hour", count=3, window_s=HOUR_S),
    Limit(name="e-mails in a day", count=5, window_s=DAY_S),
)
# The limit of a site (`site_key`), because a request adds a row even if the address has no account,
# and anyone can invent addresses.
OF_SITE: Final = Limit(name="e-mails of a site", count=20, window_s=HOUR_S)
UNVERIFIED_MAX: Final = 5  # e-mails of one kind in a day to an unverified address


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
    CREDITS_MOVED = "credits_moved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A stored e-mail; its link and code are derived from *proof* when the e-mail is sent.

    facts   the values for the template of *kind*, listed below.  No value is an applicant's text.
            Texts of a user, the name and message of an alert, are sent only to a verified address
            of that user.
    proof   the proof from which link and code are derived; None: the e-mail has neither
    reason  the reason why the last attempt failed or the e-mail was given up; None: neither

    The *facts* of APPLICATION_APPROVED are `scopes`; of APPLICATION_REJECTED `reason`, a text of an
    administrator; of NEW_KEY `hint` and `scopes`; of KEY_NETWORKS `hint`; of CREDITS_MOVED `hint`
    and `credits`; of CLAIM_AGENT `username`; of SECOND_FACTOR `what`, the change as a sentence; of
    WALLET_LINKED `wallet`; of SPEND_ALERT `spent`, `level` and `day`; of WEBHOOK_DISABLED `signal`.
    For SIGNAL_FIRED, SIGNAL_LIMIT and SIGNAL_HOUR_LIMIT, see `alerts.emails`.
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

    pause   the URL to which one POST stops further e-mails of the alert (RFC 8058), if any
    """

    recipient: EmailAddress
    subject: str
    text: str
    message_id: str
    pause: str | None = None


class EmailChanges(TypedDict, total=False):
    """The columns of an e-mail that an update can change."""

    due_at: UnixMs
    attempts: int
    sent_at: UnixMs
    given_up_at: UnixMs
    reason: str | None


class EmailLimit:
    """Limits e-mails with the same limit key: one in five minutes, three an hour, five a day.

    Because strangers can ask for e-mails to any address, visitors from one site, which is an IPv4
    address or an IPv6 /48, can ask for at most 20 in an hour, to all addresses together.
    """

    def __init__(self, limits: Limits) -> None:
        self._windows = [limits.limiter(limit) for limit in ADMITTED]
        self._of_site = limits.limiter(OF_SITE)

    async def take(self, key: LimitKey, site: LimitKey | None = None) -> bool:
        """Count an e-mail under *key*; return False, and count nothing, if a limit is reached.

        site    the network of the visitor who asks for the e-mail, an IPv4 address or an IPv6 /48;
                None: a signed-in user asks for it
        """
        return await take_all(self._counted(key, site)) is None

    async def give_back(self, key: LimitKey, site: LimitKey | None = None) -> None:
        """Undo the count of an e-mail that was counted under *key* and *site*, but not written."""
        for window, counted in self._counted(key, site):
            await window.give_back(counted)

    def _counted(self, key: LimitKey, site: LimitKey | None) -> list[tuple[Limiter, LimitKey]]:
        windows = [(window, key) for window in self._windows]
        return windows if site is None else [*windows, (self._of_site, site)]
