"""The secrets of one installation.  All derive from the pepper, and none is in the database.

A thief of the database alone gains no credential: the database has only hashes, and nonces from
which nothing can be derived without the secrets.
"""

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.signups.application import SignupId
from mintscope.kit.credentials import (
    ApiKey,
    ApplicationSecret,
    CredentialHash,
    CredentialKind,
    CreditToken,
    hash_credential,
    make_api_key,
    make_application_secret,
    make_credit_token,
)
from mintscope.kit.primitives import UnixMs

NONCE_BYTES: Final = 32
CODE_DIGITS: Final = 8
APP_SECRET_BYTES: Final = 20  # the length of a SHA-1 digest, as in RFC 4226, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountSecrets:
    """The secret keys, one for each use.

    pepper       hashes application secrets, API keys, credit tokens, session cookies and tickets of
                 sign-ins
    application  derives application secrets
    api_key      derives the API keys of exchanges and rotations
    redeem       hashes redelivery keys (values of Idempotency-Key)
    mail         derives the links and codes in e-mails, their Message-IDs, and the codes that link
                 Telegram chats
    form         derives the CSRF texts of forms
    factor       derives the secrets of authenticator apps, and the challenges and user handles of
                 passkeys; hashes recovery codes
    credit       derives the credit tokens to which users withdraw credits
    wallet       derives the service's proof in texts that wallets sign
    webhook      derives the secrets that sign webhooks
    """

    pepper: bytes
    application: bytes
    api_key: bytes
    redeem: bytes
    mail: bytes
    form: bytes
    factor: bytes
    credit: bytes
    wallet: bytes
    webhook: bytes

    @classmethod
    def derive(cls, root: bytes) -> "AccountSecrets":
        """Derive all secret keys of the service from the pepper *root*."""

        # These labels, and those in the methods below, must never change: stored hashes, and the
        # secrets that are derived again later, would no longer match.
        def key(use: str) -> bytes:
            return hmac.digest(root, f"mintscope {use} 1".encode(), "sha256")

        return cls(
            pepper=root,
            application=key("application"),
            api_key=key("api key"),
            redeem=key("account redeem"),
            mail=key("mail"),
            form=key("form"),
            factor=key("second factor"),
            credit=key("withdrawal"),
            wallet=key("wallet"),
            webhook=key("webhook"),
        )

    def hash(self, credential: str) -> CredentialHash:
        """Return the hash of *credential*; only the hash is stored."""
        return hash_credential(credential, pepper=self.pepper)

    def redeem_hash(self, key: str | None, email: EmailAddress) -> CredentialHash | None:
        """Return the hash of an Idempotency-Key and *email*; None if there is no key."""
        if key is None:
            return None
        return CredentialHash(hmac.digest(self.redeem, f"{email}\n{key}".encode(), "sha256"))

    def request_hash(self, key: str | None, user_id: int) -> CredentialHash | None:
        """Return the hash of an Idempotency-Key and its user; None if there is no key."""
        if key is None:
            return None
        return CredentialHash(hmac.digest(self.redeem, f"user {user_id}\n{key}".encode(), "sha256"))

    def withdrawn_token(self, user_id: int, key: str) -> CreditToken:
        """Return the credit token of a user's withdrawal with the Idempotency-Key *key*."""
        drawn = hmac.digest(self.credit, f"{user_id}\n{key}".encode(), "sha256")
        return make_credit_token(drawn[: CredentialKind.CREDIT_TOKEN.entropy_bytes])

    def secret_of(self, nonce: bytes, key: str) -> ApplicationSecret:
        """Return the application secret that is derived from *nonce* and the redelivery *key*."""
        drawn = hmac.digest(self.application, nonce + key.encode(), "sha256")
        return make_application_secret(drawn[: CredentialKind.APPLICATION_SECRET.entropy_bytes])

    def key_of(self, signup_id: SignupId, nonce: bytes, secret: str) -> ApiKey:
        """Derive an application's API key from its *secret* and the *nonce* of the exchange."""
        # SHA-512, because an API key has more random bytes than a SHA-256 digest.
        drawn = hmac.digest(self.api_key, nonce + f"{signup_id}\n{secret}".encode(), "sha512")
        return make_api_key(drawn[: CredentialKind.API_KEY.entropy_bytes])

    def successor_of(self, bearer: str, key: str) -> ApiKey:
        """Return the key that replaces *bearer* in a rotation with the Idempotency-Key *key*."""
        drawn = hmac.digest(self.api_key, f"rotated\n{bearer}\n{key}".encode(), "sha512")
        return make_api_key(drawn[: CredentialKind.API_KEY.entropy_bytes])

    def link_of(self, nonce: bytes) -> str:
        """Derive the secret in an e-mailed link from its *nonce*: 43 characters, safe in a path."""
        drawn = hmac.digest(self.mail, b"link" + nonce, "sha256")
        return urlsafe_b64encode(drawn).rstrip(b"=").decode()

    def code_of(self, nonce: bytes) -> str:
        """Derive the eight-digit code of an e-mail from the *nonce* of its proof."""
        drawn = hmac.digest(self.mail, b"code" + nonce, "sha256")
        # 128 bits, so that the remainder prefers no code noticeably.
        return f"{int.from_bytes(drawn[:16]) % 10**CODE_DIGITS:0{CODE_DIGITS}d}"

    def webhook_secret(self, nonce: bytes) -> bytes:
        """Return the secret that signs the webhooks of an alert; each alert has its own *nonce*."""
        return hmac.digest(self.webhook, nonce, "sha256")

    def pause_proof(self, signal_id: int) -> str:
        """Return the proof in a link that stops the e-mails of an alert."""
        drawn = hmac.digest(self.mail, f"pause {signal_id}".encode(), "sha256")
        return urlsafe_b64encode(drawn[:16]).rstrip(b"=").decode()

    def is_pause_proof(self, signal_id: int, text: str) -> bool:
        """Return, in constant time, whether *text* is the proof in the pause link of an alert."""
        return _are_same(self.pause_proof(signal_id), text)

    def telegram_proof(self, bound: Sequence[int]) -> str:
        """Return the proof in a code that links a Telegram chat; it is valid only for *bound*.

        bound    the numbers to which the code is bound, such as the user and the session
        """
        text = f"telegram {' '.join(map(str, bound))}"
        drawn = hmac.digest(self.mail, text.encode(), "sha256")
        return urlsafe_b64encode(drawn[:16]).rstrip(b"=").decode()

    def is_telegram_proof(self, bound: Sequence[int], text: str) -> bool:
        """Return, in constant time, whether *text* is the proof of a Telegram code for *bound*.

        bound   numbers of the account and the session whose chat is to be linked
        """
        return _are_same(self.telegram_proof(bound), text)

    def email_name(self, email_id: int, written_at: UnixMs) -> str:
        """Return the local part of an e-mail's Message-ID, which is the same at every attempt."""
        drawn = hmac.digest(self.mail, f"letter {email_id} {written_at}".encode(), "sha256")
        return drawn[:16].hex()

    def app_secret(self, user_id: int, nonce: bytes) -> bytes:
        """Return the secret of the authenticator app with *nonce*."""
        drawn = hmac.digest(self.factor, f"app {user_id}\n".encode() + nonce, "sha256")
        return drawn[:APP_SECRET_BYTES]

    def recovery_hash(self, user_id: int, code: str) -> CredentialHash:
        """Return the hash of a recovery code of the user; only this hash is stored."""
        text = f"recovery {user_id}\n{code}".encode("utf-8", "replace")
        return CredentialHash(hmac.digest(self.factor, text, "sha256"))

    def passkey_handle(self, user_id: int) -> bytes:
        """Return the user handle to store on a passkey's device.

        It does not reveal the user's ID.
        """
        return hmac.digest(self.factor, f"handle {user_id}".encode(), "sha256")

    def challenge(self, use: str, text: str) -> bytes:
        """Return the challenge for a passkey; it is different for each *use* and *text*.

        use    the action, such as a registration
        text   identifies the request, such as a session and a time
        """
        return hmac.digest(self.factor, f"challenge {use}\n{text}".encode(), "sha256")

    def is_link_of(self, nonce: bytes, link: str) -> bool:
        """Return, in constant time, whether *link* is the secret that belongs to *nonce*.

        The secret is the second part of an e-mailed link.
        """
        return _are_same(self.link_of(nonce), link)

    def is_code_of(self, nonce: bytes, code: str) -> bool:
        """Return, in constant time, whether *code* is the code of the e-mail with *nonce*."""
        return _are_same(self.code_of(nonce), code)

    def csrf_of(self, cookie: str) -> str:
        """Return the CSRF text for every form of the session of *cookie*."""
        return hmac.digest(self.form, cookie.encode(), "sha256").hex()


def _are_same(ours: str, theirs: str) -> bool:
    return hmac.compare_digest(ours.encode(), theirs.encode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class IdempotencyRecord:
    """A request with an Idempotency-Key: its digest, and the id of the record that it created."""

    asked: bytes
    thing_id: int
