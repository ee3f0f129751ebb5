"""The sign-up of an agent, and the exchange of its application secret."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import NewUser, UserKind, username_of
from mintscope.accounts.keys.key import KeyLine, KeyStatus, NewKey, new_key
from mintscope.accounts.keys.scope import READ_SCOPES, in_order
from mintscope.accounts.mail.email import EmailKind
from mintscope.accounts.rows import AccountRows, AccountService, find_person, use_proof
from mintscope.accounts.secrets import NONCE_BYTES
from mintscope.accounts.session import GUESSES_MAX, EmailProof, NewProof, Purpose
from mintscope.accounts.signups.application import (
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
from mintscope.kit import errors
from mintscope.kit.audit import APPLICANT, MAILBOX, SERVICE, Actor, UserId
from mintscope.kit.credentials import ApiKey, ApplicationSecret, CredentialHash
from mintscope.kit.primitives import UnixMs

SWEEP_MAX: Final = 500  # applications deleted in one transaction
DELETED: Final = "its application was deleted"
WRONG_CODE: Final = (
    "expected the eight digits in the e-mail; they are wrong or expired, or five guesses failed:"
    " try the link in the e-mail"
)


@dataclass(frozen=True, slots=True)
class Signup:
    """The answer to an applicant: ID and secret of the application."""

    signup_id: SignupId
    secret: ApplicationSecret


class Signups(AccountService):
    """Accepts and confirms applications; deletes those that were not confirmed in 72 hours.

    Methods raise ServiceUnavailable.
    """

    async def apply(self, form: Form, *, redelivery_key: str | None) -> Signup:
        """Store the application and an e-mail to its address, in one transaction.

        If the same application was sent with the same *redelivery_key* in the last ten minutes,
        return the same answer again.  Raises DuplicateApplication, ServiceUnavailable.
        """
        nonce = self.entropy(NONCE_BYTES)
        proof_nonce = self.entropy(NONCE_BYTES)
        # If the applicant sent no redelivery key, use a random key, which no client can guess.
        secret = self.secrets.secret_of(nonce, redelivery_key or self.entropy(NONCE_BYTES).hex())
        new = NewApplication(
            form=form,
            secret_hash=self.secrets.hash(secret),
            secret_nonce=nonce,
            signup_redeem=self.secrets.redeem_hash(redelivery_key, form.email),
            at=self.clock.now(),
        )

        def apply(rows: AccountRows) -> SignupId | KeptApplication:
            earlier = rows.applications.find(form.email)
            if earlier is not None:
                if not earlier.application.has_lapsed(new.at):
                    return earlier
                forget(rows, earlier.application.signup_id, "lapsed", SERVICE, new.at)
            signup_id = rows.applications.insert(new)
            purpose = Purpose.CONFIRM_APPLICATION
            proof = NewProof(purpose, signup_id, form.email, proof_nonce, new.at)
            proof_id = rows.proofs.insert(proof)
            rows.emails.insert(EmailKind.CONFIRM_APPLICATION, form.email, {}, proof_id, new.at)
            rows.events.note(new.at, APPLICANT, "applied", subject_of(signup_id))
            return signup_id

        kept = await self.store.transact(apply)
        if not isinstance(kept, KeptApplication):
            return Signup(kept, secret)
        if redelivery_key is None or not _is_answer_to(kept, new):
            raise errors.DuplicateApplication
        earlier = self.secrets.secret_of(kept.secret_nonce, redelivery_key)
        return Signup(kept.application.signup_id, earlier)

    async def confirm_by_code(self, email: EmailAddress, secret: str, code: str) -> None:
        """Confirm the e-mail address with the code sent there, unless it is already confirmed.

        Raises    InvalidCredentials for a wrong *secret*; InvalidFields if the code is wrong or has
                  expired, or after GUESSES_MAX guesses
        """
        application = await self._recognise(email, secret)
        if application.confirmed_at is not None:
            return
        now = self.clock.now()
        signup_id = application.signup_id

        def guess(rows: AccountRows) -> bool:
            proof = rows.proofs.newest(Purpose.CONFIRM_APPLICATION, signup_id)
            is_good = proof is not None and proof.is_good(Purpose.CONFIRM_APPLICATION, now)
            if proof is None or not is_good or proof.guesses >= GUESSES_MAX:
                return False
            rows.proofs.update(proof.proof_id, guesses=proof.guesses + 1)
            # Returned, not raised: an error would undo the counted guess.
            if not self.secrets.is_code_of(proof.nonce, code):
                return False
            _confirm(rows, signup_id, APPLICANT, now)
            return True

        if not await self.store.transact(guess):
            raise errors.InvalidFields([errors.FieldMessage("code", WRONG_CODE)])

    async def state(self, email: EmailAddress, secret: str) -> ApplicationState:
        """Return the state of the application.  Raises InvalidCredentials, AccountNotFound."""
        application = await self._recognise(email, secret)
        if application.user_removed:
            raise errors.AccountNotFound
        return application.state

    async def confirm_by_link(self, text: str) -> bool:
        """Confirm the e-mail address; return False if the link is unknown, used or expired."""

        def confirm(rows: AccountRows, proof: EmailProof, at: UnixMs) -> bool:
            if use_proof(rows.proofs, proof.proof_id, Purpose.CONFIRM_APPLICATION, at) is None:
                return False
            _confirm(rows, SignupId(proof.subject), MAILBOX, at)
            return True

        return await self._use_link(text, confirm)

    async def disown(self, text: str) -> bool:
        """Delete an application that the owner of its address did not make.

        Return False if the link is invalid or the application was decided.
        """

        def disown(rows: AccountRows, proof: EmailProof, at: UnixMs) -> bool:
            kept = rows.applications.get(SignupId(proof.subject))
            if kept is None or kept.application.state not in UNDECIDED:
                return False
            if use_proof(rows.proofs, proof.proof_id, Purpose.CONFIRM_APPLICATION, at) is None:
                return False
            forget(rows, kept.application.signup_id, "disowned", MAILBOX, at)
            return True

        return await self._use_link(text, disown)

    async def forget_lapsed(self) -> int:
        """Delete applications that were not confirmed in 72 hours; return their number."""
        now = self.clock.now()

        def forget_some(rows: AccountRows) -> int:
            state = ApplicationState.AWAITING_CONFIRMATION
            longest_waiting = rows.applications.page(state, None, SWEEP_MAX)
            lapsed = [each for each in longest_waiting if each.has_lapsed(now)]
            for application in lapsed:
                forget(rows, application.signup_id, "lapsed", SERVICE, now)
            return len(lapsed)

        count = 0
        # Each transaction deletes a part, because other writers wait for it.
        while found := await self.store.transact(forget_some):
            count += found
        return count

    async def _recognise(self, email: EmailAddress, secret: str) -> Application:
        application = await self.recognise(email, secret)
        if application is None:
            raise errors.InvalidCredentials
        return application

    async def _use_link(
        self, text: str, rule: Callable[[AccountRows, EmailProof, UnixMs], bool]
    ) -> bool:
        proof, now = await self.find_proof(text, Purpose.CONFIRM_APPLICATION), self.clock.now()
        return proof is not None and await self.store.transact(lambda rows: rule(rows, proof, now))


def forget(
    rows: AccountRows, signup_id: SignupId, action: str, actor: Actor, at: UnixMs, **detail: str
) -> None:
    """Delete an application with its links and codes, cancel its e-mails, and log *action*."""
    purpose = Purpose.CONFIRM_APPLICATION
    for draft in rows.emails.waiting_with(purpose, signup_id):
        rows.emails.update(draft.email_id, given_up_at=at, reason=DELETED)
    rows.proofs.forget(purpose, signup_id)
    rows.applications.delete(signup_id)
    rows.events.note(at, actor, action, subject_of(signup_id), **detail)


def _is_answer_to(earlier: KeptApplication, again: NewApplication) -> bool:
    after_ms = again.at - earlier.application.applied_at
    return (
        is_sent_again(earlier.signup_redeem, again.signup_redeem, after_ms=after_ms)
        and earlier.application.form == again.form
    )


def _confirm(rows: AccountRows, signup_id: SignupId, actor: Actor, at: UnixMs) -> None:
    """Record that the applicant has confirmed the address, even if the application was decided."""
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
    rows.events.note(at, actor, "confirmed", subject_of(signup_id))


KEY_NAME: Final = "agent signup"


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """An issued key; its text is shown once."""

    api_key: ApiKey
    line: KeyLine
    username: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The API key that is issued when an application secret is exchanged.

    key_nonce  the key is derived from this nonce and the application secret
    redeem     the hash of the redelivery key of the exchange; None: the exchange has none
    username   the user name of the agent account, if an account must be created
    """

    signup_id: SignupId
    key: NewKey
    key_nonce: bytes
    redeem: CredentialHash | None
    username: str
    at: UnixMs


class Exchanges(AccountService):
    """Exchanges application secrets for API keys."""

    async def exchange(
        self, application: Application, secret: str, *, redelivery_key: str | None
    ) -> IssuedKey:
        """Issue the one key of *application*, and write to its e-mail address.

        One transaction does this, and expects the state `approved`: of many requests at once, in
        any number of processes, one gets the key, and the others get KeyAlreadyExists.  A request
        with the *redelivery_key* of an exchange in the last ten minutes gets the same key again, if
        the key is still active.

        If an earlier key was issued, the new key belongs to the same account.  Otherwise it belongs
        to the person who has verified the address, if the applicant has confirmed the address, too.
        Otherwise it belongs to a new agent account.
        Raises    AccountNotFound if the account was removed (checked first), NotApproved,
                  KeyAlreadyExists, InvalidCredentials if the application was deleted,
                  ServiceUnavailable
        """
        _expect_offerable(application, is_repeated=redelivery_key is not None)
        nonce = self.entropy(NONCE_BYTES)
        api_key = self.secrets.key_of(application.signup_id, nonce, secret)
        email = application.form.email
        offer = Offer(
            signup_id=application.signup_id,
            key=new_key(api_key, self.secrets, KEY_NAME, READ_SCOPES | application.scopes, None),
            key_nonce=nonce,
            redeem=self.secrets.redeem_hash(redelivery_key, email),
            username=username_of(email, self.entropy),
            at=self.clock.now(),
        )
        line, username, issued_nonce = await self.store.transact(lambda rows: _issue(rows, offer))
        issued = self.secrets.key_of(application.signup_id, issued_nonce, secret)
        return IssuedKey(issued, line, username)


def _expect_offerable(application: Application, *, is_repeated: bool) -> None:
    """Raise the error of an exchange for *application*, unless its key can be issued.

    is_repeated   whether the request may repeat an earlier exchange: KeyAlreadyExists is then not
                  raised
    """
    if application.user_removed:
        raise errors.AccountNotFound
    if application.state is ApplicationState.KEY_ISSUED and not is_repeated:
        raise errors.KeyAlreadyExists
    if application.state not in {ApplicationState.APPROVED, ApplicationState.KEY_ISSUED}:
        raise errors.NotApproved


def _issue(rows: AccountRows, offer: Offer) -> tuple[KeyLine, str, bytes]:
    """Issue the application's key, or find the issued one; return key, user name and key nonce."""
    kept = rows.applications.get(offer.signup_id)
    if kept is None:
        raise errors.InvalidCredentials
    # Checked again, because the application may have changed since the first check.
    _expect_offerable(kept.application, is_repeated=True)
    if kept.application.state is ApplicationState.APPROVED:
        return _hand_out(rows, kept, offer)
    assert kept.owner is not None, "expected the user of an application in state key_issued"
    assert kept.key_nonce is not None, "expected the nonce of an application in state key_issued"
    # The newest key: those before it were revoked by resets.
    line = rows.api_keys.of_application(offer.signup_id)[0]
    owner = rows.users.get(kept.owner)
    if owner is None or not _is_answer_to_exchange(kept, line, offer):
        raise errors.KeyAlreadyExists
    return line, owner.user.username, kept.key_nonce


def _is_answer_to_exchange(kept: KeptApplication, line: KeyLine, again: Offer) -> bool:
    issued_at = kept.application.issued_at
    return (
        issued_at is not None
        and is_sent_again(kept.exchange_redeem, again.redeem, after_ms=again.at - issued_at)
        and line.status(again.at) is KeyStatus.ACTIVE
    )


def _hand_out(rows: AccountRows, kept: KeptApplication, offer: Offer) -> tuple[KeyLine, str, bytes]:
    owner_id = kept.owner or _find_owner(rows, kept.application) or _add_agent(rows, kept, offer)
    rows.applications.update(
        offer.signup_id,
        state=ApplicationState.KEY_ISSUED,
        issued_at=offer.at,
        key_nonce=offer.key_nonce,
        exchange_redeem=offer.redeem,
        user=owner_id,
    )
    line = rows.api_keys.insert(owner_id, offer.key, offer.at, signup_id=offer.signup_id)
    facts = {"hint": line.hint, "scopes": ", ".join(in_order(line.scopes))}
    rows.emails.insert(EmailKind.NEW_KEY, kept.application.form.email, facts, None, offer.at)
    _note(rows, offer, "issued", f"key:{line.key_id}")
    owner = rows.users.get(owner_id)
    assert owner is not None, "an application whose user was removed is refused before"
    return line, owner.user.username, offer.key_nonce


def _find_owner(rows: AccountRows, application: Application) -> UserId | None:
    """Return the person with the application's address, if person and applicant both verified it.

    If one of the two were enough, a stranger who applies with an address would get a key for the
    account of its owner, or a stranger who signs up with an address would get an agent's key.
    """
    person = find_person(rows.users, application.form.email)
    if person is None or None in {person.user.verified_at, application.confirmed_at}:
        return None
    return person.user.user_id


def _add_agent(rows: AccountRows, kept: KeptApplication, offer: Offer) -> UserId:
    agent = NewUser(
        kind=UserKind.AGENT,
        username=offer.username,
        email=kept.application.form.email,
        verified_at=kept.application.confirmed_at,
        created_at=offer.at,
    )
    user_id = rows.users.insert(agent)
    _note(rows, offer, "created", f"user:{user_id}")
    return user_id


def _note(rows: AccountRows, offer: Offer, action: str, subject: str) -> None:
    rows.events.note(offer.at, APPLICANT, action, subject, because=subject_of(offer.signup_id))
