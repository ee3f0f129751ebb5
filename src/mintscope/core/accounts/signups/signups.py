"""Signing up an agent: one application for one mailbox, confirmed by whoever reads it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from mintscope.base.clock import Clock
from mintscope.base.credentials import ApplicationSecret, CredentialHash
from mintscope.base.errors import (
    AccountNotFound,
    DuplicateApplication,
    FieldMessage,
    InvalidCredentials,
    InvalidFields,
)
from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.application import (
    Application,
    ApplicationState,
    Form,
    KeptApplication,
    SignupId,
)
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.proof import Proof, ProofId, Purpose, parse_link
from mintscope.core.accounts.secrets import NONCE_BYTES, AccountSecrets
from mintscope.core.accounts.signups.recognition import recognise
from mintscope.core.accounts.signups.redelivery import is_sent_again

WRONG_CODE: Final = (
    "expected the eight digits of the letter; it is wrong, too old, or the sixth guess:"
    " the letter's link works all the same"
)


@dataclass(frozen=True, slots=True)
class Signup:
    """What the applicant is given, once."""

    signup_id: SignupId
    secret: ApplicationSecret


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApplication:
    """An application about to be kept, with all that was drawn for it.

    secret_nonce  what the secret derives from, together with a redelivery key
    redeem        hash of that key; None if the applicant sent none
    proof_nonce   what the link and the code of the letter derive from
    """

    form: Form
    secret_hash: CredentialHash
    secret_nonce: bytes
    redeem: CredentialHash | None
    proof_nonce: bytes
    at: UnixMs


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """The application that has the address already; fields as in NewApplication."""

    signup_id: SignupId
    form: Form
    secret_nonce: bytes
    redeem: CredentialHash | None
    at: UnixMs

    def is_answer_to(self, again: NewApplication) -> bool:
        """Say whether *again* is the request this was made by, sent once more."""
        return (
            is_sent_again(self.redeem, again.redeem, after_ms=again.at - self.at)
            and self.form == again.form
        )


class SignupStore(Protocol):
    """Raises ServiceUnavailable from every verb; each that writes is one transaction.

    Every step is in the audit log, in the transaction in which it is made.
    """

    async def add(self, new: NewApplication) -> SignupId | Earlier:
        """Keep *new* and its letter, unless the address has an application.

        One that lapsed is deleted first.
        """
        ...

    async def find(self, email: EmailAddress) -> KeptApplication | None:
        """Return the application of *email*."""
        ...

    async def find_confirmation(self, proof_id: ProofId) -> Proof | None:
        """Return the proof of a mailbox, used or not."""
        ...

    async def guess(
        self, signup_id: SignupId, is_right: Callable[[Proof], bool], now: UnixMs
    ) -> bool:
        """Count a guess at the code and confirm the mailbox if it *is_right*; False if not.

        At most GUESSES_MAX are counted; later ones are wrong.
        """
        ...

    async def confirm(self, proof_id: ProofId, now: UnixMs) -> bool:
        """Use up the proof and confirm the mailbox; False if it is used or has expired."""
        ...

    async def disown(self, proof_id: ProofId, now: UnixMs) -> bool:
        """Delete the application of a good proof, if nobody has decided about it."""
        ...

    async def forget_lapsed(self, now: UnixMs) -> int:
        """Delete what was not confirmed in time; return how many."""
        ...


class Signups:
    """Takes applications.

    entropy   returns so many bytes of a cryptographic generator
    """

    def __init__(
        self,
        store: SignupStore,
        *,
        secrets: AccountSecrets,
        clock: Clock,
        entropy: Callable[[int], bytes],
    ) -> None:
        self._store = store
        self._secrets = secrets
        self._clock = clock
        self._entropy = entropy

    async def apply(self, form: Form, *, redelivery_key: str | None) -> Signup:
        """Keep the application and write to its mailbox, in one transaction.

        With the *redelivery_key* of an application made in the last ten minutes, by
        the same address and with the same form, its answer is given again.

        Raises    DuplicateApplication, ServiceUnavailable
        """
        nonce = self._entropy(NONCE_BYTES)
        # Without a key of the applicant's, one that nobody can ever send.
        secret = self._secrets.secret_of(nonce, redelivery_key or self._entropy(NONCE_BYTES).hex())
        new = NewApplication(
            form=form,
            secret_hash=self._secrets.hash(secret),
            secret_nonce=nonce,
            redeem=self._secrets.redeem_hash(redelivery_key, form.email),
            proof_nonce=self._entropy(NONCE_BYTES),
            at=self._clock.now(),
        )
        kept = await self._store.add(new)
        if not isinstance(kept, Earlier):
            return Signup(kept, secret)
        if redelivery_key is None or not kept.is_answer_to(new):
            raise DuplicateApplication
        return Signup(kept.signup_id, self._secrets.secret_of(kept.secret_nonce, redelivery_key))

    async def confirm_by_code(self, email: EmailAddress, secret: str, code: str) -> None:
        """Confirm the mailbox with the code sent there; at most five guesses.

        Confirming what is confirmed changes nothing.
        Raises    InvalidCredentials unless *secret* is that of *email*; InvalidFields for a wrong
                  or used up code
        """
        application = await self._recognise(email, secret)
        if application.confirmed_at is not None:
            return

        def is_right(proof: Proof) -> bool:
            return self._secrets.is_code_of(proof.nonce, code)

        if not await self._store.guess(application.signup_id, is_right, self._clock.now()):
            raise InvalidFields([FieldMessage("code", WRONG_CODE)])

    async def state(self, email: EmailAddress, secret: str) -> ApplicationState:
        """Return how far the application has come.

        Raises    InvalidCredentials unless *secret* is that of *email*; AccountNotFound when the
                  account that came of it was removed
        """
        application = await self._recognise(email, secret)
        if application.user_removed:
            raise AccountNotFound
        return application.state

    async def find_by_link(self, text: str) -> EmailAddress | None:
        """Return whose application the link's last segment *text* confirms; None: no such link."""
        proof = await self._find_proof(text)
        return None if proof is None else proof.email

    async def confirm_by_link(self, text: str) -> bool:
        """Confirm the mailbox; False if the link is unknown, used or has expired."""
        proof = await self._find_proof(text)
        if proof is None:
            return False
        return await self._store.confirm(proof.proof_id, self._clock.now())

    async def disown(self, text: str) -> bool:
        """Delete the application that the reader of the mailbox never made; False as above.

        Only one that nobody has decided about goes.
        """
        proof = await self._find_proof(text)
        if proof is None:
            return False
        return await self._store.disown(proof.proof_id, self._clock.now())

    async def forget_lapsed(self) -> int:
        """Delete what was not confirmed in 72 hours, its address being free then; say how many."""
        return await self._store.forget_lapsed(self._clock.now())

    async def _recognise(self, email: EmailAddress, secret: str) -> Application:
        digest = self._secrets.hash(secret)
        application = recognise(await self._store.find(email), digest)
        if application is None:
            raise InvalidCredentials
        return application

    async def _find_proof(self, text: str) -> Proof | None:
        """Return the proof of the link *text* if it is good now."""
        parsed = parse_link(text)
        if parsed is None:
            return None
        proof_id, link = parsed
        proof = await self._store.find_confirmation(proof_id)
        if (
            proof is None
            or proof.purpose is not Purpose.CONFIRM_APPLICATION
            or not self._secrets.is_link_of(proof.nonce, link)
        ):
            return None
        is_good = proof.used_at is None and self._clock.now() < proof.expires_at
        return proof if is_good else None
