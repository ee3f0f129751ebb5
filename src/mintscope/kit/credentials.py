"""Bearer credentials: created once, shown once, stored only as a hash.

    svc_credit_ + 64 hex     a credit token
    svc_app_    + 64 hex     an application secret
    svc_live_   + 80 hex     an API key

The last 8 hex digits are the CRC-32 (ISO 3309, as in zlib) of everything before
them, prefix included, so that a secret scanner can check a find offline.  All
hex is lower case.  "Token" alone is never a bearer string in this package.
"""

import hmac
import re
import zlib
from enum import Enum
from typing import Final, NewType

Credential = NewType("Credential", str)
CreditToken = NewType("CreditToken", Credential)
ApplicationSecret = NewType("ApplicationSecret", Credential)
ApiKey = NewType("ApiKey", Credential)
CredentialHash = NewType("CredentialHash", bytes)

CHECKSUM_LENGTH: Final = 8
PEPPER_BYTES_MIN: Final = 32


class CredentialKind(Enum):
    """The three kinds, as (prefix, hex digits)."""

    CREDIT_TOKEN = ("svc_credit_", 64)
    APPLICATION_SECRET = ("svc_app_", 64)
    API_KEY = ("svc_live_", 80)

    @property
    def prefix(self) -> str:
        """The prefix of every credential of this kind."""
        return self.value[0]

    @property
    def entropy_bytes(self) -> int:
        """The number of random bytes in a credential: all its digits except the checksum."""
        return (self.value[1] - CHECKSUM_LENGTH) // 2


def make_credit_token(entropy: bytes) -> CreditToken:
    """Return the credit token of 28 bytes from a cryptographic generator."""
    return CreditToken(_make(CredentialKind.CREDIT_TOKEN, entropy))


def make_application_secret(entropy: bytes) -> ApplicationSecret:
    """Return the application secret made of *entropy*: 28 secret random bytes."""
    return ApplicationSecret(_make(CredentialKind.APPLICATION_SECRET, entropy))


def make_api_key(entropy: bytes) -> ApiKey:
    """Return the API key made of *entropy*: 36 secret random bytes."""
    return ApiKey(_make(CredentialKind.API_KEY, entropy))


def has_form(kind: CredentialKind, text: str) -> bool:
    """Return whether *text* has the prefix and digits of *kind*; the checksum is not verified."""
    prefix, digits = kind.value
    return re.fullmatch(rf"{prefix}[0-9a-f]{{{digits}}}", text) is not None


def is_well_formed(kind: CredentialKind, text: str) -> bool:
    """Return whether *text* has the form of *kind* and a correct checksum."""
    return has_form(kind, text) and _checksum(text[:-CHECKSUM_LENGTH]) == text[-CHECKSUM_LENGTH:]


def hint(credential: Credential) -> str:
    """Return the part that may be shown and stored: the checksum, which reveals no secret."""
    return credential[-CHECKSUM_LENGTH:]


def hash_credential(credential: str, *, pepper: bytes) -> CredentialHash:
    """Return the only form of *credential* that may be stored: HMAC-SHA-256 under *pepper*.

    The pepper lives outside the database: a stolen database alone can neither
    be searched for a token nor be given a new one.
    """
    return CredentialHash(hmac.digest(pepper, credential.encode(), "sha256"))


def _make(kind: CredentialKind, entropy: bytes) -> Credential:
    assert len(entropy) == kind.entropy_bytes
    body = kind.prefix + entropy.hex()
    return Credential(body + _checksum(body))


def _checksum(body: str) -> str:
    return f"{zlib.crc32(body.encode()):0{CHECKSUM_LENGTH}x}"
