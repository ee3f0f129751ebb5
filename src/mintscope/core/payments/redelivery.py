"""How an answer that was lost is given again, to its buyer alone.

A landed payment is public; what sets its sender apart is a secret key, chosen by the client or
by us.  It is a factor of the token that the payment buys, so that neither the database, nor our
secret, nor the chain alone yields the token.

A key is distinguished from a guess without any row, after a restore: ours carry a MAC of the
payment that they belong to, and a client's is named by the quote's nonce if it was sent when it
asked.
"""

import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mintscope.base.credentials import (
    CredentialHash,
    CreditToken,
    hash_credential,
    make_credit_token,
)
from mintscope.base.primitives import UnixMs, Wallet
from mintscope.base.time import DAY_MS
from mintscope.core.payments.protocol.envelope import MessageHash
from mintscope.core.payments.protocol.memo import NONCE_BYTES
from mintscope.core.secrets.roots import Root, derived

GENERATED_KEY_BYTES: Final = 24
_KEY_MAC_BYTES: Final = 16
REDELIVERY_MS: Final = DAY_MS
EVER: Final = UnixMs(0)
OVERLAP_MS: Final = 10 * 60 * 1000  # quotes live for two minutes, texts that wallets sign for five
_TOKEN_ENTROPY_BYTES: Final = 28


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """The keys that only this installation has; each derived from one root.

    quote      signs quotes
    redeem     hashes redelivery keys
    token      derives credit tokens
    rotation   signs the texts that wallets sign
    receipt    signs receipts: the seed of a pair of keys, whose public key anyone may know
    pepper     hashes credit tokens, shared with the ledger
    since      when these began to sign
    newer      those that take their place one after the other, newest first
    """

    quote: bytes
    redeem: bytes
    token: bytes
    rotation: bytes
    receipt: bytes
    pepper: bytes
    since: UnixMs = EVER
    newer: "tuple[Secrets, ...]" = ()

    @classmethod
    def derive(cls, pepper: bytes, roots: Iterable[Root] = ()) -> "Secrets":
        """Derive every key from *pepper* itself, and those that follow from *roots*."""
        newer = (cls._of_root(each, pepper) for each in sorted(roots, reverse=True))
        return replace(cls._of_pepper(pepper), newer=tuple(newer))

    @classmethod
    def _of_root(cls, root: Root, pepper: bytes) -> "Secrets":
        return cls(
            quote=derived(root.secret, "quotes"),
            redeem=derived(root.secret, "receipts"),
            token=derived(root.secret, "credentials"),
            rotation=derived(root.secret, "sessions"),
            receipt=derived(root.secret, "signed receipts"),
            pepper=pepper,
            since=root.since,
        )

    @classmethod
    def _of_pepper(cls, root: bytes) -> "Secrets":
        return cls(
            quote=hmac.digest(root, b"mintscope quote 1", "sha256"),
            redeem=hmac.digest(root, b"mintscope redeem 1", "sha256"),
            token=hmac.digest(root, b"mintscope token 1", "sha256"),
            rotation=hmac.digest(root, b"mintscope rotation 1", "sha256"),
            receipt=hmac.digest(root, b"mintscope receipt 1", "sha256"),
            pepper=root,
        )

    def all(self) -> "tuple[Secrets, ...]":
        """Return these and those that follow, newest first: of any of them answers may be."""
        return (*self.newer, self)

    def at(self, now: UnixMs) -> "Secrets":
        """Return those that sign at *now*."""
        return next((each for each in self.newer if each.since <= now), self)

    def in_force(self, now: UnixMs) -> "Sequence[Secrets]":
        """Return those whose signatures count at *now*, first those that sign.

        Those that another process may sign with already do, by its clock; and those that were
        replaced less than OVERLAP_MS ago.
        """
        signing = self.at(now)
        every = self.all()
        at = every.index(signing)
        replaced = [
            older
            for newer, older in zip(every[at:], every[at + 1 :], strict=False)
            if now - newer.since < OVERLAP_MS
        ]
        return (signing, *every[:at], *replaced)

    def key_hash(self, key: str, payer: Wallet) -> CredentialHash:
        """Return the only form in which a redelivery key is stored; payers do not share keys."""
        return CredentialHash(hmac.digest(self.redeem, f"{payer}\n{key}".encode(), "sha256"))

    def holds(self, key: str, payer: Wallet, key_hash: CredentialHash) -> bool:
        """Say whether *key_hash* is of *key*, by whichever of `all`; in constant time."""
        return any(hmac.compare_digest(each.key_hash(key, payer), key_hash) for each in self.all())

    def one_time_key(self, message_hash: MessageHash, drawn: bytes) -> str:
        """Return a key for a client that has none; *drawn* is GENERATED_KEY_BYTES at random."""
        return (drawn + self._key_mac(message_hash, drawn)).hex()

    def made_key(self, key: str, message_hash: MessageHash) -> bool:
        """Say whether *key* is a one-time key that we made for the payment *message_hash*."""
        try:
            made = bytes.fromhex(key)
        except ValueError:
            return False
        drawn = made[:GENERATED_KEY_BYTES]
        mac = made[GENERATED_KEY_BYTES:]
        return hmac.compare_digest(mac, self._key_mac(message_hash, drawn))

    def nonce(self, key: str) -> bytes:
        """Return the nonce of a quote for the holder of *key*, named but not revealed."""
        return hmac.digest(self.redeem, b"nonce\n" + key.encode(), "sha256")[:NONCE_BYTES]

    def _key_mac(self, message_hash: MessageHash, drawn: bytes) -> bytes:
        made = hmac.digest(self.redeem, b"one-time key\n" + message_hash + drawn, "sha256")
        return made[:_KEY_MAC_BYTES]

    def credit_token(self, message_hash: MessageHash, key: str) -> CreditToken:
        """Return the token that the payment *message_hash* buys for the holder of *key*."""
        drawn = hmac.digest(self.token, message_hash + key.encode(), "sha256")
        return make_credit_token(drawn[:_TOKEN_ENTROPY_BYTES])

    def token_of(
        self, message_hash: MessageHash, key: str, token_hash: CredentialHash
    ) -> CreditToken | None:
        """Return the token of `credit_token` that has *token_hash*, by whichever of `all`."""
        for each in self.all():
            token = each.credit_token(message_hash, key)
            if hash_credential(token, pepper=self.pepper) == token_hash:
                return token
        return None
