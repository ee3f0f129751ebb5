"""How an answer that was lost is given again, to its buyer alone.

A landed payment is public; what sets its sender apart is a secret key, chosen by the client or
by us.  It is a factor of the token that the payment buys, so that neither the database, nor our
secret, nor the chain alone yields the token.

A key can be told from a guess without any row, after a restore: ours carry a MAC of the payment
that they belong to, and a client's is named by the quote's nonce if it was sent when it asked.
"""

import hmac
from dataclasses import dataclass
from typing import Final

from mintscope.base.credentials import CredentialHash, CreditToken, make_credit_token
from mintscope.base.primitives import Wallet
from mintscope.base.time import DAY_MS
from mintscope.core.payments.protocol.envelope import MessageHash
from mintscope.core.payments.protocol.memo import NONCE_BYTES

GENERATED_KEY_BYTES: Final = 24
_KEY_MAC_BYTES: Final = 16
REDELIVERY_MS: Final = DAY_MS
_TOKEN_ENTROPY_BYTES: Final = 28


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """The keys that only this installation has; each derived from one root.

    quote      signs quotes
    redeem     hashes redelivery keys
    token      derives credit tokens
    rotation   signs the texts that wallets sign
    pepper     hashes credit tokens, shared with the ledger
    """

    quote: bytes
    redeem: bytes
    token: bytes
    rotation: bytes
    pepper: bytes

    @classmethod
    def derive(cls, root: bytes) -> "Secrets":
        """Derive every key from *root*, the pepper itself."""
        return cls(
            quote=hmac.digest(root, b"mintscope quote 1", "sha256"),
            redeem=hmac.digest(root, b"mintscope redeem 1", "sha256"),
            token=hmac.digest(root, b"mintscope token 1", "sha256"),
            rotation=hmac.digest(root, b"mintscope rotation 1", "sha256"),
            pepper=root,
        )

    def key_hash(self, key: str, payer: Wallet) -> CredentialHash:
        """Return the only form in which a redelivery key is stored; payers do not share keys."""
        return CredentialHash(hmac.digest(self.redeem, f"{payer}\n{key}".encode(), "sha256"))

    def holds(self, key: str, payer: Wallet, key_hash: CredentialHash) -> bool:
        """Compare in constant time."""
        return hmac.compare_digest(self.key_hash(key, payer), key_hash)

    def one_time_key(self, message_hash: MessageHash, drawn: bytes) -> str:
        """Return a key for a client that has none; *drawn* is GENERATED_KEY_BYTES at random."""
        return (drawn + self._key_mac(message_hash, drawn)).hex()

    def made_key(self, key: str, message_hash: MessageHash) -> bool:
        """Say whether *key* is a one-time key that we made for the payment *message_hash*."""
        try:
            made = bytes.fromhex(key)
        except ValueError:
            return False
        drawn, mac = made[:GENERATED_KEY_BYTES], made[GENERATED_KEY_BYTES:]
        return hmac.compare_digest(mac, self._key_mac(message_hash, drawn))

    def nonce(self, key: str) -> bytes:
        """Return the nonce of a quote for the holder of *key*, which it names and does not tell."""
        return hmac.digest(self.redeem, b"nonce\n" + key.encode(), "sha256")[:NONCE_BYTES]

    def _key_mac(self, message_hash: MessageHash, drawn: bytes) -> bytes:
        made = hmac.digest(self.redeem, b"one-time key\n" + message_hash + drawn, "sha256")
        return made[:_KEY_MAC_BYTES]

    def credit_token(self, message_hash: MessageHash, key: str) -> CreditToken:
        """Return the token that the payment *message_hash* buys for the holder of *key*."""
        drawn = hmac.digest(self.token, message_hash + key.encode(), "sha256")
        return make_credit_token(drawn[:_TOKEN_ENTROPY_BYTES])
