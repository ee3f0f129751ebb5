"""How an answer that was lost is given again, to its buyer alone.

A landed payment is public; what sets its sender apart is a secret key, chosen by the client or
by us.  It is a factor of the token that the payment buys, so that neither the database, nor our
secret, nor the chain alone yields the token.
"""

import hmac
from dataclasses import dataclass
from typing import Final

from mintscope.base.credentials import CredentialHash, CreditToken, make_credit_token
from mintscope.base.primitives import Wallet
from mintscope.base.time import DAY_MS
from mintscope.core.payments.protocol.envelope import MessageHash

GENERATED_KEY_BYTES: Final = 24
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

    def credit_token(self, message_hash: MessageHash, key: str) -> CreditToken:
        """Return the token that the payment *message_hash* buys for the holder of *key*."""
        drawn = hmac.digest(self.token, message_hash + key.encode(), "sha256")
        return make_credit_token(drawn[:_TOKEN_ENTROPY_BYTES])
