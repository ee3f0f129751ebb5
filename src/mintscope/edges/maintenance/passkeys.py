"""Passkeys as browsers speak of them (WebAuthn), by the library `webauthn`.

The library is loaded when the first passkey is asked for: it takes 70 ms and 14 MB, which most
processes never need.
"""

# ruff: noqa: PLC0415 - see above

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from mintscope.base.foreign import Undecodable, parsed_by_others
from mintscope.core.accounts.factors.passkeys import PasskeyOwner, PasskeyRefused
from mintscope.core.accounts.factors.rows import NewPasskey, Passkey

if TYPE_CHECKING:
    from webauthn.helpers.structs import PublicKeyCredentialDescriptor

ANSWER_LENGTH_MAX: Final = 20_000
TIMEOUT_MS: Final = 120_000
NOT_PROVEN: Final = "the passkey did not prove itself; try again, or use a code"


class WebAuthn:
    """Implements PasskeyVerifier for pages at *origins*, all of one host; *name* is shown.

    The maker of a device is not asked: a second factor need not name it.
    """

    def __init__(self, *, host: str, origins: Sequence[str], name: str) -> None:
        self._host = host
        self._origins = list(origins)
        self._name = name

    def registration(self, owner: PasskeyOwner, challenge: bytes, known: Sequence[Passkey]) -> str:
        """Return the question for a new passkey, on a device that holds none of *known*."""
        from webauthn import generate_registration_options, options_to_json
        from webauthn.helpers.structs import (
            AuthenticatorSelectionCriteria,
            ResidentKeyRequirement,
            UserVerificationRequirement,
        )

        options = generate_registration_options(
            rp_id=self._host,
            rp_name=self._name,
            user_id=owner.handle,
            user_name=owner.name,
            challenge=challenge,
            timeout=TIMEOUT_MS,
            exclude_credentials=_described(known),
            authenticator_selection=AuthenticatorSelectionCriteria(
                resident_key=ResidentKeyRequirement.DISCOURAGED,
                user_verification=UserVerificationRequirement.DISCOURAGED,
            ),
        )
        return options_to_json(options)

    def registered(self, answer: str, challenge: bytes, name: str) -> NewPasskey:
        """Return the passkey that *answer* brings.  Raises PasskeyRefused."""
        from webauthn import verify_registration_response

        credential = _expect_short(answer)
        with _proving():
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

    def authentication(self, challenge: bytes, known: Sequence[Passkey]) -> str:
        """Return the question for a proof by one of *known*."""
        from webauthn import generate_authentication_options, options_to_json
        from webauthn.helpers.structs import UserVerificationRequirement

        options = generate_authentication_options(
            rp_id=self._host,
            challenge=challenge,
            timeout=TIMEOUT_MS,
            allow_credentials=_described(known),
            user_verification=UserVerificationRequirement.DISCOURAGED,
        )
        return options_to_json(options)

    def credential_of(self, answer: str) -> bytes:
        """Return which credential *answer* claims to be of.  Raises PasskeyRefused."""
        from webauthn.helpers import parse_authentication_credential_json

        credential = _expect_short(answer)
        with _proving():
            return parse_authentication_credential_json(credential).raw_id

    def authenticated(self, answer: str, challenge: bytes, passkey: Passkey) -> int:
        """Return the new `sign_count` of *passkey*, which *answer* proves.

        Raises    PasskeyRefused, also for a count that went back: the passkey was copied
        """
        from webauthn import verify_authentication_response

        credential = _expect_short(answer)
        with _proving():
            verified = verify_authentication_response(
                credential=credential,
                expected_challenge=challenge,
                expected_rp_id=self._host,
                expected_origin=self._origins,
                credential_public_key=passkey.public_key,
                credential_current_sign_count=passkey.sign_count,
            )
        return verified.new_sign_count


@contextmanager
def _proving() -> Iterator[None]:
    """Refuse the passkey for whatever the library raises: its parsers read bytes of strangers."""
    try:
        with parsed_by_others():
            yield
    except Undecodable as cause:
        raise PasskeyRefused(NOT_PROVEN) from cause


def passkeys_at(origins: Iterable[str], name: str) -> WebAuthn | None:
    """Return what checks passkeys of pages at *origins*; None: all are addresses by number.

    A passkey belongs to the name of a host; of several, the first.
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
