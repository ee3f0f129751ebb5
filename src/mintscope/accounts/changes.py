"""Change of an account's e-mail address, and deletion of an account.

A thief must not be able to keep an account by changing its e-mail address.  If the old address was
verified, the service sends it a link that is valid for a week.  The link restores the address.  It
also undoes each change that gives lasting access and was made after the thief's session began:
changes of sessions, keys, second factors, wallets, alerts, webhooks, Telegram chats and limits.
During that week no one else can sign up with the old address, or change another account to it.

If an account is deleted, payments, credits and the audit log keep the account's number, but not its
name.
"""

from collections.abc import Callable, Sequence
from dataclasses import InitVar, asdict, dataclass

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import User
from mintscope.accounts.mail.email import UNVERIFIED_MAX, EmailKind, EmailLimit
from mintscope.accounts.rows import (
    AccountRows,
    AccountService,
    AccountStore,
    find_person,
    use_proof,
)
from mintscope.accounts.secrets import NONCE_BYTES
from mintscope.accounts.session import NewProof, Purpose, Session, link_text
from mintscope.accounts.sessions import (
    TOOK_BACK,
    Ended,
    end_sessions,
    end_since,
    erase,
    expect_removable,
    expect_session,
)
from mintscope.accounts.signups.application import SignupId
from mintscope.accounts.signups.signups import forget
from mintscope.accounts.user import EmailTaken, LoginLimit, LoginLimits
from mintscope.kit.audit import MAILBOX, UserId, user_actor
from mintscope.kit.clock import Clock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.limits import Limits
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS


@dataclass(frozen=True, slots=True)
class TakenBack:
    """The items that an undo link has ended, and the link to set a new password."""

    reset: str  # the last part of the URL of the page on which the owner sets a new password
    ended: Ended


@dataclass(kw_only=True, eq=False, repr=False)
class AddressChanges(AccountService):
    """Changes the e-mail address of a person, and restores accounts by undo links.

    Methods raise ServiceUnavailable; `request` and `confirm` also raise SessionEnded if the session
    has ended.
    """

    limits: InitVar[Limits]
    guesses: InitVar[LoginLimits]

    def __post_init__(self, limits: Limits, guesses: LoginLimits) -> None:
        self._email_limit = EmailLimit(limits)
        self._login_limit = LoginLimit(guesses, limits)

    async def request(self, session: Session, email: EmailAddress) -> bool:
        """E-mail a confirmation link to *email*; return False if a limit of e-mails is reached.

        The account's address does not change until the link is confirmed in a session of the same
        account.  The request counts as a sign-up of the client that signed in.
        Raises EmailTaken, TooManyAttempts.
        """
        # Counted before the look-up, because the response shows whether the address has an account.
        await self._login_limit.sign_up(session.address)
        what = f"change {session.user.user_id}"
        if not await self._email_limit.take(what):
            return False
        nonce = self.entropy(NONCE_BYTES)
        now = self.clock.now()

        def write(rows: AccountRows) -> bool:
            user_id = expect_session(rows, session).user_id
            _expect_free(rows, email, user_id, now)
            day_ago = UnixMs(now - DAY_MS)
            if (
                len(rows.emails.written_to(email, EmailKind.CHANGE_EMAIL, day_ago))
                >= UNVERIFIED_MAX
            ):
                return False  # the address may be a stranger's, and strangers must not be flooded
            rows.proofs.use_up(Purpose.CHANGE_EMAIL, user_id, now)  # only the newest link is valid
            proof_id = rows.proofs.insert(
                NewProof(Purpose.CHANGE_EMAIL, user_id, email, nonce, now)
            )
            rows.emails.insert(EmailKind.CHANGE_EMAIL, email, {}, proof_id, now)
            rows.events.note_own(now, user_id, "asked for another address")
            return True

        try:
            is_written = await self.store.transact(write)
        except (EmailTaken, ServiceUnavailable):
            await self._email_limit.give_back(what)
            raise
        if not is_written:
            await self._email_limit.give_back(what)
        return is_written

    async def find(self, session: Session, link: str) -> EmailAddress | None:
        """Return the address that *link* confirms.

        Return None if the link is invalid or belongs to another account.
        """
        proof = await self.find_proof(link, Purpose.CHANGE_EMAIL)
        if proof is None or proof.subject != session.user.user_id:
            return None
        return proof.email

    async def confirm(self, session: Session, link: str) -> bool:
        """Change the account's address to the one that *link* confirms; end all other sessions.

        Return False if the link is invalid or belongs to another account.  Raises EmailTaken.
        """
        proof = await self.find_proof(link, Purpose.CHANGE_EMAIL)
        if proof is None or proof.subject != session.user.user_id:
            return False
        nonce = self.entropy(NONCE_BYTES)
        now = self.clock.now()

        def confirm(rows: AccountRows) -> bool:
            owner = expect_session(rows, session)
            _expect_free(rows, proof.email, owner.user_id, now)
            if use_proof(rows.proofs, proof.proof_id, Purpose.CHANGE_EMAIL, now) is None:
                return False
            rows.users.update(owner.user_id, email=proof.email, verified_at=now)
            end_sessions(rows, owner.user_id, but=session)
            for purpose in (Purpose.VERIFY_EMAIL, Purpose.RESET_PASSWORD):
                rows.proofs.use_up(purpose, owner.user_id, now)
            if owner.verified_at is not None:  # the owner had verified the old address
                since = session.created_at
                new = NewProof(Purpose.UNDO_EMAIL, owner.user_id, owner.email, nonce, now, since)
                proof_id = rows.proofs.insert(new)
                rows.emails.insert(EmailKind.EMAIL_CHANGED, owner.email, {}, proof_id, now)
            rows.events.note_own(now, owner.user_id, "changed address")
            return True

        return await self.store.transact(confirm)

    async def undo(self, link: str) -> TakenBack | None:
        """Restore the address that *link* was sent to, and undo changes such as new keys.

        Changes that can give a thief lasting access are undone if they were made since the session
        began whose change the e-mail reports.  Every session ends, and the password no longer
        works.  Return None if the link is invalid.

        Raises    EmailTaken if another account has the address, or can get it back by an undo link
        """
        proof = await self.find_proof(link, Purpose.UNDO_EMAIL)
        if proof is None:
            return None
        nonce = self.entropy(NONCE_BYTES)
        now = self.clock.now()
        user_id = UserId(proof.subject)

        def undo(rows: AccountRows) -> TakenBack | None:
            kept = rows.users.get(user_id)
            if kept is None or use_proof(rows.proofs, proof.proof_id, proof.purpose, now) is None:
                return None
            # Otherwise `_expect_free` would find this account itself.
            if kept.user.email != proof.email:
                _expect_free(rows, proof.email, user_id, now)
            since = proof.made_at if proof.since is None else proof.since
            # The links of later changes by the same thief must not restore the thief's address.
            rows.proofs.use_up(Purpose.UNDO_EMAIL, user_id, now, since=proof.made_at)
            for purpose in (Purpose.CHANGE_EMAIL, Purpose.RESET_PASSWORD, Purpose.VERIFY_EMAIL):
                rows.proofs.use_up(purpose, user_id, now)
            rows.users.update(user_id, email=proof.email, verified_at=now, password_hash="")
            ended = end_since(rows, user_id, since, now)
            detail = {name: str(count) for name, count in asdict(ended).items() if count}
            rows.events.note(now, MAILBOX, TOOK_BACK, f"user:{user_id}", **detail)
            reset = NewProof(Purpose.RESET_PASSWORD, user_id, proof.email, nonce, now)
            link = link_text(rows.proofs.insert(reset), self.secrets.link_of(nonce))
            return TakenBack(link, ended)

        return await self.store.transact(undo)


def _expect_free(rows: AccountRows, email: EmailAddress, user_id: UserId, at: UnixMs) -> None:
    """Raise EmailTaken if a person has *email*, or if an undo link can give it to another user."""
    if find_person(rows.users, email) is not None or rows.proofs.holds(email, user_id, at):
        raise EmailTaken


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountContents:
    """The numbers of items in an account, shown to the user before the account is deleted.

    has_application   whether the deletion also deletes an application for an API key
    """

    credits: int
    keys: int
    groups: int
    signals: int
    wallets: int
    has_application: bool


@dataclass(kw_only=True, eq=False, repr=False)
class AccountDeletion:
    """Lists the contents of an account, and deletes it.

    Methods raise ServiceUnavailable; `delete` also raises SessionEnded if the session has ended.
    """

    store: AccountStore
    clock: Clock

    async def contents(self, session: Session) -> AccountContents:
        """Return the credits, active keys and other contents that the user loses by a deletion."""
        user_id = session.user.user_id
        now = self.clock.now()

        def count(rows: AccountRows) -> AccountContents:
            account = rows.credits.find(user_id)
            return AccountContents(
                credits=0 if account is None else rows.credits.balance(account),
                keys=rows.api_keys.count_active(user_id, now),
                groups=len(rows.watchlists.of_user(user_id)),
                signals=len(rows.signals.of_user(user_id)),
                wallets=len(rows.wallets.of_user(user_id)),
                has_application=bool(_own_applications(rows, session.user)),
            )

        return await self.store.read(count)

    async def delete(
        self, session: Session, before: Callable[[AccountRows], None] | None = None
    ) -> None:
        """Delete the account at once and permanently; write an e-mail about this to the owner.

        Keys, sessions and links in e-mails stop working, and the credits can no longer be spent.
        Watchlists, wallets, second factors, the Telegram chat, applications, alerts with their
        firings (sent or not), and the IP addresses and networks of keys are deleted.  The user's
        row is kept, without user name and e-mail address.

        before    a function that is called first in the same transaction; None: no function.  If
                  it raises an error, nothing is deleted, and this method raises the error
        Raises    NotPossible for the last administrator, or if a payment is in progress
        """
        now = self.clock.now()

        def delete(rows: AccountRows) -> None:
            owner = expect_session(rows, session)
            expect_removable(rows, owner)
            if before is not None:
                before(rows)
            actor = user_actor(owner.user_id)
            applications = _own_applications(rows, owner)
            # Before the address is deleted; the e-mail has its own copy of the address.
            rows.emails.tell_owner(owner, EmailKind.ACCOUNT_REMOVED, {}, now)
            erase(rows, owner, actor, now)
            for signup_id in applications:
                forget(rows, signup_id, "forgotten", actor, now)

        await self.store.transact(delete)


def _own_applications(rows: AccountRows, user: User) -> Sequence[SignupId]:
    """Return the ids of this person's applications.

    They are those whose keys belong to the account, even if their address is an earlier address of
    the person or that of a claimed agent.  An application without a key is the person's if it has
    the address of the person, who has verified it.
    """
    own = list(rows.applications.of_user(user.user_id))
    unissued = rows.applications.find(user.email)
    # Anyone can sign up with an address that is not theirs.
    if unissued is not None and unissued.owner is None and user.verified_at is not None:
        own.append(unissued)
    return [kept.application.signup_id for kept in own]
