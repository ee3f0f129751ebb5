"""The quote: 32 ASCII characters that a payment carries on chain, and that only we can write.

    1 byte    version
    4 bytes   expiry, Unix seconds, big-endian
    8 bytes   nonce, so that two equal purchases are two transactions; it names the
              redelivery key, by a keyed hash, where the client sent that when it asked
    6 bytes   HMAC-SHA-256 over all of these, and over the kind of what is paid for, cut
    5 bytes   HMAC-SHA-256 over the same with what is paid for in place of its kind, cut

as base64url.  The kind says what a payment on chain is worth where what it has bought
cannot be found out by trying.  In version 1 all 11 bytes were over what is paid for.

A quote needs no storage: it is honoured by every replica that
holds the key, whatever the price did since, and it outlives a feed outage.
It names no secret: the chain is public.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

import msgspec

from mintscope.base.primitives import UnixMs
from mintscope.core.payments.protocol.requirement import (
    Requirement,
    Resource,
    ResourceKind,
    Terms,
    kind_of,
)

VALID_S: Final = 120
NONCE_BYTES: Final = 8
MEMO_BYTES: Final = 32  # more do not fit the 20,000 compute units that clients ask for
_VERSION: Final = b"\x02"
_VERSION_WITHOUT_KIND: Final = b"\x01"
_EXPIRY: Final = slice(1, 5)
_NONCE: Final = slice(5, 13)
_MAC_AT: Final = 13
_MAC_BYTES: Final = 11
_KIND_MAC_BYTES: Final = 6


class Flaw(Enum):
    """Why a memo is not a quote of ours."""

    FORGED = auto()  # or written for another resource, amount, asset or payee
    EXPIRED = auto()


def write_memo(  # noqa: PLR0913  one argument per thing that is bound
    key: bytes, *, terms: Terms, resource: Resource, amount: int, now: UnixMs, nonce: bytes
) -> str:
    """Quote *amount* atoms for *resource*, valid for VALID_S from *now*."""
    if len(nonce) != NONCE_BYTES:
        raise ValueError(f"expected a nonce of {NONCE_BYTES} bytes; was {len(nonce)}")
    head = _VERSION + (now // 1000 + VALID_S).to_bytes(4, "big") + nonce
    mac = _macs(key, head, terms=terms, resource=resource, amount=amount)
    return urlsafe_b64encode(head + mac).decode()


def quote(  # noqa: PLR0913  as above
    key: bytes, *, terms: Terms, resource: Resource, amount: int, now: UnixMs, nonce: bytes
) -> Requirement:
    """Return the demand for *amount* atoms, with its memo."""
    memo = write_memo(key, terms=terms, resource=resource, amount=amount, now=now, nonce=nonce)
    return Requirement(terms=terms, resource=resource, amount=amount, memo=memo)


def find_flaw(  # noqa: PLR0913  as above
    key: bytes,
    memo: bytes,
    *,
    terms: Terms,
    resource: Resource | ResourceKind,
    amount: int,
    now: UnixMs | None,
) -> Flaw | None:
    """Say what is wrong with *memo*, any bytes, as a quote of *amount* for *resource*.

    resource    a kind: for anything of it that is sold
    now         None: the expiry is set aside, for a payment that is on chain already
    """
    if len(memo) != MEMO_BYTES:
        return Flaw.FORGED
    try:
        quote = urlsafe_b64decode(memo)
    except ValueError:
        return Flaw.FORGED
    if urlsafe_b64encode(quote) != memo:  # one spelling only
        return Flaw.FORGED
    head = quote[:_MAC_AT]
    mac = quote[_MAC_AT:]
    expected = _macs(key, head, terms=terms, resource=resource, amount=amount)
    if not expected or not hmac.compare_digest(mac[: len(expected)], expected):
        return Flaw.FORGED
    if now is not None and now > int.from_bytes(head[_EXPIRY], "big") * 1000:
        return Flaw.EXPIRED
    return None


def has_form_of_ours(memo: bytes) -> bool:
    """Say whether *memo* has the length and the version of a quote, ours or forged."""
    if len(memo) != MEMO_BYTES:
        return False
    try:
        return urlsafe_b64decode(memo)[:1] in {_VERSION, _VERSION_WITHOUT_KIND}
    except ValueError:
        return False


def quoted_at(memo: bytes) -> UnixMs:
    """Return when *memo*, a quote without a flaw, was written; to the second."""
    expiry_s = int.from_bytes(urlsafe_b64decode(memo)[_EXPIRY], "big")
    return UnixMs((expiry_s - VALID_S) * 1000)


def nonce_of(memo: bytes) -> bytes:
    """Return the nonce of *memo*, a quote without a flaw."""
    return urlsafe_b64decode(memo)[_NONCE]


def _macs(
    key: bytes, head: bytes, *, terms: Terms, resource: Resource | ResourceKind, amount: int
) -> bytes:
    """Return what must follow *head*, as much as *resource* decides; nothing for none."""
    bound = [amount, terms.network, terms.asset, terms.pay_to]
    if head.startswith(_VERSION_WITHOUT_KIND):
        is_known = not isinstance(resource, ResourceKind)
        return _mac(key, head, [resource, *bound])[:_MAC_BYTES] if is_known else b""
    if not head.startswith(_VERSION):
        return b""
    kind = resource if isinstance(resource, ResourceKind) else kind_of(resource)
    of_kind = _mac(key, head, [[kind.path], *bound])[:_KIND_MAC_BYTES]
    if isinstance(resource, ResourceKind):
        return of_kind
    return of_kind + _mac(key, head, [resource, *bound])[: _MAC_BYTES - _KIND_MAC_BYTES]


def _mac(key: bytes, head: bytes, bound: Sequence[object]) -> bytes:
    return hmac.digest(key, head + msgspec.json.encode(bound), "sha256")
