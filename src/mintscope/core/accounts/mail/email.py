"""E-mails: what is written to whom, in plain text and without a word of the applicant's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType, Protocol, TypedDict, Unpack

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.proof import Proof, ProofId, Purpose

EmailId = NewType("EmailId", int)


class EmailKind(StrEnum):
    """Why an e-mail is written."""

    CONFIRM_APPLICATION = "confirm_application"
    APPLICATION_APPROVED = "application_approved"
    APPLICATION_REJECTED = "application_rejected"
    NEW_KEY = "new_key"
    VERIFY_EMAIL = "verify_email"
    RESET_PASSWORD = "reset_password"  # noqa: S105  not a password
    PASSWORD_CHANGED = "password_changed"  # noqa: S105  not a password
    CLAIM_AGENT = "claim_agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An e-mail as the outbox keeps it; its link and code are derived when it is sent.

    facts   what its text tells, never a text of a user or an applicant
            approved: `scopes`; new key: `hint`, `scopes`; claim: `username`
    proof   what its link and code derive from; None: it has none
    reason  why the last attempt failed, or why it was given up
    """

    email_id: EmailId
    kind: EmailKind
    recipient: EmailAddress
    written_at: UnixMs
    facts: dict[str, str] = field(default_factory=dict)
    proof: Proof | None = None
    attempts: int = 0
    sent_at: UnixMs | None = None
    given_up_at: UnixMs | None = None
    reason: str | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether it was neither sent nor given up."""
        return self.sent_at is None and self.given_up_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Email:
    """An e-mail as it is sent; *message_id* is the same at every attempt."""

    recipient: EmailAddress
    subject: str
    text: str
    message_id: str


class EmailChanges(TypedDict, total=False):
    """The columns of an e-mail that may change."""

    due_at: UnixMs
    attempts: int
    sent_at: UnixMs
    given_up_at: UnixMs
    reason: str | None


class EmailRows(Protocol):
    """E-mails inside one transaction, as the rules of accounts write them."""

    def get(self, email_id: EmailId, /) -> Draft | None:
        """Return one e-mail."""

    def insert(
        self,
        kind: EmailKind,
        recipient: EmailAddress,
        facts: Mapping[str, str],
        proof: ProofId | None,
        at: UnixMs,
    ) -> EmailId:
        """Add an e-mail that is due once the transaction is committed; *facts* as in Draft."""

    def update(self, email_id: EmailId, /, **changes: Unpack[EmailChanges]) -> None:
        """Change columns of an e-mail."""

    def written_to(
        self, recipient: EmailAddress, kind: EmailKind, since: UnixMs
    ) -> Sequence[Draft]:
        """Return the e-mails of *kind* written to *recipient* after *since*."""

    def waiting_with(self, purpose: Purpose, subject: int) -> Sequence[Draft]:
        """Return the e-mails that wait with a proof about *subject*."""

    def purge(self, before: UnixMs) -> None:
        """Delete e-mails sent or given up before then."""


class OutboxRows(Protocol):
    """E-mails inside one transaction, as the delivery looks for them."""

    def due(self, now: UnixMs, limit: int) -> Sequence[Draft]:
        """Return up to *limit* e-mails that wait and are due, longest due first."""

    def written_before(self, at: UnixMs, limit: int) -> Sequence[Draft]:
        """Return up to *limit* e-mails that wait, written at *at* or before, in any order."""

    def newest(self, limit: int) -> Sequence[Draft]:
        """Return the newest e-mails, sent or not."""

    def count_waiting(self) -> int:
        """Return how many e-mails were neither sent nor given up."""
