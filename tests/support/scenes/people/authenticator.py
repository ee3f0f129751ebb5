"""A device with passkeys, written from WebAuthn Level 3, with ES256 keys and its own CBOR."""

import json
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.hashes import SHA256

PRESENT, VERIFIED, ATTESTED = 0x01, 0x04, 0x40


def text_of(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def bytes_of(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


@dataclass
class HeldPasskey:
    """A passkey as its device stores it."""

    credential_id: bytes
    private_key: EllipticCurvePrivateKey
    handle: bytes
    count: int = 0


@dataclass
class Authenticator:
    """A device, and the browser that uses it at *origin*.

    verifies   whether the device verifies its user, by a PIN or fingerprint
    """

    host: str
    origin: str
    verifies: bool = True
    held: list[HeldPasskey] = field(default_factory=list)

    def create(self, question: str) -> str:
        """Answer `navigator.credentials.create`."""
        asked = json.loads(question)
        assert asked["rp"]["id"] == self.host
        passkey = HeldPasskey(
            os.urandom(16), generate_private_key(SECP256R1()), bytes_of(asked["user"]["id"])
        )
        self.held.append(passkey)
        numbers = passkey.private_key.public_key().public_numbers()
        x, y = (number.to_bytes(32) for number in (numbers.x, numbers.y))
        cose = b"\xa5\x01\x02\x03\x26\x20\x01\x21\x58\x20" + x + b"\x22\x58\x20" + y
        data = self._data(0, ATTESTED) + bytes(16)
        data += len(passkey.credential_id).to_bytes(2) + passkey.credential_id + cose
        attestation = b"\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData"
        attestation += b"\x58" + len(data).to_bytes(1) + data
        seen = self._seen("webauthn.create", asked)
        return _answer(passkey, clientDataJSON=seen, attestationObject=attestation)

    def sign(self, question: str, **changes: Any) -> str:
        """Answer `navigator.credentials.get` with the newest passkey that *question* allows.

        changes   values of `challenge` or `origin` to send in place of the true ones
        """
        asked = json.loads(question)
        assert asked["rpId"] == self.host
        wanted = {bytes_of(each["id"]) for each in asked["allowCredentials"]}
        fitting = [each for each in self.held if not wanted or each.credential_id in wanted]
        passkey = fitting[-1]
        passkey.count += 1
        data = self._data(passkey.count)
        seen = self._seen("webauthn.get", asked | changes)
        signed = passkey.private_key.sign(data + sha256(seen).digest(), ECDSA(SHA256()))
        return _answer(
            passkey,
            clientDataJSON=seen,
            authenticatorData=data,
            signature=signed,
            userHandle=passkey.handle,
        )

    def _data(self, count: int, flags: int = 0) -> bytes:
        flags |= PRESENT | (VERIFIED if self.verifies else 0)
        return sha256(self.host.encode()).digest() + bytes([flags]) + count.to_bytes(4)

    def _seen(self, kind: str, asked: dict[str, Any]) -> bytes:
        origin = asked.get("origin", self.origin)
        seen = {"type": kind, "challenge": asked["challenge"], "origin": origin}
        return json.dumps(seen | {"crossOrigin": False}).encode()


def _answer(passkey: HeldPasskey, **response: bytes) -> str:
    name = text_of(passkey.credential_id)
    parts = {key: text_of(data) for key, data in response.items()}
    return json.dumps(
        {"id": name, "rawId": name, "type": "public-key", "response": parts}
        | {"clientExtensionResults": {}}
    )
