"""Proofs that a person reads an e-mail address: a link or a code that was sent there, once."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NewType, Protocol, TypedDict, Unpack

from mintscope.base.primitives import UnixMs
from mintscope.base.time import DAY_MS, HOUR_MS
from mintscope.core.accounts.email_address import EmailAddress

ProofId = NewType("ProofId", int)

GUESSES_MAX: Final = 5
EVER: Final = UnixMs(0)


class Purpose(StrEnum):
    """The purpose of a proof."""

    CONFIRM_APPLICATION = "confirm_application"
    VERIFY_EMAIL = "verify_email"
    RESET_PASSWORD = "reset_password"  # noqa: S105  not a password
    CLAIM_AGENT = "claim_agent"
    CHANGE_EMAIL = "change_email"
    UNDO_EMAIL = "undo_email"

    @property
    def lifetime_ms(self) -> int:
        """How long it may be used."""
        return {
            Purpose.CONFIRM_APPLICATION: 72 * HOUR_MS,
            Purpose.VERIFY_EMAIL: 24 * HOUR_MS,
            Purpose.RESET_PASSWORD: HOUR_MS,
            Purpose.CLAIM_AGENT: HOUR_MS,
            Purpose.CHANGE_EMAIL: 24 * HOUR_MS,
            Purpose.UNDO_EMAIL: 7 * DAY_MS,
        }[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailProof:
    """A proof that was sent; *subject* is the application or user it is about.

    since   when the session began in which the change was made that it undoes; None: it undoes none
    """

    proof_id: ProofId
    purpose: Purpose
    subject: int
    email: EmailAddress
    nonce: bytes
    made_at: UnixMs
    expires_at: UnixMs
    used_at: UnixMs | None
    guesses: int = 0
    since: UnixMs | None = None

    def is_good(self, purpose: Purpose, now: UnixMs) -> bool:
        """Say whether it may still be used for *purpose*."""
        return self.purpose is purpose and self.used_at is None and now < self.expires_at


@dataclass(frozen=True, slots=True)
class NewProof:
    """A proof about to be sent to *email*; fields as in EmailProof."""

    purpose: Purpose
    subject: int
    email: EmailAddress
    nonce: bytes
    made_at: UnixMs
    since: UnixMs | None = None

    @property
    def expires_at(self) -> UnixMs:
        """When it stops to be good."""
        return UnixMs(self.made_at + self.purpose.lifetime_ms)


class ProofChanges(TypedDict, total=False):
    """The columns of a proof that may change."""

    used_at: UnixMs
    guesses: int


class ProofRows(Protocol):
    """Proofs inside one transaction."""

    def get(self, proof_id: ProofId, /) -> EmailProof | None:
        """Return one proof, good or not."""

    def newest(self, purpose: Purpose, subject: int) -> EmailProof | None:
        """Return the newest proof about *subject*, good or not."""

    def insert(self, new: NewProof) -> ProofId:
        """Add a proof."""

    def update(self, proof_id: ProofId, /, **changes: Unpack[ProofChanges]) -> None:
        """Change columns of a proof."""

    def use_up(self, purpose: Purpose, subject: int, at: UnixMs, *, since: UnixMs = EVER) -> None:
        """Set `used_at` of every proof about *subject*, made at *since* or later, that has none."""

    def delete(self, purpose: Purpose, subject: int) -> None:
        """Delete every proof about *subject*."""

    def holds(self, email: EmailAddress, subject: int, at: UnixMs) -> bool:
        """Return whether an undo may give *email* back to an account other than *subject*."""


def use_proof(
    proofs: ProofRows, proof_id: ProofId, purpose: Purpose, at: UnixMs
) -> EmailProof | None:
    """Use up a proof found by `store.find_proof`; None if it is not good for *purpose*."""
    proof = proofs.get(proof_id)
    if proof is None or not proof.is_good(purpose, at):
        return None
    proofs.update(proof_id, used_at=at)
    return proof


def link_text(proof_id: ProofId, link: str) -> str:
    """Return the last segment of a link's path."""
    return f"{proof_id}.{link}"


def parse_link(text: str) -> tuple[ProofId, str] | None:
    """Return what `link_text` was made of, or None for anything else."""
    number, dot, link = text.partition(".")
    if not dot or not number.isascii() or not number.isdigit() or len(number) > 18:  # noqa: PLR2004
        return None
    return ProofId(int(number)), link
