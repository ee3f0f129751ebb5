"""Users, their second factors, and sign-ins that wait for a second factor.

Passkeys follow WebAuthn, with the library `webauthn`.  The library is loaded when a passkey is
first requested or checked, because it takes 70 ms and 14 MB, and most processes never need it.
"""

import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NewType, TypedDict
from urllib.parse import urlsplit

from mintscope.accounts.email_address import EmailAddress
from mintscope.kit.audit import UserId
from mintscope.kit.credentials import CredentialHash
from mintscope.kit.errors import Undecodable, parsed_by_others
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import MINUTE_MS

# ruff: noqa: PLC0415 - see above

if TYPE_CHECKING:
    from webauthn.helpers.structs import PublicKeyCredentialDescriptor

USERNAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{1,30}[a-z0-9]")
REMOVED: Final = "removed-"  # prefix of the user names of accounts that their owners have deleted
SUFFIX_BYTES: Final = 4


class UserKind(StrEnum):
    """Whether a user is a person or an agent."""

    PERSON = "person"
    AGENT = "agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A user of the service, and the user's account.

    email              the person's own address, or the address of the agent's application
    verified_at        the time when the user last proved to own that address; None: never
    has_second_factor  whether a sign-in needs a second factor besides the password
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
    """A user and the hash of the password: None for an agent, "" if no password is accepted."""

    user: User
    password_hash: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewUser:
    """The row of a new user; its fields are described at User and KeptUser."""

    kind: UserKind
    username: str
    email: EmailAddress
    verified_at: UnixMs | None = None
    password_hash: str | None = None
    created_at: UnixMs


class UserChanges(TypedDict, total=False):
    """The columns of a user that an update can change."""

    username: str
    email: EmailAddress
    verified_at: UnixMs
    password_hash: str
    administrator: bool
    removed_at: UnixMs


class UnusableName(ValueError):
    """A user name that is invalid or taken; the message is safe to show to the user."""


def expect_username(text: str) -> str:
    """Return *text* if it is a valid user name.  Raises UnusableName."""
    if not USERNAME.fullmatch(text) or text.startswith(REMOVED):
        raise UnusableName("expected 3 to 32 characters: a to z, 0 to 9, and hyphens between them")
    return text


def username_of(email: EmailAddress, entropy: Callable[[int], bytes]) -> str:
    """Return a user name: the part of *email* before + or @, a hyphen, and a random suffix.

    In that part, each character that is not ASCII alphanumeric becomes a hyphen.  Hyphens at both
    ends are removed, and only the first 23 characters are used.  An empty part becomes `agent`.
    """
    local = email.partition("@")[0].partition("+")[0]
    plain = "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in local)
    return f"{plain.strip('-')[:23] or 'agent'}-{entropy(SUFFIX_BYTES).hex()}"


AppId = NewType("AppId", int)
CodeId = NewType("CodeId", int)
PasskeyId = NewType("PasskeyId", int)
SignInId = NewType("SignInId", int)

WAIT_MS: Final = 10 * MINUTE_MS  # how long a sign-in waits for the second factor
PASSKEYS_MAX: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """An authenticator app of a user; its secret derives from *nonce*.

    made_at        the time when the app was confirmed; until then, when its secret was created
    confirmed_at   the time when the first valid code was entered; None: the app is not a factor yet
    last_step      the number of the 30-second step of the last accepted code; -1: no code yet
    """

    app_id: AppId
    user_id: UserId
    nonce: bytes
    made_at: UnixMs
    confirmed_at: UnixMs | None
    last_step: int


class AppChanges(TypedDict, total=False):
    """The columns of an app that an update can change."""

    made_at: UnixMs
    confirmed_at: UnixMs
    last_step: int


@dataclass(frozen=True, slots=True)
class RecoveryCode:
    """The hash of a recovery code; the code can replace the second factor of one sign-in."""

    code_id: CodeId
    code_hash: CredentialHash


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPasskey:
    """A passkey to store; *public_key* is in COSE form, *sign_count* counts its signatures."""

    credential_id: bytes
    public_key: bytes
    sign_count: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Passkey(NewPasskey):
    """A stored passkey of a user."""

    passkey_id: PasskeyId
    user_id: UserId
    made_at: UnixMs
    last_used_at: UnixMs | None


class PasskeyChanges(TypedDict, total=False):
    """The columns of a passkey that an update can change."""

    sign_count: int
    last_used_at: UnixMs


@dataclass(frozen=True, slots=True)
class HalfSignIn:
    """A sign-in with the correct password; it waits for the second factor."""

    sign_in_id: SignInId
    user_id: UserId
    begun_at: UnixMs

    def is_good(self, now: UnixMs) -> bool:
        """Return whether the sign-in is still waiting at *now*."""
        return now - self.begun_at < WAIT_MS


NAME_LENGTH_MAX: Final = 64


class PasskeyRefused(Exception):
    """The passkey or the browser's answer is not accepted; the message is safe to show."""


@dataclass(frozen=True, slots=True)
class PasskeyProof:
    """A valid signature by a passkey.

    sign_count   the device's count of signatures by this passkey; 0: the device does not count them
    is_verified  whether the device has verified its user by a PIN, a fingerprint or a face
    handle       the user handle that the device stores with the passkey; None: the device sent none
    """

    sign_count: int
    is_verified: bool
    handle: bytes | None

    def is_of_copy(self, passkey: Passkey) -> bool:
        """Return whether *passkey* was probably copied: its count of signatures did not rise.

        If the device does not count signatures, return False.
        """
        counts = self.sign_count > 0 or passkey.sign_count > 0
        return counts and self.sign_count <= passkey.sign_count


ANSWER_LENGTH_MAX: Final = 20_000
TIMEOUT_MS: Final = 120_000  # the time that the browser gives the person and the device
NOT_PROVEN: Final = "the passkey did not prove itself; try again, or use a code"


class WebAuthn:
    """Creates WebAuthn requests for browsers, and checks the responses, as JSON texts.

    Methods take *challenge*, the bytes that the device must sign.

    host      the host name to which the passkeys belong
    origins   the origins of the pages that may use these passkeys
    name      the name of this service, which the device shows
    """

    def __init__(self, *, host: str, origins: Sequence[str], name: str) -> None:
        self._host = host
        self._origins = list(origins)
        self._name = name

    def registration(
        self, handle: bytes, name: str, challenge: bytes, known: Sequence[Passkey]
    ) -> str:
        """Return a request for a new passkey, on a device that has none of the passkeys *known*.

        *handle* identifies the owner of the passkey, and the device shows *name*.
        """
        from webauthn import generate_registration_options, options_to_json
        from webauthn.helpers.structs import (
            AuthenticatorSelectionCriteria,
            ResidentKeyRequirement,
            UserVerificationRequirement,
        )

        options = generate_registration_options(
            rp_id=self._host,
            rp_name=self._name,
            user_id=handle,
            user_name=name,
            challenge=challenge,
            timeout=TIMEOUT_MS,
            exclude_credentials=_described(known),
            authenticator_selection=AuthenticatorSelectionCriteria(
                # If the device supports both, the passkey alone suffices to sign in.
                resident_key=ResidentKeyRequirement.PREFERRED,
                user_verification=UserVerificationRequirement.PREFERRED,
            ),
        )
        return options_to_json(options)

    def registered(self, answer: str, challenge: bytes, name: str) -> NewPasskey:
        """Return the new passkey *name* from the response *answer*.  Raises PasskeyRefused."""
        from webauthn import verify_registration_response

        credential = _expect_short(answer)
        with _proving():
            # A device that cannot verify its user is accepted: its passkey is only a second factor.
            verified = verify_registration_response(
                credential=credential,
                expected_challenge=challenge,
                expected_rp_id=self._host,
                expected_origin=self._origins,
            )
        return NewPasskey(
            credential_id=verified.credential_id,
            public_key=verified.credential_public_key,
            sign_count=verified.sign_count,
            name=name,
        )

    def authentication(
        self, challenge: bytes, known: Sequence[Passkey], *, is_alone: bool = False
    ) -> str:
        """Return a request for a signature by one of the passkeys *known*.

        is_alone    whether the passkey replaces the password; the device must then verify its user
        """
        from webauthn import generate_authentication_options, options_to_json
        from webauthn.helpers.structs import UserVerificationRequirement

        options = generate_authentication_options(
            rp_id=self._host,
            challenge=challenge,
            timeout=TIMEOUT_MS,
            allow_credentials=_described(known),
            # A second factor needs no PIN, because the password was already checked.
            user_verification=UserVerificationRequirement.REQUIRED
            if is_alone
            else UserVerificationRequirement.DISCOURAGED,
        )
        return options_to_json(options)

    def authentication_by_any(self, challenge: bytes) -> str:
        """Return a request for a signature by any passkey whose device verifies its user."""
        # This does not use the library, so that the pages for visitors do not load it.
        request = {
            "challenge": urlsafe_b64encode(challenge).decode().rstrip("="),
            "timeout": TIMEOUT_MS,
            "rpId": self._host,
            "allowCredentials": [],
            "userVerification": "required",
        }
        return json.dumps(request)

    def credential_of(self, answer: str) -> bytes:
        """Return the id of the credential that *answer* claims to be from.

        The signature is not checked.  Raises PasskeyRefused if *answer* is too long or malformed.
        """
        from webauthn.helpers import parse_authentication_credential_json

        credential = _expect_short(answer)
        with _proving():
            return parse_authentication_credential_json(credential).raw_id

    def authenticated(self, answer: str, challenge: bytes, passkey: Passkey) -> PasskeyProof:
        """Return the verified signature of *passkey* in *answer*.  Raises PasskeyRefused.

        Counts of signatures are not compared here: the library would compare them before it
        verifies the signature, so anyone could make a stranger's passkey look like a copy.
        """
        from webauthn import verify_authentication_response
        from webauthn.helpers import parse_authentication_credential_json

        text = _expect_short(answer)
        with _proving():
            credential = parse_authentication_credential_json(text)
            verified = verify_authentication_response(
                credential=credential,
                expected_challenge=challenge,
                expected_rp_id=self._host,
                expected_origin=self._origins,
                credential_public_key=passkey.public_key,
                credential_current_sign_count=0,
            )
        handle = credential.response.user_handle
        return PasskeyProof(verified.new_sign_count, verified.user_verified, handle)


@contextmanager
def _proving() -> Iterator[None]:
    """Convert every error of the WebAuthn library in the block to PasskeyRefused."""
    try:
        with parsed_by_others():
            yield
    except Undecodable as cause:
        raise PasskeyRefused(NOT_PROVEN) from cause


def passkeys_at(origins: Iterable[str], name: str) -> WebAuthn | None:
    """Return a WebAuthn for pages at *origins*; None if the host of every origin is an IP address.

    A passkey belongs to one host name: that of the first origin whose host is not an IP address.
    Only the origins with this host name can use passkeys.
    """
    named = [origin for origin in origins if _is_named(urlsplit(origin).hostname or "")]
    if not named:
        return None
    host = urlsplit(named[0]).hostname or ""
    own = [origin for origin in named if urlsplit(origin).hostname == host]
    return WebAuthn(host=host, origins=own, name=name)


def _is_named(host: str) -> bool:
    return bool(host) and ":" not in host and not host.replace(".", "").isdigit()


def _described(known: Sequence[Passkey]) -> "list[PublicKeyCredentialDescriptor]":
    from webauthn.helpers.structs import PublicKeyCredentialDescriptor

    return [PublicKeyCredentialDescriptor(id=passkey.credential_id) for passkey in known]


def _expect_short(answer: str) -> str:
    if len(answer) > ANSWER_LENGTH_MAX:
        raise PasskeyRefused(f"expected at most {ANSWER_LENGTH_MAX} characters")
    return answer
