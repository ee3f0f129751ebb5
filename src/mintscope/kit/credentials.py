"""The secrets of the configuration, and bearer credentials, which are stored only as hashes.

    svc_credit_ + 64 hex     a credit token
    svc_app_    + 64 hex     an application secret
    svc_live_   + 80 hex     an API key

The last 8 hex digits are the CRC-32 (ISO 3309, as in zlib) of all characters before them, so that a
secret scanner can verify a match offline.  All hex is lower case.

Stored hashes depend on the pepper.  It never changes, because the hashes cannot be computed again
without the credentials.  Other keys derive from roots, which can be rotated.
"""

import hmac
import itertools
import re
import string
import zlib
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final, NewType
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
from typing_extensions import override

from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_S

# Placeholders for secrets in README, docs and deploy, in the form that `_plain` returns; a test
# verifies that the list contains all placeholders in these files.
EXAMPLES: Final = frozenset(
    {
        "0" * 64,
        "first key",
        "password",
        "second key",
        "secret",
        "the content of the keypair file that pays network fees",
        "your key",
    }
)

# Of 32 random bytes, at least 16 are different, and at least 16 differences between neighbours are
# different; the probability of fewer is below 10^-15.  Bytes made by hand repeat, count, or spell
# words.
DIFFERENT_BYTES_MIN: Final = 16
PASSWORD_LENGTH_MIN: Final = 12
PASSWORD_CHARACTERS_MIN: Final = 6
_PRINTABLE: Final = frozenset(string.printable.encode())

IS_EXAMPLE: Final = "it is an example in the documents of mintscope, which are public"
IS_REGULAR: Final = "it has repeated or consecutive characters, so it can be guessed"
IS_TEXT: Final = "it is a text, so it can be guessed"


def is_example(text: str) -> bool:
    """Return whether *text* is one of the placeholders for secrets in the project's documents."""
    return _plain(text) in EXAMPLES


def flaw_of_key(key: bytes) -> str | None:
    """Return the reason why *key* (32 bytes or more) can be guessed; None if none is known."""
    if is_example(key.hex()):
        return IS_EXAMPLE
    differences = {(after - before) % 256 for before, after in itertools.pairwise(key)}
    if min(len(set(key)), len(differences)) < DIFFERENT_BYTES_MIN:
        return IS_REGULAR
    return IS_TEXT if _PRINTABLE.issuperset(key) else None


def flaw_of_password(text: str) -> str | None:
    """Return the reason why the store password *text* can be guessed; None if none is known."""
    if is_example(text):
        return IS_EXAMPLE
    if len(text) < PASSWORD_LENGTH_MIN or len(set(text)) < PASSWORD_CHARACTERS_MIN:
        return (
            f"it can be guessed: expected at least {PASSWORD_LENGTH_MIN} characters,"
            f" {PASSWORD_CHARACTERS_MIN} of them different"
        )
    return None


def passwords_in(url: str) -> Sequence[str]:
    """Return the passwords in *url*, the URL of a store: before the host, and in parameters."""
    parts = urlsplit(url)
    named = [value for name, value in parse_qsl(parts.query) if name == "password"]
    return [*([] if not parts.password else [unquote(parts.password)]), *named]


def has_example(url: str) -> bool:
    """Return whether a secret part of *url* is a placeholder from the documents.

    These parts are passwords, parameters and the parts of the path.
    """
    parts = urlsplit(url)
    texts = [*passwords_in(url), *parts.path.split("/")]
    return any(is_example(unquote(each)) for each in texts) or any(
        is_example(value) for _, value in parse_qsl(parts.query)
    )


def holds_secret(url: str) -> bool:
    """Return whether *url* may contain a secret: password, parameters, or a user but no host."""
    parts = urlsplit(url)
    return bool(parts.password or parts.query or (parts.username and not parts.hostname))


def _plain(text: str) -> str:
    return text.strip().lower().replace("-", " ").replace("_", " ")


ROOT_BYTES: Final = 32
KEPT_S: Final = 2 * DAY_S  # longer than the day for which a response can be repeated
EXPECTED: Final = "expected SECONDS:HEX, as `mintscope secrets rotate` prints it"
_FORM: Final = re.compile(r"(\d{1,11}):([0-9a-f]{64})")


class Root(msgspec.Struct, frozen=True, order=True):
    """A secret from which keys are derived, and the time from which these keys sign."""

    since_s: int  # the time from which the root signs, in Unix seconds
    secret: bytes  # 32 secret bytes, from which the keys are derived

    @property
    def since(self) -> UnixMs:
        """The time at which the root begins to sign."""
        return UnixMs(self.since_s * 1000)

    @override
    def __str__(self) -> str:
        """Return the root in its stored form."""
        return f"{self.since_s}:{self.secret.hex()}"

    __repr__ = object.__repr__  # never shows the secret


def parse_root(text: str) -> Root:
    """Return the root in *text*.  Raises ValueError, whose message does not reveal *text*."""
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ValueError(EXPECTED)
    root = Root(int(found[1]), bytes.fromhex(found[2]))
    flaw = flaw_of_key(root.secret)
    if flaw is not None:
        raise ValueError(f"{EXPECTED}; {flaw}")
    return root


def rotated(roots: Iterable[Root], new: Root) -> Sequence[Root]:
    """Return *roots* and *new*, oldest first.

    Roots that were replaced KEPT_S seconds or longer before *new* begins to sign are left out.
    """
    found = sorted([*roots, new])
    return [
        root
        for root, newer in zip(found, [*found[1:], None], strict=True)
        if newer is None or newer.since_s > new.since_s - KEPT_S
    ]


def derived(root: bytes, purpose: str) -> bytes:
    """Return the key of 32 bytes that derives from *root* for *purpose*.

    Source    HKDF-SHA-256 (RFC 5869), without a salt: extract (section 2.2), then expand (2.3) to
              one block
    """
    # In place of a salt, the RFC uses zeros; 01 below is the number of the block.
    extracted = hmac.digest(bytes(ROOT_BYTES), root, "sha256")
    return hmac.digest(extracted, f"mintscope {purpose} 2".encode() + b"\x01", "sha256")


Credential = NewType("Credential", str)
CreditToken = NewType("CreditToken", Credential)
ApplicationSecret = NewType("ApplicationSecret", Credential)
ApiKey = NewType("ApiKey", Credential)
CredentialHash = NewType("CredentialHash", bytes)

CHECKSUM_LENGTH: Final = 8
PEPPER_BYTES_MIN: Final = 32


class CredentialKind(Enum):
    """The kinds of credentials; each value is (prefix, number of hex digits)."""

    CREDIT_TOKEN = ("svc_credit_", 64)
    APPLICATION_SECRET = ("svc_app_", 64)
    API_KEY = ("svc_live_", 80)

    @property
    def prefix(self) -> str:
        """The prefix of every credential of this kind."""
        return self.value[0]

    @property
    def entropy_bytes(self) -> int:
        """The number of random bytes in a credential; all digits but the checksum encode them."""
        return (self.value[1] - CHECKSUM_LENGTH) // 2


def make_credit_token(entropy: bytes) -> CreditToken:
    """Return the credit token made of *entropy*: 28 secret random bytes."""
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
    """Return the checksum of *credential*, which may be shown: the rest cannot be guessed."""
    return credential[-CHECKSUM_LENGTH:]


def hash_credential(credential: str, *, pepper: bytes) -> CredentialHash:
    """Return the only form of *credential* that may be stored: HMAC-SHA-256 under *pepper*."""
    # The pepper is not in the database, so someone who steals the database can neither test nor add
    # a credential.
    return CredentialHash(hmac.digest(pepper, credential.encode(), "sha256"))


def _make(kind: CredentialKind, entropy: bytes) -> Credential:
    assert len(entropy) == kind.entropy_bytes
    body = kind.prefix + entropy.hex()
    return Credential(body + _checksum(body))


def _checksum(body: str) -> str:
    return f"{zlib.crc32(body.encode()):0{CHECKSUM_LENGTH}x}"
