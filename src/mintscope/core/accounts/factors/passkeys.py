"""Passkeys: the port that checks what a browser says of one (WebAuthn)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from mintscope.core.accounts.factors.rows import NewPasskey, Passkey

NAME_LENGTH_MAX: Final = 64


class PasskeyRefused(Exception):
    """The browser sent no passkey, or one that may not be used here; the message may be shown."""


@dataclass(frozen=True, slots=True)
class PasskeyOwner:
    """The owner of a new passkey; *handle* is kept by the device instead of a name."""

    handle: bytes
    name: str


class PasskeyVerifier(Protocol):
    """Makes the questions that browsers put to a device, and checks the answers; JSON both.

    *challenge* is what the device signs.
    """

    def registration(self, owner: PasskeyOwner, challenge: bytes, known: Sequence[Passkey]) -> str:
        """Return the question for a new passkey, on a device that holds none of *known*."""

    def registered(self, answer: str, challenge: bytes, name: str) -> NewPasskey:
        """Return the passkey that *answer* brings.  Raises PasskeyRefused."""

    def authentication(self, challenge: bytes, known: Sequence[Passkey]) -> str:
        """Return the question for a proof by one of *known*."""

    def credential_of(self, answer: str) -> bytes:
        """Return which credential *answer* claims to be of.  Raises PasskeyRefused."""

    def authenticated(self, answer: str, challenge: bytes, passkey: Passkey) -> int:
        """Return the new `sign_count` of *passkey*, which *answer* proves.

        Raises    PasskeyRefused, also for a count that went back: the passkey was copied
        """
