"""Another e-mail address for an account: its reader confirms it, the old one's can undo it.

A thief who changes the address must not keep the account by it.  So the reader of an old address
that was verified gets a link that is good for a week and undoes more than the address: what was
made or changed in the account since the session began that changed it ends as well.  For that week
no other account can have the old address.
"""

from collections.abc import Callable
from dataclasses import InitVar, asdict, dataclass

from mintscope.base.clock import Clock
from mintscope.base.errors import ServiceUnavailable
from mintscope.base.limits import Limits
from mintscope.base.primitives import UnixMs
from mintscope.base.time import DAY_MS
from mintscope.core.accounts.audit import MAILBOX, note, user_actor
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.mail.email import UNVERIFIED_MAX, EmailKind, EmailLimit
from mintscope.core.accounts.people.access import end_sessions, expect_session
from mintscope.core.accounts.people.person import EmailTaken
from mintscope.core.accounts.people.session import Session
from mintscope.core.accounts.people.taking_back import Ended, end_since
from mintscope.core.accounts.proof import (
    EmailProof,
    NewProof,
    ProofId,
    Purpose,
    link_text,
    use_proof,
)
from mintscope.core.accounts.secrets import NONCE_BYTES, AccountSecrets
from mintscope.core.accounts.store import AccountRows, AccountStore, find_proof
from mintscope.core.accounts.user import User, UserId, find_person


@dataclass(frozen=True, slots=True)
class TakenBack:
    """The outcome of an undo; *reset* is the last segment of a link that sets a new password."""

    reset: str
    ended: Ended


@dataclass(kw_only=True, eq=False, repr=False)
class AddressChanges:
    """Changes the e-mail address of a person, and takes such a change back.

    Raises SessionEnded if the session was ended meanwhile, ServiceUnavailable.
    """

    store: AccountStore
    secrets: AccountSecrets
    limits: InitVar[Limits]
    clock: Clock
    entropy: Callable[[int], bytes]

    def __post_init__(self, limits: Limits) -> None:
        self._email_limit = EmailLimit(limits)

    async def request(self, session: Session, email: EmailAddress) -> bool:
        """Write a link to *email*; False: too many were written lately.  Raises EmailTaken.

        Nothing changes before the link is opened in a session of this very account.
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
        """Return the address that the link confirms; None: it is not good, or another account's."""
        proof = await self._find(link, Purpose.CHANGE_EMAIL)
        if proof is None or proof.subject != session.user.user_id:
            return None
        return proof.email

    async def confirm(self, session: Session, link: str) -> bool:
        """Change the address; other sessions end.  False as `find`.  Raises EmailTaken."""
        proof = await self._find(link, Purpose.CHANGE_EMAIL)
        if proof is None or proof.subject != session.user.user_id:
            return False
        nonce = self.entropy(NONCE_BYTES)
        now = self.clock.now()
        return await self.store.transact(lambda rows: _confirm(rows, session, proof, nonce, now))

    async def find_undo(self, link: str) -> EmailAddress | None:
        """Return the address that the link brings back; None: it is not good."""
        proof = await self._find(link, Purpose.UNDO_EMAIL)
        return None if proof is None else proof.email

    async def undo(self, link: str) -> TakenBack | None:
        """Bring the old address back, and end what was done since the thief came in.

        Every session ends, the password opens nothing any more.  None: it is not good.
        Raises    EmailTaken: the address has another account by now
        """
        proof = await self._find(link, Purpose.UNDO_EMAIL)
        if proof is None:
            return None
        nonce = self.entropy(NONCE_BYTES)
        now = self.clock.now()
        found = await self.store.transact(lambda rows: _undo(rows, proof, nonce, now))
        if found is None:
            return None
        reset, ended = found
        return TakenBack(link_text(reset, self.secrets.link_of(nonce)), ended)

    async def _find(self, link: str, purpose: Purpose) -> EmailProof | None:
        return await find_proof(self.store, link, purpose, self.secrets, self.clock.now())


def _request(
    rows: AccountRows, session: Session, email: EmailAddress, nonce: bytes, at: UnixMs
) -> bool:
    owner = expect_session(rows, session)
    _expect_free(rows, email, owner.user_id, at)
    day_ago = UnixMs(at - DAY_MS)
    if len(rows.emails.written_to(email, EmailKind.CHANGE_EMAIL, day_ago)) >= UNVERIFIED_MAX:
        return False  # it may be a stranger's, not to be flooded
    rows.proofs.use_up(Purpose.CHANGE_EMAIL, owner.user_id, at)  # the newest link counts
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
    if owner.verified_at is not None:
        _tell_old(rows, session, owner, nonce, at)
    _note(rows, owner.user_id, "changed address", at)
    return True


def _tell_old(rows: AccountRows, session: Session, owner: User, nonce: bytes, at: UnixMs) -> None:
    """Write to the address that the account had: its reader proved once to be the owner."""
    since = session.created_at
    new = NewProof(Purpose.UNDO_EMAIL, owner.user_id, owner.email, nonce, at, since)
    proof_id = rows.proofs.insert(new)
    rows.emails.insert(EmailKind.EMAIL_CHANGED, owner.email, {}, proof_id, at)


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
    # A change that came later, of the same thief, is not to be undone back to theirs.
    rows.proofs.use_up(Purpose.UNDO_EMAIL, user_id, at, since=proof.made_at)
    for purpose in (Purpose.CHANGE_EMAIL, Purpose.RESET_PASSWORD, Purpose.VERIFY_EMAIL):
        rows.proofs.use_up(purpose, user_id, at)
    rows.users.update(user_id, email=proof.email, verified_at=at, password_hash="")
    ended = end_since(rows, user_id, since, at)
    detail = {name: str(count) for name, count in asdict(ended).items() if count}
    note(rows.events, at, MAILBOX, "took account back", f"user:{user_id}", **detail)
    reset = NewProof(Purpose.RESET_PASSWORD, user_id, proof.email, nonce, at)
    return rows.proofs.insert(reset), ended


def _expect_free(rows: AccountRows, email: EmailAddress, user_id: UserId, at: UnixMs) -> None:
    """Raise EmailTaken if another account has *email*, or may have it again for a while."""
    if find_person(rows.users, email) is not None or rows.proofs.holds(email, user_id, at):
        raise EmailTaken


def _note(rows: AccountRows, user_id: UserId, action: str, at: UnixMs) -> None:
    note(rows.events, at, user_actor(user_id), action, f"user:{user_id}")
