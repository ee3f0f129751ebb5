"""Verifies signed payment receipts: purchase, buyer, time and transaction.

Source    x402 v2, specs/extensions/offer-receipt.md; RFC 7515, RFC 8037; did:web
"""

from base64 import b64decode
from typing import Final

import httpx
import msgspec
from solders.pubkey import Pubkey
from solders.signature import Signature

from mintscope_client.decoding import Undecodable, decode_json
from mintscope_client.endpoints.receipts import DidDocument

RECEIPT_CHARACTERS_MAX: Final = 4_096
ALGORITHM: Final = "EdDSA"


class ForgedReceipt(ValueError):
    """The receipt is malformed, or is not from the service; the message has the reason."""


class ReceiptClaims(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The content of a signed payment receipt.

    network        the identifier of the network, CAIP-2
    resource_url   the URL of the purchased resource
    payer          the address of the wallet that paid
    issued_at      the time of the receipt, Unix seconds
    transaction    the signature of the payment's transaction, base58; None: the receipt has none
    """

    version: int
    network: str
    resource_url: str
    payer: str
    issued_at: int
    transaction: str | None = None


class _Header(msgspec.Struct, frozen=True):
    alg: str
    kid: str


_HEADER: Final = msgspec.json.Decoder(_Header)
_CLAIMS: Final = msgspec.json.Decoder(ReceiptClaims)


def check_receipt(receipt: str, document: DidDocument) -> ReceiptClaims:
    """Return the claims of *receipt* if the service that has the keys in *document* signed it.

    receipt     `Answered.receipt`, a JWS
    document    the result of `Client.receipt_keys`; store it to verify receipts for years
    Raises      ForgedReceipt
    """
    try:
        head, body, signature = receipt[:RECEIPT_CHARACTERS_MAX].split(".")
        header = decode_json(_plain(head), _HEADER)
        claims = decode_json(_plain(body), _CLAIMS)
        signed = Signature(_plain(signature))
        url = httpx.URL(claims.resource_url)
    except (ValueError, Undecodable, httpx.InvalidURL) as cause:
        raise ForgedReceipt("expected a JWS with the claims of a receipt") from cause
    if document.id != did_of(url):
        raise ForgedReceipt(f"expected a receipt of {document.id}; was of {did_of(url)}")
    key = document.key_of(header.kid) if header.alg == ALGORITHM else None
    if key is None:
        raise ForgedReceipt(f"expected a key of {document.id}; was {header.kid[:100]!r}")
    try:
        is_signed = signed.verify(Pubkey(_plain(key)), f"{head}.{body}".encode())
    except ValueError:  # the key does not have 32 bytes
        is_signed = False
    if not is_signed:
        raise ForgedReceipt("expected the signature of the service; was another one")
    return claims


def did_of(url: httpx.URL) -> str:
    """Return the did:web identifier of the service at *url*."""
    return f"did:web:{url.netloc.decode().replace(':', '%3A')}"


def _plain(text: str) -> bytes:
    return b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
