"""Memo of a payment (the quote), and checks of mints for payments.

The quote is the memo of a payment on chain.  It has 32 ASCII characters, and only we can write it.
It is the base64url of:

    1 byte    version
    4 bytes   expiry, Unix seconds, big-endian
    8 bytes   nonce, so that two equal purchases are two transactions; it is a keyed hash of the
              redelivery key if the client sent one with its request
    6 bytes   of the HMAC-SHA-256 over all of these, the kind of the resource, the amount, the
              network, the asset and the payee
    5 bytes   of the HMAC-SHA-256 over the same, but with the resource in place of its kind

The MAC with the kind proves which kind of resource a payment on chain bought, even if the resource
can no longer be found by comparison.  In version 1, all 11 bytes were the HMAC with the resource.

A quote needs no storage: every replica with the key accepts it, even if the price has changed or
the price feed is down.  It holds no secret, because the chain is public.

A transfer must deliver its stated amount, and the tokens must stay usable.  So mints are refused if
their extensions take a fee, run foreign code, let another party take tokens back, hide amounts, or
can stop transfers.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

import msgspec

from mintscope.kit.errors import NeedsOperator
from mintscope.kit.primitives import UnixMs, Wallet
from mintscope.payments.protocol.envelope import (
    TOKEN_2022_PROGRAM,
    TOKEN_PROGRAM,
    Resource,
    ResourceKind,
    Terms,
    kind_of,
)

VALID_S: Final = 120
NONCE_BYTES: Final = 8
MEMO_BYTES: Final = 32  # a longer memo exceeds the 20,000 compute units of clients
_VERSION: Final = b"\x02"
_VERSION_WITHOUT_KIND: Final = b"\x01"
_EXPIRY: Final = slice(1, 5)
_NONCE: Final = slice(5, 13)
_MAC_AT: Final = 13
_MAC_BYTES: Final = 11
_KIND_MAC_BYTES: Final = 6


class Flaw(Enum):
    """The reason why a memo is not accepted as our quote."""

    FORGED = auto()  # also if it is a quote for another resource, amount, network, asset or payee
    EXPIRED = auto()


def write_memo(  # noqa: PLR0913  one argument per thing that is bound
    key: bytes, *, terms: Terms, resource: Resource, amount: int, now: UnixMs, nonce: bytes
) -> str:
    """Return the memo that quotes *amount* atoms for *resource*, valid for VALID_S from *now*."""
    if len(nonce) != NONCE_BYTES:
        raise ValueError(f"expected a nonce of {NONCE_BYTES} bytes; was {len(nonce)}")
    head = _VERSION + (now // 1000 + VALID_S).to_bytes(4, "big") + nonce
    mac = _macs(key, head, terms=terms, resource=resource, amount=amount)
    return urlsafe_b64encode(head + mac).decode()


def find_flaw(  # noqa: PLR0913  as above
    key: bytes,
    memo: bytes,
    *,
    terms: Terms,
    resource: Resource | ResourceKind,
    amount: int,
    now: UnixMs | None,
) -> Flaw | None:
    """Return the reason to refuse *memo* as a quote for *amount*; None if it is valid.

    resource    if it is a kind, the quote may be for any resource of that kind
    now         the time of the check; None: ignore the expiry, for a payment already on chain
    """
    if len(memo) != MEMO_BYTES:
        return Flaw.FORGED
    try:
        quote = urlsafe_b64decode(memo)
    except ValueError:
        return Flaw.FORGED
    if urlsafe_b64encode(quote) != memo:  # accept only the canonical spelling
        return Flaw.FORGED
    head = quote[:_MAC_AT]
    mac = quote[_MAC_AT:]
    expected = _macs(key, head, terms=terms, resource=resource, amount=amount)
    if not expected or not hmac.compare_digest(mac[: len(expected)], expected):
        return Flaw.FORGED
    # After the MAC, so that only a genuine quote can be EXPIRED.
    if now is not None and now > int.from_bytes(head[_EXPIRY], "big") * 1000:
        return Flaw.EXPIRED
    return None


def has_form_of_ours(memo: bytes) -> bool:
    """Return whether *memo* has the length and the version of our quotes, valid or forged."""
    if len(memo) != MEMO_BYTES:
        return False
    try:
        return urlsafe_b64decode(memo)[:1] in {_VERSION, _VERSION_WITHOUT_KIND}
    except ValueError:
        return False


def shows_kind(memo: bytes) -> bool:
    """Return whether *memo*, which has the form of our quotes, proves the kind of its resource."""
    return urlsafe_b64decode(memo)[:1] != _VERSION_WITHOUT_KIND


def quoted_at(memo: bytes) -> UnixMs:
    """Return the time at which the valid quote *memo* was made, to the second."""
    expiry_s = int.from_bytes(urlsafe_b64decode(memo)[_EXPIRY], "big")
    return UnixMs((expiry_s - VALID_S) * 1000)


def nonce_of(memo: bytes) -> bytes:
    """Return the nonce of the valid quote *memo*."""
    return urlsafe_b64decode(memo)[_NONCE]


def _macs(
    key: bytes, head: bytes, *, terms: Terms, resource: Resource | ResourceKind, amount: int
) -> bytes:
    """Return the MACs of the resource's kind and of the resource, which follow *head* in a memo.

    If *resource* is a kind, only the MAC of the kind is returned.  In version 1, only the MAC of
    the resource is returned.  The result is empty if there is no such MAC, or for other versions.

    head    the version, the expiry and the nonce of the memo
    """
    bound = [amount, terms.network, terms.asset, terms.pay_to]
    if head.startswith(_VERSION_WITHOUT_KIND):
        is_known = not isinstance(resource, ResourceKind)
        return _mac(key, head, [resource, *bound])[:_MAC_BYTES] if is_known else b""
    if not head.startswith(_VERSION):
        return b""
    kind = resource if isinstance(resource, ResourceKind) else kind_of(resource)
    # A list, so that a kind and a resource with the same text have different MACs.
    of_kind = _mac(key, head, [[kind.path], *bound])[:_KIND_MAC_BYTES]
    if isinstance(resource, ResourceKind):
        return of_kind
    return of_kind + _mac(key, head, [resource, *bound])[: _MAC_BYTES - _KIND_MAC_BYTES]


def _mac(key: bytes, head: bytes, bound: Sequence[object]) -> bytes:
    return hmac.digest(key, head + msgspec.json.encode(bound), "sha256")


MINT_BYTES: Final = 82
TOKEN_ACCOUNT_BYTES: Final = 165
DECIMALS_AT: Final = 44
IS_INITIALIZED_AT: Final = 45
ACCOUNT_STATE_AT: Final = 108
USABLE, FROZEN = 1, 2  # states of a token account; 0: not initialized
EXTENSIONS_AT: Final = TOKEN_ACCOUNT_BYTES + 1  # offset of the extensions, after the account type
ACCOUNT_TYPE_MINT: Final = b"\x01"
# Extension types of Token-2022 that may prevent a payment from arriving or staying.
FORBIDDEN: Final = {
    1: "a transfer fee",
    4: "confidential transfers",
    6: "accounts that are frozen when opened",
    9: "tokens that cannot be transferred",
    12: "a permanent delegate",
    14: "a transfer hook",
    16: "a confidential transfer fee",
    26: "a pause switch",
}


class UnusablePaymentToken(NeedsOperator):
    """An accepted token, its treasury or its pools cannot be used; the message says why.

    Until the operator fixes the cause, nothing is sold for the token.
    """


class AccountState(msgspec.Struct, frozen=True, kw_only=True):
    """An account on chain."""

    owner: Wallet
    data: bytes


def expect_usable_mint(account: AccountState | None, terms: Terms) -> None:
    """Check that *account*, a mint, can be used for payments on *terms*.

    Raises UnusablePaymentToken if it cannot.
    """
    where = f"payment token {terms.asset}"
    if account is None:
        raise UnusablePaymentToken(f"{where}: expected a mint; the chain has no such account")
    if account.owner not in {TOKEN_PROGRAM, TOKEN_2022_PROGRAM}:
        raise UnusablePaymentToken(
            f"{where}: expected a mint of an SPL token program; its owner is {account.owner}"
        )
    if account.owner != terms.token_program:
        raise UnusablePaymentToken(
            f"{where}: expected token program {terms.token_program}; was {account.owner}:"
            f" set the token program in the configuration to {account.owner}"
        )
    data = account.data
    is_mint = (
        len(data) == MINT_BYTES or data[TOKEN_ACCOUNT_BYTES:EXTENSIONS_AT] == ACCOUNT_TYPE_MINT
    )
    if not is_mint or data[IS_INITIALIZED_AT] != 1:
        raise UnusablePaymentToken(f"{where}: expected a mint; the account is something else")
    if data[DECIMALS_AT] != terms.decimals:
        raise UnusablePaymentToken(
            f"{where}: expected {terms.decimals} decimals; it has {data[DECIMALS_AT]}:"
            " correct the configuration"
        )
    broken = [FORBIDDEN[kind] for kind in extensions(data) if kind in FORBIDDEN]
    if broken:
        raise UnusablePaymentToken(
            f"{where}: it has {', '.join(broken)}, so a payment may bring less than it states:"
            " choose another payment token, USDC for instance"
        )


def expect_usable_treasury(account: AccountState | None, terms: Terms) -> None:
    """Check that *account*, the treasury's token account, can receive payments on *terms*.

    Raises UnusablePaymentToken if it cannot.
    """
    if account is None:
        raise UnusablePaymentToken(
            f"treasury account {terms.treasury} does not exist, so every payment would fail:"
            f" create it once with `spl-token create-account {terms.asset}"
            f" --owner {terms.pay_to} --fee-payer <any funded keypair>`"
        )
    holds = account.data[:64]
    expected = bytes(terms.asset_key) + bytes(terms.pay_to_key)
    if account.owner != terms.token_program or holds != expected:
        raise UnusablePaymentToken(
            f"treasury account {terms.treasury}: expected an account of {terms.pay_to}"
            f" for {terms.asset}; it is something else: correct pay_to in the configuration"
        )
    state = account.data[ACCOUNT_STATE_AT : ACCOUNT_STATE_AT + 1]
    if state == bytes([FROZEN]):
        raise UnusablePaymentToken(
            f"treasury account {terms.treasury} is frozen, so every payment would fail: ask the"
            f" freeze authority of {terms.asset} to run `spl-token thaw {terms.treasury}`, or set"
            " payments.pay_to to another wallet"
        )
    if state != bytes([USABLE]):
        raise UnusablePaymentToken(
            f"treasury account {terms.treasury}: expected a token account that is set up; it is"
            " not: correct pay_to in the configuration"
        )


def extensions(data: bytes) -> list[int]:
    """Return the extension types of a Token-2022 mint, as far as they can be read."""
    kinds = []
    at = EXTENSIONS_AT
    while at + 4 <= len(data):
        kind = int.from_bytes(data[at : at + 2], "little")
        length = data[at + 2 : at + 4]
        if kind == 0:
            break
        kinds.append(kind)
        at += 4 + int.from_bytes(length, "little")
    return kinds
