"""Signed receipts, which show third parties who paid for what.

A receipt is a JWS of EdDSA.  `kid` names its key in the DID document of the origin that sold.
The same payment gives the same receipt again, byte for byte.

Source    x402 v2, specs/extensions/extension-offer-and-receipt.md; did:web; RFC 7515, RFC 8037
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec
from solders.keypair import Keypair

from mintscope.core.payments.payment import Payment

OFFER_RECEIPT: Final = "offer-receipt"
RECEIPT_VERSION: Final = 1
_KEY_NAME_LENGTH: Final = 16
_SCHEMA: Final = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "receipt": {
            "type": "object",
            "properties": {"format": {"const": "jws"}, "signature": {"type": "string"}},
            "required": ["format", "signature"],
        }
    },
    "required": ["receipt"],
}


def did_of(origin: str) -> str:
    """Return the DID of the service at *origin*, as in `https://api.example`."""
    return f"did:web:{quote(urlsplit(origin).netloc, safe='')}"


def public_key(seed: bytes) -> bytes:
    """Return the public key of *seed*, both 32 bytes."""
    return bytes(Keypair.from_seed(seed).pubkey())


def sign_receipt(seed: bytes, payment: Payment, *, origin: str, network: str) -> str:
    """Return the receipt of *payment*, which has settled, as a compact JWS.

    seed       32 bytes, the private key
    network    CAIP-2
    """
    key = Keypair.from_seed(seed)
    head = {"alg": "EdDSA", "kid": _key_id(did_of(origin), bytes(key.pubkey()))}
    claims = {
        "issuedAt": payment.begun_at // 1000,
        "network": network,
        "payer": payment.payer,
        "resourceUrl": origin + payment.resource,
        "transaction": payment.signature,
        "version": RECEIPT_VERSION,
    }
    # Sorted and without spaces: the form that RFC 8785 has for these values.
    signed = f"{_base64(msgspec.json.encode(head))}.{_base64(_canonical(claims))}"
    return f"{signed}.{_base64(bytes(key.sign_message(signed.encode())))}"


def receipt_extension(receipt: str) -> dict[str, Any]:
    """Return *receipt* as an extension of a settlement response."""
    info = {"receipt": {"format": "jws", "signature": receipt}}
    return {OFFER_RECEIPT: {"info": info, "schema": _SCHEMA}}


def did_document(origin: str, public_keys: Iterable[bytes]) -> dict[str, Any]:
    """Return the DID document of *origin*, which names *public_keys*, 32 bytes each.

    Source    DID Core 1.0, JsonWebKey
    """
    did = did_of(origin)
    methods = [
        {
            "id": _key_id(did, each),
            "type": "JsonWebKey",
            "controller": did,
            "publicKeyJwk": {"kty": "OKP", "crv": "Ed25519", "x": _base64(each)},
        }
        for each in public_keys
    ]
    return {
        "@context": ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/jwk/v1"],
        "id": did,
        "verificationMethod": methods,
        "assertionMethod": [each["id"] for each in methods],
    }


def _key_id(did: str, public: bytes) -> str:
    return f"{did}#{sha256(public).hexdigest()[:_KEY_NAME_LENGTH]}"


def _canonical(claims: dict[str, Any]) -> bytes:
    return msgspec.json.encode(claims, order="deterministic")


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
