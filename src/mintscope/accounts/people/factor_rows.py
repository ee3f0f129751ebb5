"""Ports of second factors: their rows, and the check of a passkey.

Rows of second factors, and of sign-ins that wait for one.

Users: people, who sign in with a password, and agents, who only hold an API key.

Passkeys: the port that checks what a browser says of one (WebAuthn).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NewType, Protocol, TypedDict, Unpack

from mintscope.accounts.people.email_address import EmailAddress
from mintscope.kit.audit import UserId
from mintscope.kit.credentials import CredentialHash
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import MINUTE_MS

USERNAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{1,30}[a-z0-9]")
REMOVED: Final = "removed-"  # what names of accounts begin with that were removed
SUFFIX_BYTES: Final = 4


class UserKind(StrEnum):
    """The kind of user."""

    PERSON = "person"
    AGENT = "agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """An account.

    email              a person's own; an agent's is that of its application
    verified_at        when its owner last proved to read that address; None: never
    has_second_factor  signing in takes more than the password
    """

    user_id: UserId
    kind: UserKind
    username: str
    email: EmailAddress
    verified_at: UnixMs | None
    is_administrator: bool
    created_at: UnixMs
    has_second_factor: bool = False


@dataclass(frozen=True, slots=True)
class KeptUser:
    """A user and the hash of the password; an agent has none."""

    user: User
    password_hash: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewUser:
    """The row of a new user; fields as in User and KeptUser."""

    kind: UserKind
    username: str
    email: EmailAddress
    verified_at: UnixMs | None = None
    password_hash: str | None = None
    created_at: UnixMs


class UserChanges(TypedDict, total=False):
    """The columns of a user that may change."""

    username: str
    email: EmailAddress
    verified_at: UnixMs
    password_hash: str
    administrator: bool
    removed_at: UnixMs


class UserRows(Protocol):
    """Users inside one transaction; a removed user is never returned."""

    def get(self, user_id: UserId, /) -> KeptUser | None:
        """Return one user."""

    def of_email(self, email: EmailAddress, kind: UserKind) -> Sequence[KeptUser]:
        """Return the users of *kind* with that address, newest first; at most one person."""

    def newest(self, before: UserId | None, limit: int) -> Sequence[User]:
        """Return up to *limit* users, newest first, that are older than *before*."""

    def administrators(self) -> Sequence[UserId]:
        """Return every administrator."""

    def insert(self, new: NewUser) -> UserId:
        """Add a user."""

    def hand_over(self, giver: UserId, taker: UserId) -> None:
        """Give every key and every application of *giver* to *taker*."""

    def update(self, user_id: UserId, /, **changes: Unpack[UserChanges]) -> None:
        """Change columns of a user."""


class NameRows(Protocol):
    """User names of all accounts, including removed ones, inside one transaction."""

    def is_taken(self, username: str) -> bool:
        """Return whether an account has that name, or had it before its removal."""


class UnusableName(ValueError):
    """A user name that is not allowed or is taken; the message may be shown."""


def expect_username(text: str) -> str:
    """Return *text* if it is a valid user name.  Raises UnusableName."""
    if not USERNAME.fullmatch(text) or text.startswith(REMOVED):
        raise UnusableName("expected 3 to 32 characters: a to z, 0 to 9, and hyphens between them")
    return text


def find_person(users: UserRows, email: EmailAddress) -> KeptUser | None:
    """Return the person of that address."""
    return next(iter(users.of_email(email, UserKind.PERSON)), None)


def username_of(email: EmailAddress, entropy: Callable[[int], bytes]) -> str:
    """Return a user name: the part before the @ in plain characters, and a random suffix."""
    local = email.partition("@")[0].partition("+")[0]
    plain = "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in local)
    return f"{plain.strip('-')[:24] or 'agent'}-{entropy(SUFFIX_BYTES).hex()}"


AppId = NewType("AppId", int)
CodeId = NewType("CodeId", int)
PasskeyId = NewType("PasskeyId", int)
SignInId = NewType("SignInId", int)

WAIT_MS: Final = 10 * MINUTE_MS  # for the second factor, once the password was right
PASSKEYS_MAX: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """An authenticator app of a user; its secret derives from *nonce*.

    confirmed_at   when it first gave a right code; None: it is no factor yet
    last_step      the step whose code was accepted last
    """

    app_id: AppId
    user_id: UserId
    nonce: bytes
    made_at: UnixMs
    confirmed_at: UnixMs | None
    last_step: int


class AppChanges(TypedDict, total=False):
    """The columns of an app that may change."""

    confirmed_at: UnixMs
    last_step: int


class AppRows(Protocol):
    """Authenticator apps inside one transaction, at most one per user."""

    def of_user(self, user_id: UserId) -> App | None:
        """Return the app of a user, confirmed or not."""

    def replace(self, user_id: UserId, nonce: bytes, at: UnixMs) -> AppId:
        """Replace the user's app with a new, unconfirmed one."""

    def update(self, app_id: AppId, /, **changes: Unpack[AppChanges]) -> None:
        """Change columns of an app."""

    def delete(self, user_id: UserId, since: UnixMs) -> None:
        """Delete the app of a user if it was made at *since* or later."""


@dataclass(frozen=True, slots=True)
class RecoveryCode:
    """The hash of a recovery code, which replaces a factor once."""

    code_id: CodeId
    code_hash: CredentialHash


class RecoveryRows(Protocol):
    """Recovery codes inside one transaction."""

    def unused(self, user_id: UserId) -> Sequence[RecoveryCode]:
        """Return the codes of a user that were not used."""

    def replace(self, user_id: UserId, hashes: Sequence[CredentialHash], at: UnixMs) -> None:
        """Replace the user's recovery codes with these."""

    def use(self, code_id: CodeId) -> None:
        """Delete a code."""

    def delete(self, user_id: UserId, since: UnixMs) -> None:
        """Delete the codes of a user that were made at *since* or later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPasskey:
    """A passkey to be stored, with its COSE *public_key* and the device's *sign_count*."""

    credential_id: bytes
    public_key: bytes
    sign_count: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Passkey:
    """A passkey of a user; fields as in NewPasskey."""

    passkey_id: PasskeyId
    user_id: UserId
    credential_id: bytes
    public_key: bytes
    sign_count: int
    name: str
    made_at: UnixMs
    last_used_at: UnixMs | None


class PasskeyChanges(TypedDict, total=False):
    """The columns of a passkey that may change."""

    sign_count: int
    last_used_at: UnixMs


class PasskeyRows(Protocol):
    """Passkeys inside one transaction."""

    def of_user(self, user_id: UserId) -> Sequence[Passkey]:
        """Return the passkeys of a user, oldest first."""

    def find(self, credential_id: bytes) -> Passkey | None:
        """Return the passkey of that credential."""

    def insert(self, user_id: UserId, new: NewPasskey, at: UnixMs) -> PasskeyId:
        """Add a passkey, whose credential must be new."""

    def update(self, passkey_id: PasskeyId, /, **changes: Unpack[PasskeyChanges]) -> None:
        """Change columns of a passkey."""

    def delete(self, user_id: UserId, since: UnixMs) -> None:
        """Delete the passkeys of a user that were made at *since* or later."""

    def remove(self, passkey_id: PasskeyId) -> None:
        """Delete one passkey."""


@dataclass(frozen=True, slots=True)
class HalfSignIn:
    """A sign-in whose password was right; it waits for the second factor."""

    sign_in_id: SignInId
    user_id: UserId
    begun_at: UnixMs

    def is_good(self, now: UnixMs) -> bool:
        """Return whether the sign-in is still waiting at *now*."""
        return now - self.begun_at < WAIT_MS


class SignInRows(Protocol):
    """Sign-ins that wait for a second factor, inside one transaction."""

    def find(self, ticket_hash: CredentialHash) -> HalfSignIn | None:
        """Return the sign-in with that ticket, expired or not."""

    def insert(self, user_id: UserId, ticket_hash: CredentialHash, at: UnixMs) -> SignInId:
        """Add a sign-in that waits from *at* on."""

    def delete(self, sign_in_id: SignInId) -> bool:
        """Delete a sign-in; return whether it existed."""

    def end(self, user_id: UserId) -> None:
        """Delete every sign-in of a user."""

    def purge(self, begun_before: UnixMs) -> None:
        """Delete sign-ins that began before *begun_before*."""


NAME_LENGTH_MAX: Final = 64


class PasskeyRefused(Exception):
    """The browser sent no passkey, or one that may not be used here; the message may be shown."""


@dataclass(frozen=True, slots=True)
class PasskeyOwner:
    """The owner of a new passkey; the device stores *handle* instead of a name."""

    handle: bytes
    name: str


@dataclass(frozen=True, slots=True)
class PasskeyProof:
    """The right signature of a passkey.

    sign_count   how often the device has signed with it; 0: the device does not count
    is_verified  the device has verified its user, by a PIN, a finger or a face
    handle       the user handle that the device stores with the passkey; None: it sent none
    """

    sign_count: int
    is_verified: bool
    handle: bytes | None

    def is_of_copy(self, passkey: Passkey) -> bool:
        """Return whether *passkey* has signed as often before: then two devices hold it."""
        counts = self.sign_count > 0 or passkey.sign_count > 0
        return counts and self.sign_count <= passkey.sign_count


class PasskeyVerifier(Protocol):
    """Creates passkey requests for browsers, and checks the responses; both are JSON.

    *challenge* is what the device signs.
    """

    def registration(self, owner: PasskeyOwner, challenge: bytes, known: Sequence[Passkey]) -> str:
        """Return the request for a new passkey, on a device that holds none of *known*."""

    def registered(self, answer: str, challenge: bytes, name: str) -> NewPasskey:
        """Return the passkey in *answer*.  Raises PasskeyRefused."""

    def authentication(self, challenge: bytes, known: Sequence[Passkey]) -> str:
        """Return the request for a signature by one of *known*."""

    def authentication_by_any(self, challenge: bytes) -> str:
        """Return the request for a signature by any passkey of this site, with its user verified.

        The device shows which accounts it holds a passkey of.
        """

    def credential_of(self, answer: str) -> bytes:
        """Return the id of the credential that *answer* claims to come from.

        Raises PasskeyRefused.
        """

    def authenticated(self, answer: str, challenge: bytes, passkey: Passkey) -> PasskeyProof:
        """Verify the signature in *answer* by *passkey*; its count is not compared.

        Raises PasskeyRefused.
        """
