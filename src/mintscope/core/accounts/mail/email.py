"""Letters: what is written to whom, in plain text and without a word of the applicant's."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.proof import ProofId

EmailId = NewType("EmailId", int)


class EmailKind(StrEnum):
    """Why we write."""

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
    """A letter as the outbox keeps it: no secret, the link and code are derived when it is sent.

    facts   what its text tells; nothing that anybody but us has written
            approved: `scopes`; new key: `hint`, `scopes`; claim: `username`
    """

    letter_id: EmailId
    kind: EmailKind
    recipient: EmailAddress
    written_at: UnixMs
    facts: dict[str, str] = field(default_factory=dict)
    proof_id: ProofId | None = None
    nonce: bytes | None = None
    attempts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Email:
    """A letter as it is sent; *message_id* is the same at every attempt."""

    recipient: EmailAddress
    subject: str
    text: str
    message_id: str
