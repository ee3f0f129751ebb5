"""An invalid passkey is refused; no exception of the WebAuthn library escapes."""

import json
from base64 import urlsafe_b64encode
from contextlib import suppress
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintscope.accounts.factor_rows import Passkey, PasskeyId, PasskeyRefused, passkeys_at
from mintscope.kit.audit import UserId
from mintscope.kit.primitives import UnixMs

ORIGIN = "https://mintscope.example"
CHALLENGE = b"c" * 32
PRESENT_AND_ATTESTED = 0x41
NO_MODULUS = bytes.fromhex("a30103033901002001")  # an RSA key (COSE) with the number 1 as modulus
EMPTY_POINT = bytes.fromhex("a5010203262001214022" + "40")  # P-256 with x and y of no bytes


def text(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def registration(cose_key: bytes) -> str:
    """Return the browser's answer for a new passkey with *cose_key*, without an attestation."""
    host = sha256(b"mintscope.example").digest()
    credential = b"i" * 16
    data = host + bytes([PRESENT_AND_ATTESTED]) + bytes(4)
    data += bytes(16) + len(credential).to_bytes(2) + credential + cose_key
    attestation = b"\xa3" + b"\x63fmt\x64none" + b"\x67attStmt\xa0"
    attestation += b"\x68authData\x59" + len(data).to_bytes(2) + data
    reported = {"type": "webauthn.create", "challenge": text(CHALLENGE), "origin": ORIGIN}
    return answer(
        clientDataJSON=text(json.dumps(reported).encode()), attestationObject=text(attestation)
    )


def answer(**response: str) -> str:
    return json.dumps(
        {"id": text(b"i" * 16), "rawId": text(b"i" * 16), "type": "public-key"}
        | {"response": response}
    )


PROOF = answer(
    clientDataJSON=text(
        json.dumps(
            {"type": "webauthn.get", "challenge": text(CHALLENGE), "origin": ORIGIN}
        ).encode()
    ),
    authenticatorData=text(sha256(b"mintscope.example").digest() + b"\x01" + bytes(4)),
    signature=text(b"s" * 64),
)


def refused(given: str, cose_key: bytes = EMPTY_POINT) -> None:
    """Expect that *given* is refused as a new passkey, or that later sign-ins with it are."""
    verifier = passkeys_at([ORIGIN], "mintscope")
    assert verifier is not None
    with suppress(PasskeyRefused):
        cose_key = verifier.registered(given, CHALLENGE, "phone").public_key
    kept = Passkey(
        passkey_id=PasskeyId(1),
        user_id=UserId(1),
        credential_id=b"i" * 16,
        public_key=cose_key,
        sign_count=0,
        name="phone",
        made_at=UnixMs(0),
        last_used_at=None,
    )
    for proof in (given, PROOF):
        with pytest.raises(PasskeyRefused):
            verifier.authenticated(proof, CHALLENGE, kept)


@pytest.mark.parametrize("cose_key", [b"", b"\xa0", b"\xff", NO_MODULUS, EMPTY_POINT, b"\x9f" * 60])
def test_a_malformed_public_key_is_refused(cose_key: bytes) -> None:
    refused(registration(cose_key), cose_key)


@given(st.binary(max_size=120))
def test_arbitrary_bytes_are_refused_as_a_public_key(cose_key: bytes) -> None:
    refused(registration(cose_key), cose_key)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda s: st.lists(s) | st.dictionaries(st.text(), s)
    )
)
def test_arbitrary_json_is_refused_as_an_answer(value: object) -> None:
    refused(json.dumps(value))
