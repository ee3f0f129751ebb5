"""Texts of ours that a wallet signs: nothing is stored of them."""

import hmac
import re
from enum import Enum, auto
from typing import Final

from solders.pubkey import Pubkey
from solders.signature import Signature as Ed25519

from mintscope.base.foreign import parsed_by_others
from mintscope.base.primitives import UnixMs, Wallet

VALID_S: Final = 300
NONCE_BYTES: Final = 16
_LAST_LINE: Final = re.compile(r"Proof: (\d{1,16})-([0-9a-f]{32})-[0-9a-f]{64}")


class ChallengeFlaw(Enum):
    """Why a text proves nothing."""

    FORGED = auto()  # not a text of ours, or one for something else
    EXPIRED = auto()
    SIGNATURE = auto()  # not signed by the wallet


def write_text(key: bytes, body: str, *, now: UnixMs, nonce: bytes) -> str:
    """Return *body* with a last line that only the holder of *key* can write."""
    assert len(nonce) == NONCE_BYTES
    return _text(key, body, expires_s=now // 1000 + VALID_S, nonce=nonce.hex())


def find_text_flaw(  # noqa: PLR0913 - one argument for each part
    key: bytes, body: str, *, wallet: Wallet, text: str, signature: bytes, now: UnixMs
) -> ChallengeFlaw | None:
    """Say why *text* and *signature*, both as sent, are not *body* signed by *wallet*."""
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
    if not _is_signed(wallet, text, signature):
        return ChallengeFlaw.SIGNATURE
    return None


def _text(key: bytes, body: str, *, expires_s: int, nonce: str) -> str:
    proof = f"Proof: {expires_s}-{nonce}"
    mac = hmac.new(key, (body + proof).encode(), "sha256").hexdigest()
    return f"{body}{proof}-{mac}"


def _is_signed(wallet: Wallet, text: str, signature: bytes) -> bool:
    try:
        with parsed_by_others():
            return Ed25519.from_bytes(signature).verify(Pubkey.from_string(wallet), text.encode())
    except ValueError:
        return False
