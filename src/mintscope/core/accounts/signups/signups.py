"""Signing up an agent: one application for one e-mail address, confirmed by its reader."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Final

from mintscope.base.clock import Clock
from mintscope.base.credentials import ApplicationSecret
from mintscope.base.errors import (
    AccountNotFound,
    DuplicateApplication,
    FieldMessage,
    InvalidCredentials,
    InvalidFields,
)
from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.application import (
    UNDECIDED,
    Application,
    ApplicationState,
    Form,
    KeptApplication,
    NewApplication,
    SignupId,
    is_sent_again,
    subject_of,
)
from mintscope.core.accounts.audit import APPLICANT, MAILBOX, SERVICE, Actor, note
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.mail.email import EmailKind
from mintscope.core.accounts.proof import GUESSES_MAX, EmailProof, NewProof, Purpose, use_proof
from mintscope.core.accounts.secrets import NONCE_BYTES, AccountSecrets
from mintscope.core.accounts.store import AccountRows, AccountStore, find_application, find_proof
from mintscope.core.accounts.user import UserKind

SWEEP_MAX: Final = 500  # applications in one transaction
DELETED: Final = "its application was deleted"
WRONG_CODE: Final = (
    "expected the eight digits of the e-mail; they are wrong, too old, or the sixth guess:"
    " the link of the e-mail still works"
)


@dataclass(frozen=True, slots=True)
class Signup:
    """The answer to the applicant, given once."""

    signup_id: SignupId
    secret: ApplicationSecret


@dataclass(eq=False, repr=False)
class Signups:
    """Takes applications; *entropy* returns random bytes."""

    store: AccountStore
    _: KW_ONLY
    secrets: AccountSecrets
    clock: Clock
    entropy: Callable[[int], bytes]

    async def apply(self, form: Form, *, redelivery_key: str | None) -> Signup:
        """Keep the application and write to its e-mail address, in one transaction.

        With the *redelivery_key* of an equal application of the last ten minutes, its answer is
        given again.  Raises DuplicateApplication, ServiceUnavailable.
        """
        nonce = self.entropy(NONCE_BYTES)
        proof_nonce = self.entropy(NONCE_BYTES)
        # Without a key of the applicant's, one that no request can ever carry.
        secret = self.secrets.secret_of(nonce, redelivery_key or self.entropy(NONCE_BYTES).hex())
        new = NewApplication(
            form=form,
            secret_hash=self.secrets.hash(secret),
            secret_nonce=nonce,
            signup_redeem=self.secrets.redeem_hash(redelivery_key, form.email),
            at=self.clock.now(),
        )
        kept = await self.store.transact(lambda rows: _apply(rows, new, proof_nonce))
        if not isinstance(kept, KeptApplication):
            return Signup(kept, secret)
        if redelivery_key is None or not _is_answer_to(kept, new):
            raise DuplicateApplication
        earlier = self.secrets.secret_of(kept.secret_nonce, redelivery_key)
        return Signup(kept.application.signup_id, earlier)

    async def confirm_by_code(self, email: EmailAddress, secret: str, code: str) -> None:
        """Confirm the e-mail address with the code sent there, if it is not yet.

        Raises    InvalidCredentials for another's *secret*; InvalidFields for a wrong code
        """
        application = await self._recognise(email, secret)
        if application.confirmed_at is not None:
            return
        now = self.clock.now()

        def guess(rows: AccountRows) -> bool:
            return _guess(rows, application.signup_id, code, self.secrets, now)

        if not await self.store.transact(guess):
            raise InvalidFields([FieldMessage("code", WRONG_CODE)])

    async def state(self, email: EmailAddress, secret: str) -> ApplicationState:
        """Return how far the application has come.  Raises InvalidCredentials, AccountNotFound."""
        application = await self._recognise(email, secret)
        if application.user_removed:
            raise AccountNotFound
        return application.state

    async def find_by_link(self, text: str) -> EmailAddress | None:
        """Return whose application the link's last segment *text* confirms; None: no such link."""
        proof = await self._find_proof(text)
        return None if proof is None else proof.email

    async def confirm_by_link(self, text: str) -> bool:
        """Confirm the e-mail address; False if the link is unknown, used or has expired."""
        return await self._use_link(text, _confirm_by_link)

    async def disown(self, text: str) -> bool:
        """Delete an application whose address disowns it; False if it is decided."""
        return await self._use_link(text, _disown)

    async def forget_lapsed(self) -> int:
        """Delete what was not confirmed in 72 hours, its address being free then; say how many."""
        now = self.clock.now()
        count = 0
        while found := await self.store.transact(lambda rows: _forget_lapsed(rows, now)):
            count += found
        return count

    async def _recognise(self, email: EmailAddress, secret: str) -> Application:
        application = await find_application(self.store, email, secret, self.secrets)
        if application is None:
            raise InvalidCredentials
        return application

    async def _use_link(
        self, text: str, rule: Callable[[AccountRows, EmailProof, UnixMs], bool]
    ) -> bool:
        proof, now = await self._find_proof(text), self.clock.now()
        return proof is not None and await self.store.transact(lambda rows: rule(rows, proof, now))

    async def _find_proof(self, text: str) -> EmailProof | None:
        purpose = Purpose.CONFIRM_APPLICATION
        now = self.clock.now()
        return await find_proof(self.store, text, purpose, self.secrets, now)


def forget(
    rows: AccountRows, signup_id: SignupId, action: str, actor: Actor, at: UnixMs, **detail: str
) -> None:
    """Delete an application and its proofs; e-mails that would carry them are not sent."""
    purpose = Purpose.CONFIRM_APPLICATION
    for draft in rows.emails.waiting_with(purpose, signup_id):
        rows.emails.update(draft.email_id, given_up_at=at, reason=DELETED)
    rows.proofs.delete(purpose, signup_id)
    rows.applications.delete(signup_id)
    note(rows.events, at, actor, action, subject_of(signup_id), **detail)


def _apply(
    rows: AccountRows, new: NewApplication, proof_nonce: bytes
) -> SignupId | KeptApplication:
    email = new.form.email
    at = new.at
    earlier = rows.applications.find(email)
    if earlier is not None:
        if not earlier.application.has_lapsed(at):
            return earlier
        forget(rows, earlier.application.signup_id, "lapsed", SERVICE, at)
    signup_id = rows.applications.insert(new)
    purpose = Purpose.CONFIRM_APPLICATION
    proof_id = rows.proofs.insert(NewProof(purpose, signup_id, email, proof_nonce, at))
    rows.emails.insert(EmailKind.CONFIRM_APPLICATION, email, {}, proof_id, at)
    note(rows.events, at, APPLICANT, "applied", subject_of(signup_id))
    return signup_id


def _is_answer_to(earlier: KeptApplication, again: NewApplication) -> bool:
    after_ms = again.at - earlier.application.applied_at
    return (
        is_sent_again(earlier.signup_redeem, again.signup_redeem, after_ms=after_ms)
        and earlier.application.form == again.form
    )


def _guess(
    rows: AccountRows, signup_id: SignupId, code: str, secrets: AccountSecrets, at: UnixMs
) -> bool:
    """Count a guess and confirm if it is right; after GUESSES_MAX every guess is wrong."""
    proof = rows.proofs.newest(Purpose.CONFIRM_APPLICATION, signup_id)
    is_good = proof is not None and proof.is_good(Purpose.CONFIRM_APPLICATION, at)
    if proof is None or not is_good or proof.guesses >= GUESSES_MAX:
        return False
    rows.proofs.update(proof.proof_id, guesses=proof.guesses + 1)
    if not secrets.is_code_of(proof.nonce, code):
        return False
    _confirm(rows, signup_id, APPLICANT, at)
    return True


def _confirm_by_link(rows: AccountRows, proof: EmailProof, at: UnixMs) -> bool:
    if use_proof(rows.proofs, proof.proof_id, Purpose.CONFIRM_APPLICATION, at) is None:
        return False
    _confirm(rows, SignupId(proof.subject), MAILBOX, at)
    return True


def _confirm(rows: AccountRows, signup_id: SignupId, actor: Actor, at: UnixMs) -> None:
    """Note that the address is the applicant's; an administrator may have decided before."""
    rows.proofs.use_up(Purpose.CONFIRM_APPLICATION, signup_id, at)
    kept = rows.applications.get(signup_id)
    if kept is None or kept.application.confirmed_at is not None:
        return
    rows.applications.update(signup_id, confirmed_at=at)
    if kept.application.state is ApplicationState.AWAITING_CONFIRMATION:
        rows.applications.update(signup_id, state=ApplicationState.AWAITING_APPROVAL)
    agent = None if kept.owner is None else rows.users.get(kept.owner)
    if agent is not None and agent.user.kind is UserKind.AGENT and agent.user.verified_at is None:
        rows.users.update(agent.user.user_id, verified_at=at)
    note(rows.events, at, actor, "confirmed", subject_of(signup_id))


def _disown(rows: AccountRows, proof: EmailProof, at: UnixMs) -> bool:
    kept = rows.applications.get(SignupId(proof.subject))
    if kept is None or kept.application.state not in UNDECIDED:
        return False
    if use_proof(rows.proofs, proof.proof_id, Purpose.CONFIRM_APPLICATION, at) is None:
        return False
    forget(rows, kept.application.signup_id, "disowned", MAILBOX, at)
    return True


def _forget_lapsed(rows: AccountRows, at: UnixMs) -> int:
    """Forget some of the applications that lapsed; return how many, 0 when none is left."""
    state = ApplicationState.AWAITING_CONFIRMATION
    longest_waiting = rows.applications.page(state, None, SWEEP_MAX)
    lapsed = [each for each in longest_waiting if each.has_lapsed(at)]
    for application in lapsed:
        forget(rows, application.signup_id, "lapsed", SERVICE, at)
    return len(lapsed)
