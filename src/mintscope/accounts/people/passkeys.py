"""Slow checks in separate threads: passkeys and password hashes.

Passkeys as browsers speak of them (WebAuthn), by the library `webauthn`.

The library is loaded when the first passkey is asked for: it takes 70 ms and 14 MB, which most
processes never need.

Hashing passwords with argon2id.

The parameters are those that OWASP recommends as the least: 19 MiB, two passes, one lane.  A
hash takes some 30 ms of one core, so at most two are made at a time, in threads of a low
priority, and not more than a few dozen wait: a flood of sign-ins slows down sign-in, and nothing
else.
"""

import asyncio
import ctypes
import json
import os
import sys
import threading
import unicodedata
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError

from mintscope.accounts.people.factor_rows import (
    NewPasskey,
    Passkey,
    PasskeyOwner,
    PasskeyProof,
    PasskeyRefused,
)
from mintscope.kit.errors import ServiceUnavailable, Undecodable, parsed_by_others

# ruff: noqa: PLC0415 - see above


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
        """Return the request for a new passkey, on a device that holds none of *known*."""
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
                # Preferred: with both it signs in alone; without, it is a second factor.
                resident_key=ResidentKeyRequirement.PREFERRED,
                user_verification=UserVerificationRequirement.PREFERRED,
            ),
        )
        return options_to_json(options)

    def registered(self, answer: str, challenge: bytes, name: str) -> NewPasskey:
        """Return the passkey in *answer*.  Raises PasskeyRefused."""
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
        """Return the request for a signature by one of *known*."""
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

    def authentication_by_any(self, challenge: bytes) -> str:
        """Return the request for a signature by any passkey of this site, with its user verified.

        Made without the library, which a page that strangers open need not load.
        """
        request = {
            "challenge": urlsafe_b64encode(challenge).decode().rstrip("="),
            "timeout": TIMEOUT_MS,
            "rpId": self._host,
            "allowCredentials": [],
            "userVerification": "required",
        }
        return json.dumps(request)

    def credential_of(self, answer: str) -> bytes:
        """Return the id of the credential that *answer* claims to come from.

        Raises PasskeyRefused.
        """
        from webauthn.helpers import parse_authentication_credential_json

        credential = _expect_short(answer)
        with _proving():
            return parse_authentication_credential_json(credential).raw_id

    def authenticated(self, answer: str, challenge: bytes, passkey: Passkey) -> PasskeyProof:
        """Verify the signature in *answer* by *passkey*; its count is not compared.

        The library compares counts before it verifies the signature, so that anyone could have a
        passkey taken for copied.
        Raises PasskeyRefused.
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
    """Raise PasskeyRefused for any error of the library, which parses untrusted bytes."""
    try:
        with parsed_by_others():
            yield
    except Undecodable as cause:
        raise PasskeyRefused(NOT_PROVEN) from cause


def passkeys_at(origins: Iterable[str], name: str) -> WebAuthn | None:
    """Return a verifier of passkeys for pages at *origins*; None if all are IP addresses.

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


T = TypeVar("T")

THREADS: Final = 2
WAITING_MAX: Final = 64
NICE: Final = 10
M_MMAP_THRESHOLD: Final = -3  # <malloc.h> of glibc
MMAP_BYTES_MIN: Final = 1024 * 1024
ARGON2: Final = PasswordHasher(
    time_cost=2, memory_cost=19 * 1024, parallelism=1, hash_len=32, salt_len=16, type=Type.ID
)


class Argon2Hasher:
    """Implements Hasher; raises ServiceUnavailable beyond *waiting_max* calls at once."""

    def __init__(self, *, waiting_max: int = WAITING_MAX) -> None:
        _hash_of_no_password()  # now, so that the first comparison takes no longer than others
        _give_memory_back()
        self._threads = ThreadPoolExecutor(
            THREADS, thread_name_prefix="argon2", initializer=_lower_priority
        )
        self._places = BoundedSemaphore(waiting_max)

    async def hash(self, password: str) -> str:
        """Return the hash of *password*, for storage."""
        return await self._run(lambda: ARGON2.hash(_one_form(password)))

    async def matches(self, password: str, stored: str | None) -> bool:
        """Return whether *stored* is a hash of *password*; for None, False in the same time."""
        return await self._run(lambda: self._verify(password, stored))

    def close(self) -> None:
        """Stop the threads; passwords that still wait are not hashed."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _verify(self, password: str, stored: str | None) -> bool:
        try:
            ARGON2.verify(stored or _hash_of_no_password(), _one_form(password))
        except (VerificationError, InvalidHashError):
            return False
        return stored is not None

    async def _run(self, work: Callable[[], T]) -> T:
        if not self._places.acquire(blocking=False):
            raise ServiceUnavailable("Too many people are signing in right now; try again soon.")
        future = self._threads.submit(work)
        future.add_done_callback(lambda _: self._places.release())  # not when its client leaves
        return await asyncio.wrap_future(future)


def _lower_priority() -> None:
    """Lower the priority of this thread below the event loop's, which only Linux supports."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


def _give_memory_back() -> None:
    """Make glibc release a hash's memory, instead of keeping 19 MiB for each thread."""
    with suppress(OSError, AttributeError):  # other C libraries do so themselves
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, MMAP_BYTES_MIN)


@cache
def _hash_of_no_password() -> str:
    """Return the hash of a random password, so that a check without a user takes as long."""
    return ARGON2.hash(os.urandom(16))


def _one_form(password: str) -> str:
    """Return the password in NFC, the same from every keyboard (RFC 8265, 4.2)."""
    return unicodedata.normalize("NFC", password)
