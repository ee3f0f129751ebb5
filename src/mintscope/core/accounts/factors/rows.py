"""Rows of second factors, and of sign-ins that wait for one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NewType, Protocol, TypedDict, Unpack

from mintscope.base.credentials import CredentialHash
from mintscope.base.primitives import UnixMs
from mintscope.base.time import MINUTE_MS
from mintscope.core.accounts.user import UserId

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
    """Authenticator apps inside one transaction: one of a user at most."""

    def of_user(self, user_id: UserId) -> App | None:
        """Return the app of a user, confirmed or not."""

    def replace(self, user_id: UserId, nonce: bytes, at: UnixMs) -> AppId:
        """Let the user have another app, not confirmed yet."""

    def update(self, app_id: AppId, /, **changes: Unpack[AppChanges]) -> None:
        """Change columns of an app."""

    def delete(self, user_id: UserId, since: UnixMs) -> None:
        """Delete the app of a user if it was made at *since* or later."""


@dataclass(frozen=True, slots=True)
class RecoveryCode:
    """A code that replaces a factor once, as its hash."""

    code_id: CodeId
    code_hash: CredentialHash


class RecoveryRows(Protocol):
    """Recovery codes inside one transaction."""

    def unused(self, user_id: UserId) -> Sequence[RecoveryCode]:
        """Return the codes of a user that were not used."""

    def replace(self, user_id: UserId, hashes: Sequence[CredentialHash], at: UnixMs) -> None:
        """Let the user have these codes alone."""

    def use(self, code_id: CodeId) -> None:
        """Delete a code."""

    def delete(self, user_id: UserId, since: UnixMs) -> None:
        """Delete the codes of a user that were made at *since* or later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPasskey:
    """A passkey about to be kept; *public_key* is a COSE key, *sign_count* of its maker."""

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
        """Add a passkey, whose credential no user has."""

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
        """Say whether it still waits."""
        return now - self.begun_at < WAIT_MS


class SignInRows(Protocol):
    """Sign-ins that wait for a second factor, inside one transaction."""

    def find(self, ticket_hash: CredentialHash) -> HalfSignIn | None:
        """Return the sign-in of that ticket, good or not."""

    def insert(self, user_id: UserId, ticket_hash: CredentialHash, at: UnixMs) -> SignInId:
        """Add a sign-in that begins to wait at *at*."""

    def delete(self, sign_in_id: SignInId) -> bool:
        """Delete a sign-in; say whether it was there."""

    def end(self, user_id: UserId) -> None:
        """Delete every sign-in of a user."""

    def purge(self, begun_before: UnixMs) -> None:
        """Delete sign-ins that began before then."""
