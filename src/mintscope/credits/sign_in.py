"""Sign-in with a wallet to spend the credits that the wallet bought.

A 402 response contains a challenge: a nonce that only the service can make, for one resource and a
limited time.  The wallet signs the text of the challenge, as in Sign-In With Solana.  The service
stores no challenges, only hashes of the nonces that took credits, so that a nonce cannot take
credits twice.

Source    x402 v2, specs/extensions/sign-in-with-x.md; CAIP-122
"""

import hmac
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from enum import Enum, StrEnum, auto
from functools import partial
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from solders.pubkey import Pubkey
from solders.signature import Signature as Ed25519

from mintscope.kit.errors import Undecodable, decode_base64, decode_json, parsed_by_others
from mintscope.kit.primitives import UnixMs, Wallet
from mintscope.kit.time import iso_time

SIGN_IN: Final = "sign-in-with-x"
VALID_S: Final = 300
AHEAD_S: Final = 60  # the clock of the replica that wrote a challenge may be this far ahead
DRAWN_BYTES: Final = 8  # the first half of a nonce is random, the second half is a MAC
HEADER_BYTES_MAX: Final = 4 * 1024
STATEMENT: Final = "Spend credits of this wallet"
VERSION: Final = "1"
TYPE: Final = "ed25519"
_SCHEMA: Final = {"type": "object"}


class SignIn(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The content of the header SIGN-IN-WITH-X: the challenge, the wallet and its signature."""

    domain: str
    address: str
    uri: str
    version: str
    chain_id: str
    type: str
    nonce: str
    issued_at: str
    signature: str
    statement: str | None = None
    expiration_time: str | None = None
    not_before: str | None = None
    request_id: str | None = None
    resources: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """The name of the one answer that this sign-in buys: a hash of its nonce."""
        return sha256(f"sign-in\n{self.nonce}".encode()).hexdigest()


class SignInFlaw(StrEnum):
    """A reason to refuse a sign-in; the values are error codes of the x402 sign-in extension."""

    DOMAIN = "invalid_siwx_domain_mismatch"
    URI = "invalid_siwx_uri_mismatch"
    CHAIN = "invalid_siwx_unsupported_chain"
    TOO_OLD = "invalid_siwx_issued_at_too_old"
    NONCE = "invalid_siwx_nonce"
    SIGNATURE = "invalid_siwx_signature"


class Target(msgspec.Struct, frozen=True):
    """The resource to sign in for, at *path* of *origin*; *network* is in CAIP-2 form."""

    origin: str
    path: str
    network: str

    @property
    def domain(self) -> str:
        """The host and the port, if any, of the origin."""
        return urlsplit(self.origin).netloc

    @property
    def uri(self) -> str:
        """The URL of the resource, without the query."""
        return self.origin + self.path


_DECODER: Final = msgspec.json.Decoder(SignIn)


def write_challenge(key: bytes, target: Target, *, now: UnixMs, drawn: bytes) -> dict[str, Any]:
    """Return the challenge that a wallet signs to sign in at *target*, as an extension of a 402.

    drawn   random bytes, DRAWN_BYTES of them
    """
    assert len(drawn) == DRAWN_BYTES
    uri = target.uri
    issued_at = iso_time(now)
    info = {
        "domain": target.domain,
        "uri": uri,
        "version": VERSION,
        "nonce": _nonce(key, uri, issued_at, drawn),
        "issuedAt": issued_at,
        "statement": STATEMENT,
    }
    chains = [{"chainId": target.network, "type": TYPE}]
    return {SIGN_IN: {"info": info, "supportedChains": chains, "schema": _SCHEMA}}


def decode_sign_in(header: str) -> SignIn:
    """Return the sign-in in *header*, the header SIGN-IN-WITH-X.  Raises Undecodable."""
    if len(header) > HEADER_BYTES_MAX:
        raise Undecodable(f"expected at most {HEADER_BYTES_MAX} characters; was {len(header)}")
    return decode_json(decode_base64(header), _DECODER)


def find_flaw(
    keys: Iterable[bytes], sign_in: SignIn, target: Target, *, now: UnixMs
) -> SignInFlaw | None:
    """Return the reason to refuse *sign_in* for *target*; None if it is valid.

    keys    the keys with which this service may have written the challenge
    """
    if sign_in.domain != target.domain:
        return SignInFlaw.DOMAIN
    if sign_in.uri != target.uri:
        return SignInFlaw.URI
    if (sign_in.chain_id, sign_in.type, sign_in.version) != (target.network, TYPE, VERSION):
        return SignInFlaw.CHAIN
    if not _is_ours(keys, sign_in):
        return SignInFlaw.NONCE
    issued_s = datetime.fromisoformat(sign_in.issued_at).timestamp()  # valid: the MAC includes it
    if not -AHEAD_S <= now / 1000 - issued_s <= VALID_S:
        return SignInFlaw.TOO_OLD
    is_signed = _is_signed(
        sign_in.address, text_of(sign_in), partial(Ed25519.from_string, sign_in.signature)
    )
    return None if is_signed else SignInFlaw.SIGNATURE


def text_of(sign_in: SignIn) -> str:
    """Return the text that the wallet signs.  Source: Sign-In With Solana, CAIP-122."""
    return (
        f"{sign_in.domain} wants you to sign in with your Solana account:\n{sign_in.address}\n\n"
        f"{sign_in.statement}\n\nURI: {sign_in.uri}\nVersion: {sign_in.version}\n"
        f"Chain ID: {sign_in.chain_id.partition(':')[2]}\nNonce: {sign_in.nonce}\n"
        f"Issued At: {sign_in.issued_at}"
    )


def wallet_of(sign_in: SignIn) -> Wallet:
    """Return the wallet that signed in; *sign_in* must be checked already."""
    return Wallet(sign_in.address)


def _nonce(key: bytes, uri: str, issued_at: str, drawn: bytes) -> str:
    made = hmac.digest(
        key, f"sign-in\n{uri}\n{issued_at}\n".encode(errors="replace") + drawn, "sha256"
    )
    return (drawn + made[:DRAWN_BYTES]).hex()


def _is_ours(keys: Iterable[bytes], sign_in: SignIn) -> bool:
    """Return whether the challenge was written with one of *keys*, and was not changed.

    The nonce contains a MAC of `uri`, `issuedAt` and its random bytes.
    """
    # Neither the MAC nor the signed text has these fields, so a client could set them freely.
    added = (sign_in.expiration_time, sign_in.not_before, sign_in.request_id, sign_in.resources)
    if sign_in.statement != STATEMENT or any(each is not None for each in added):
        return False
    try:
        drawn = bytes.fromhex(sign_in.nonce)[:DRAWN_BYTES]
    except ValueError:
        return False
    nonce_bytes = sign_in.nonce.encode(errors="replace")
    made = [_nonce(key, sign_in.uri, sign_in.issued_at, drawn).encode() for key in keys]
    return any(hmac.compare_digest(each, nonce_bytes) for each in made)


def _is_signed(wallet: str, text: str, read_signature: Callable[[], Ed25519]) -> bool:
    """Return whether *read_signature* returns the signature of *text* by *wallet*.

    Return False if it raises ValueError.
    """
    try:
        with parsed_by_others():
            return read_signature().verify(Pubkey.from_string(wallet), text.encode())
    except ValueError:
        return False


NONCE_BYTES: Final = 16
_LAST_LINE: Final = re.compile(r"Proof: (\d{1,16})-([0-9a-f]{32})-[0-9a-f]{64}")


class ChallengeFlaw(Enum):
    """A reason to refuse a text that a wallet had to sign."""

    FORGED = auto()  # the service did not write the text, or wrote it for another purpose
    EXPIRED = auto()
    SIGNATURE = auto()  # the wallet has not signed the text


def write_text(key: bytes, body: str, *, now: UnixMs, nonce: bytes) -> str:
    """Return *body* and a last line with the expiry, *nonce*, and a MAC by *key*."""
    assert len(nonce) == NONCE_BYTES
    return _text(key, body, expires_s=now // 1000 + VALID_S, nonce=nonce.hex())


def find_text_flaw(  # noqa: PLR0913 - one argument for each part
    key: bytes, body: str, *, wallet: Wallet, text: str, signature: bytes, now: UnixMs
) -> ChallengeFlaw | None:
    """Return the reason to refuse a signed text; None if it is valid.

    It is valid if this service wrote *text* for *body* with *key*, if the text has not expired, and
    if *signature* is the signature of the text by *wallet*.
    """
    last_line = _LAST_LINE.fullmatch(text.rpartition("\n")[2])
    if last_line is None:
        return ChallengeFlaw.FORGED
    expires_s = int(last_line[1])
    nonce = last_line[2]
    ours = _text(key, body, expires_s=expires_s, nonce=nonce)
    if not hmac.compare_digest(ours.encode(), text.encode(errors="replace")):
        return ChallengeFlaw.FORGED
    if now > expires_s * 1000:
        return ChallengeFlaw.EXPIRED
    if not _is_signed(wallet, text, partial(Ed25519.from_bytes, signature)):
        return ChallengeFlaw.SIGNATURE
    return None


def _text(key: bytes, body: str, *, expires_s: int, nonce: str) -> str:
    proof = f"Proof: {expires_s}-{nonce}"
    mac = hmac.new(key, (body + proof).encode(), "sha256").hexdigest()
    return f"{body}{proof}-{mac}"
