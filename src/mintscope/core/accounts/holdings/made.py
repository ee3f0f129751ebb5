"""Results of requests with an Idempotency-Key: a repeated request makes nothing again."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from mintscope.base.credentials import CredentialHash
from mintscope.base.primitives import UnixMs


@dataclass(frozen=True, slots=True)
class MadeThing:
    """The result of a request.

    asked     names the request: what it made and of what
    thing_id  the number of what was made
    """

    asked: bytes
    thing_id: int


class MadeRows(Protocol):
    """Results by their keys, inside one transaction."""

    def find(self, key_hash: CredentialHash) -> MadeThing | None:
        """Return what was made with that Idempotency-Key."""

    def insert(self, key_hash: CredentialHash, made: MadeThing, at: UnixMs) -> None:
        """Note what was made with it."""

    def purge(self, before: UnixMs) -> None:
        """Forget what was made before then."""


def asked_for(kind: str, body: object) -> bytes:
    """Return what names a request for a *kind* of thing; *body* has a `repr` that says it all."""
    return sha256(f"{kind}\n{body!r}".encode()).digest()
