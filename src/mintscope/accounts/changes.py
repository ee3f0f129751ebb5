"""Change of an account's e-mail address, and deletion of an account.

A thief must not be able to keep an account by changing its e-mail address.  If the old address was
verified, the service sends it a link that is valid for a week.  The link restores the address.  It
also undoes each change that gives lasting access and was made after the thief's session began:
changes of sessions, keys, second factors, wallets, alerts, webhooks, Telegram chats and limits.
During that week no other account can take the old address.

If an account is deleted, payments, credits and the audit log keep the account's number, but not its
name.
"""

from dataclasses import InitVar, asdict, dataclass

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import User
from mintscope.accounts.mail.email import UNVERIFIED_MAX, EmailKind, EmailLimit, tell_owner
from mintscope.accounts.rows import (
    AccountRows,
    AccountService,
    AccountStore,
    find_person,
    use_proof,
)
from mintscope.accounts.secrets import NONCE_BYTES
from mintscope.accounts.session import EmailProof, NewProof, ProofId, Purpose, Session, link_text
from mintscope.accounts.sessions import (
    TOOK_BACK,
    Ended,
    end_sessions,
    end_since,
    expect_removable,
    expect_session,
    remove,
)
from mintscope.accounts.signups.application import SignupId
from mintscope.accounts.signups.signups import forget
from mintscope.accounts.user import EmailTaken
from mintscope.kit.audit import MAILBOX, UserId, user_actor
from mintscope.kit.clock import Clock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.limits import Limits
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS


@dataclass(frozen=True, slots=True)
class TakenBack:
    """The result of an undo.

    reset   the last part of the URL of a page on which the owner sets a new password
    ended   the numbers of items that the undo ended or restored
    """

    reset: str
    ended: Ended


@dataclass(kw_only=True, eq=False, repr=False)
class AddressChanges(AccountService):
    """Changes the e-mail address of a person, and undoes such changes.

    Methods raise ServiceUnavailable, and SessionEnded if the session has ended meanwhile.
    """

    limits: InitVar[Limits]

    def __post_init__(self, limits: Limits) -> None:
        self._email_limit = EmailLimit(limits)

    async def request(self, session: Session, email: EmailAddress) -> bool:
        """E-mail a link to *email*; return False if a limit is reached.  Raises EmailTaken.

        Nothing changes until the link is confirmed in a session of the same account.
        """
        what = f"change {session.user.user_id}"
        if not await self._email_limit.take(what):
            return False
        nonce = self.entropy(NONCE_BYTES)
        now = self.clock.now()
        try:
            return await self.store.transact(
                lambda rows: _request(rows, session, email, nonce, now)
            )
        except (EmailTaken, ServiceUnavailable):
            await self._email_limit.give_back(what)
            raise

    async def find(self, session: Session, link: str) -> EmailAddress | None:
        """Return the new address; None if *link* is invalid or belongs to another account."""
        proof = await self.find_proof(link, Purpose.CHANGE_EMAIL)
        if proof is None or proof.subject != session.user.user_id:
            return None
        return proof.email

    async def confirm(self, session: Session, link: str) -> bool:
        """Change the address; return False if the link is invalid.  Raises EmailTaken.

        All other sessions of the account end.
        """
        proof = await self.find_proof(link, Purpose.CHANGE_EMAIL)
        if proof is None or proof.subject != session.user.user_id:
            return False
        nonce = self.entropy(NONCE_BYTES)
        now = self.clock.now()
        return await self.store.transact(lambda rows: _confirm(rows, session, proof, nonce, now))

    async def find_undo(self, link: str) -> EmailAddress | None:
        """Return the address that the link restores; None if the link is invalid."""
        proof = await self.find_proof(link, Purpose.UNDO_EMAIL)
        return None if proof is None else proof.email

    async def undo(self, link: str) -> TakenBack | None:
        """Restore the old address, and undo all changes since the intruder's session began.

        Every session ends, and the password no longer works.  Return None if the link is invalid.
        Raises    EmailTaken, if another account now has the address
        """
        proof = await self.find_proof(link, Purpose.UNDO_EMAIL)
        if proof is None:
            return None
        nonce = self.entropy(NONCE_BYTES)
        now = self.clock.now()
        found = await self.store.transact(lambda rows: _undo(rows, proof, nonce, now))
        if found is None:
            return None
        reset, ended = found
        return TakenBack(link_text(reset, self.secrets.link_of(nonce)), ended)


def _request(
    rows: AccountRows, session: Session, email: EmailAddress, nonce: bytes, at: UnixMs
) -> bool:
    owner = expect_session(rows, session)
    _expect_free(rows, email, owner.user_id, at)
    day_ago = UnixMs(at - DAY_MS)
    if len(rows.emails.written_to(email, EmailKind.CHANGE_EMAIL, day_ago)) >= UNVERIFIED_MAX:
        return False  # the address may be a stranger's, and strangers must not be flooded
    rows.proofs.use_up(Purpose.CHANGE_EMAIL, owner.user_id, at)  # only the newest link is valid
    proof_id = rows.proofs.insert(NewProof(Purpose.CHANGE_EMAIL, owner.user_id, email, nonce, at))
    rows.emails.insert(EmailKind.CHANGE_EMAIL, email, {}, proof_id, at)
    _note(rows, owner.user_id, "asked for another address", at)
    return True


def _confirm(
    rows: AccountRows, session: Session, proof: EmailProof, nonce: bytes, at: UnixMs
) -> bool:
    owner = expect_session(rows, session)
    _expect_free(rows, proof.email, owner.user_id, at)
    if use_proof(rows.proofs, proof.proof_id, Purpose.CHANGE_EMAIL, at) is None:
        return False
    rows.users.update(owner.user_id, email=proof.email, verified_at=at)
    end_sessions(rows, owner.user_id, but=session)
    for purpose in (Purpose.VERIFY_EMAIL, Purpose.RESET_PASSWORD):
        rows.proofs.use_up(purpose, owner.user_id, at)
    if owner.verified_at is not None:  # the owner had verified the old address
        since = session.created_at
        new = NewProof(Purpose.UNDO_EMAIL, owner.user_id, owner.email, nonce, at, since)
        rows.emails.insert(EmailKind.EMAIL_CHANGED, owner.email, {}, rows.proofs.insert(new), at)
    _note(rows, owner.user_id, "changed address", at)
    return True


def _undo(
    rows: AccountRows, proof: EmailProof, nonce: bytes, at: UnixMs
) -> tuple[ProofId, Ended] | None:
    user_id = UserId(proof.subject)
    kept = rows.users.get(user_id)
    if kept is None or use_proof(rows.proofs, proof.proof_id, Purpose.UNDO_EMAIL, at) is None:
        return None
    if kept.user.email != proof.email:
        _expect_free(rows, proof.email, user_id, at)
    since = proof.made_at if proof.since is None else proof.since
    # The links of later changes by the same thief must not restore the thief's address.
    rows.proofs.use_up(Purpose.UNDO_EMAIL, user_id, at, since=proof.made_at)
    for purpose in (Purpose.CHANGE_EMAIL, Purpose.RESET_PASSWORD, Purpose.VERIFY_EMAIL):
        rows.proofs.use_up(purpose, user_id, at)
    rows.users.update(user_id, email=proof.email, verified_at=at, password_hash="")
    ended = end_since(rows, user_id, since, at)
    detail = {name: str(count) for name, count in asdict(ended).items() if count}
    rows.events.note(at, MAILBOX, TOOK_BACK, f"user:{user_id}", **detail)
    reset = NewProof(Purpose.RESET_PASSWORD, user_id, proof.email, nonce, at)
    return rows.proofs.insert(reset), ended


def _expect_free(rows: AccountRows, email: EmailAddress, user_id: UserId, at: UnixMs) -> None:
    """Raise EmailTaken if a person has *email*, or another account can restore it by undo link."""
    if find_person(rows.users, email) is not None or rows.proofs.holds(email, user_id, at):
        raise EmailTaken


def _note(rows: AccountRows, user_id: UserId, action: str, at: UnixMs) -> None:
    rows.events.note(at, user_actor(user_id), action, f"user:{user_id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountContents:
    """The contents of an account; *has_application*: whether it has an application for a key."""

    credits: int
    keys: int
    groups: int
    signals: int
    wallets: int
    has_application: bool


@dataclass(kw_only=True, eq=False, repr=False)
class AccountDeletion:
    """Lists the contents of an account, and deletes it.

    Methods raise SessionEnded if the session has ended meanwhile, and ServiceUnavailable.
    """

    store: AccountStore
    clock: Clock

    async def contents(self, session: Session) -> AccountContents:
        """Return the numbers of credits, keys and other items that a deletion removes."""
        now = self.clock.now()
        return await self.store.read(lambda rows: _contents(rows, session.user, now))

    async def expect_possible(self, session: Session) -> None:
        """Raise NotPossible if the account cannot be deleted now; `delete` names the cases."""
        await self.store.read(lambda rows: expect_removable(rows, session.user))

    async def delete(self, session: Session) -> None:
        """Delete the account at once and permanently; write an e-mail about this to the owner.

        Keys, sessions and links stop working.  Watchlists, wallets, client addresses, the
        application, and alerts with their firings, sent or not, are deleted.  The credits can no
        longer be spent.  Only the account's number is kept.
        Raises    NotPossible for the last administrator, or if a payment is in progress
        """
        now = self.clock.now()
        await self.store.transact(lambda rows: _leave(rows, session, now))


def _contents(rows: AccountRows, user: User, at: UnixMs) -> AccountContents:
    account = rows.credits.find(user.user_id)
    return AccountContents(
        credits=0 if account is None else rows.credits.balance(account),
        keys=rows.api_keys.count_active(user.user_id, at),
        groups=len(rows.watchlists.of_user(user.user_id)),
        signals=len(rows.signals.of_user(user.user_id)),
        wallets=len(rows.wallets.of_user(user.user_id)),
        has_application=_own_application(rows, user) is not None,
    )


def _own_application(rows: AccountRows, user: User) -> SignupId | None:
    """Return the id of this person's application, even if its key was already issued.

    Return None if there is none, or if its key belongs to the account of an agent: the application
    then stays with the agent's account.  Also return None if no key was issued and the person has
    not verified the address.
    """
    kept = rows.applications.find(user.email)
    if kept is None or kept.owner not in {None, user.user_id}:
        return None
    if kept.owner is None and user.verified_at is None:
        return None  # anyone can sign up with an address that is not theirs
    return kept.application.signup_id


def _leave(rows: AccountRows, session: Session, at: UnixMs) -> None:
    owner = expect_session(rows, session)
    expect_removable(rows, owner)
    actor = user_actor(owner.user_id)
    application = _own_application(rows, owner)
    tell_owner(rows.emails, owner, EmailKind.ACCOUNT_REMOVED, {}, at)
    for line in rows.watchlists.of_user(owner.user_id):
        rows.watchlists.delete(line.watchlist_id)
    for linked in rows.wallets.of_user(owner.user_id):
        rows.wallets.unlink(owner.user_id, linked.wallet)
    rows.key_addresses.forget(owner.user_id)
    remove(rows, owner, actor, at)
    if application is not None:
        forget(rows, application, "forgotten", actor, at)
    rows.users.update(
        owner.user_id,
        email=EmailAddress(""),
        username=f"removed-{owner.user_id}",
        administrator=False,
    )
