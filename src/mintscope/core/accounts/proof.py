"""Proofs that somebody reads a mailbox: a link or a code that was sent there, once."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NewType

from mintscope.base.primitives import UnixMs
from mintscope.base.time import HOUR_MS
from mintscope.core.accounts.email_address import EmailAddress

ProofId = NewType("ProofId", int)

GUESSES_MAX: Final = 5


class Purpose(StrEnum):
    """What a proof is good for."""

    CONFIRM_APPLICATION = "confirm_application"
    VERIFY_EMAIL = "verify_email"
    RESET_PASSWORD = "reset_password"  # noqa: S105  not a password
    CLAIM_AGENT = "claim_agent"

    @property
    def lifetime_ms(self) -> int:
        """How long it may be used."""
        return {
            Purpose.CONFIRM_APPLICATION: 72 * HOUR_MS,
            Purpose.VERIFY_EMAIL: 24 * HOUR_MS,
            Purpose.RESET_PASSWORD: HOUR_MS,
            Purpose.CLAIM_AGENT: HOUR_MS,
        }[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A proof that was sent; *subject* is the application or user it is about."""

    proof_id: ProofId
    purpose: Purpose
    subject: int
    email: EmailAddress
    nonce: bytes
    made_at: UnixMs
    expires_at: UnixMs
    used_at: UnixMs | None

    def is_good(self, purpose: Purpose, now: UnixMs) -> bool:
        """Say whether it may still be used for *purpose*."""
        return self.purpose is purpose and self.used_at is None and now < self.expires_at


def link_text(proof_id: ProofId, link: str) -> str:
    """Return the last segment of a link's path."""
    return f"{proof_id}.{link}"


def parse_link(text: str) -> tuple[ProofId, str] | None:
    """Return what `link_text` was made of, or None for anything else."""
    number, dot, link = text.partition(".")
    if not dot or not number.isascii() or not number.isdigit() or len(number) > 18:  # noqa: PLR2004
        return None
    return ProofId(int(number)), link
