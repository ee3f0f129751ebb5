"""People: sign-up, sign-in, proofs of e-mail addresses, and sessions."""

from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, replace
from typing import Final

from mintscope.accounts import factor_rows
from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.keys.key import KEYS_SHOWN_MAX, KeyStatus
from mintscope.accounts.mail.email import EmailKind, EmailLimit
from mintscope.accounts.rows import AccountRows, AccountService, find_person, use_proof
from mintscope.accounts.secrets import NONCE_BYTES
from mintscope.accounts.session import (
    COOKIE_LENGTH,
    Browser,
    Lifetimes,
    NewProof,
    Purpose,
    SecondFactorDue,
    Session,
    SessionEnded,
    SessionId,
    draw_cookie,
)
from mintscope.accounts.sessions import (
    CLAIMED,
    RESET,
    RESET_BACK_MS,
    TOOK_BACK,
    Ended,
    announce,
    drop_factors,
    end_sessions,
    end_since,
    expect_session,
    keep_session,
    unlink_telegram,
)
from mintscope.accounts.signups.application import subject_of
from mintscope.accounts.user import (
    EmailTaken,
    Hasher,
    LoginLimit,
    LoginLimits,
    WrongPassword,
    expect_password,
)
from mintscope.accounts.wallets.credits import hand_over
from mintscope.kit.audit import UserId, user_actor
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.limits import LimitKey, Limits, site_key
from mintscope.kit.primitives import UnixMs

NO_USER: Final = 0


@dataclass(kw_only=True, eq=False, repr=False)
class People(AccountService):
    """Sign-up and sign-in of people; their sessions, passwords, names, verification and claims.

    Cookies are 43 random base64url characters, stored as hashes.  Methods raise ServiceUnavailable.
    A method that takes a session, and changes more than sessions, does nothing and raises
    SessionEnded if the session has ended: the owner may have taken the account back from a thief.
    """

    hasher: Hasher
    limits: InitVar[Limits]
    lifetimes: Lifetimes
    guesses: InitVar[LoginLimits]

    def __post_init__(self, limits: Limits, guesses: LoginLimits) -> None:
        self._login_limit = LoginLimit(guesses, limits)
        self._email_limit = EmailLimit(limits)

    async def sign_up(self, email: EmailAddress, password: str, browser: Browser) -> str:
        """Create an account; return the cookie of its first session.

        Raises EmailTaken, WeakPassword, TooManyAttempts.
        """
        expect_password(password, email=email)
        # Counted before the look-up, because the response shows whether the address has an account.
        await self._login_limit.sign_up(browser.address)
        if await self._find(email) is not None:
            raise EmailTaken
        new = factor_rows.NewUser(
            kind=factor_rows.UserKind.PERSON,
            username=factor_rows.username_of(email, self.entropy),
            email=email,
            password_hash=await self.hasher.hash(password),
            created_at=self.clock.now(),
        )
        cookie, session = draw_cookie(self.secrets, self.entropy, browser)

        def add(rows: AccountRows) -> None:
            # Checked again: another request may have taken the address while the hash was computed.
            is_held = rows.proofs.holds(email, NO_USER, new.created_at)
            if is_held or find_person(rows.users, email) is not None:
                raise EmailTaken
            user_id = rows.users.insert(new)
            rows.sessions.insert(user_id, session, new.created_at)
            rows.events.note_own(new.created_at, user_id, "signed up")

        await self.store.transact(add)
        return cookie

    async def sign_in(self, email: EmailAddress, password: str, browser: Browser) -> str:
        """Return the cookie of a new session.

        A hash is computed even if no user has *email*, so that the time taken reveals nothing.
        Guesses are limited by e-mail and client address, so strangers cannot lock the owner out.
        Raises    WrongPassword, TooManyAttempts; SecondFactorDue if a second factor is required
        """
        kept = await self._find(email)
        stored = None if kept is None else kept.password_hash
        async with self._login_limit.password(email, browser.address):
            is_right = await self.hasher.matches(password, stored)
            if kept is None or not is_right:
                raise WrongPassword
        cookie, session = draw_cookie(self.secrets, self.entropy, browser)
        now = self.clock.now()

        def open_session(rows: AccountRows) -> bool:
            # The password may have changed while the hash was computed.
            user = _with_password(rows, kept)
            if user is None:
                raise WrongPassword
            if user.has_second_factor:  # the cookie is then the ticket of the waiting sign-in
                rows.sign_ins.insert(user.user_id, session.cookie_hash, now)
            else:
                keep_session(rows, user.user_id, session, now)
            return not user.has_second_factor

        if not await self.store.transact(open_session):
            raise SecondFactorDue(cookie)
        return cookie

    async def session(self, cookie: str) -> Session | None:
        """Return the session of *cookie*; None if there is none, or if it has ended.

        The time of this use of the session is stored if the last stored use is too old.
        """
        # No such cookie was ever handed out, so the store is not asked.
        if len(cookie) != COOKIE_LENGTH or not cookie.isascii():
            return None
        digest = self.secrets.hash(cookie)
        now = self.clock.now()
        session = await self.store.read(lambda rows: rows.sessions.find(digest))
        if session is None or not self.lifetimes.hold(session, now):
            return None
        if self.lifetimes.is_to_be_noted(session, now):
            session_id = session.session_id
            try:
                await self.store.transact(lambda rows: note_use(rows, session_id, now))
            except ServiceUnavailable:
                pass  # people stay signed in even if the disk is full
            else:
                session = replace(session, seen_at=now)
        return replace(session, csrf=self.secrets.csrf_of(cookie))

    async def prove(self, session: Session, password: str) -> None:
        """Check *password*, and record the time of this proof in the session.

        Raises WrongPassword, TooManyAttempts, SessionEnded.
        """
        email = session.user.email
        kept = await self._find(email)
        if kept is None or kept.user.user_id != session.user.user_id:
            raise SessionEnded
        place = f"session {session.session_id}"  # guesses in other sessions do not count
        async with self._login_limit.password(email, place):
            if not await self.hasher.matches(password, kept.password_hash):
                raise WrongPassword
        now = self.clock.now()

        def note(rows: AccountRows) -> None:
            expect_session(rows, session)
            # The password may have changed while the hash was computed.
            if _with_password(rows, kept) is None:
                raise SessionEnded
            rows.sessions.update(session.session_id, proved_at=now)

        await self.store.transact(note)

    async def sign_out(self, session: Session) -> None:
        """End the session."""
        await self.end_session(session.user.user_id, session.session_id)

    async def sessions(self, user_id: UserId) -> Sequence[Session]:
        """Return the active sessions, the last used first; their `csrf` is empty."""
        now = self.clock.now()
        kept = await self.store.read(lambda rows: rows.sessions.of_user(user_id))
        return [session for session in kept if self.lifetimes.hold(session, now)]

    async def end_session(self, user_id: UserId, session_id: SessionId) -> bool:
        """End a session of the user; return False if there is no such session."""

        def end(rows: AccountRows) -> bool:
            session = rows.sessions.get(session_id)
            if session is None or session.user.user_id != user_id:
                return False
            return rows.sessions.delete(session_id)

        return await self.store.transact(end)

    async def end_other_sessions(self, session: Session) -> int:
        """End all of the user's sessions except this one; return their number."""
        user_id = session.user.user_id
        return await self.store.transact(lambda rows: end_sessions(rows, user_id, but=session))

    async def change_password(self, session: Session, password: str) -> None:
        """Set the password, end other sessions and reset links, and write an e-mail about this.

        Raises WeakPassword, SessionEnded.
        """
        expect_password(password, email=session.user.email)
        hashed, now = await self.hasher.hash(password), self.clock.now()
        nonce = self.entropy(NONCE_BYTES)

        def change(rows: AccountRows) -> None:
            owner = expect_session(rows, session)
            _set_password(rows, owner.user_id, hashed, now)
            announce(rows, owner, EmailKind.PASSWORD_CHANGED, {}, nonce, session.created_at, now)
            end_sessions(rows, owner.user_id, but=session)
            rows.events.note_own(now, owner.user_id, "changed password")

        await self.store.transact(change)

    async def rename(self, session: Session, username: str) -> None:
        """Rename the account.  Raises UnusableName, SessionEnded."""
        factor_rows.expect_username(username)
        now = self.clock.now()

        def rename(rows: AccountRows) -> None:
            owner = expect_session(rows, session)
            if username == owner.username:
                return
            if rows.users.is_taken(username):
                raise factor_rows.UnusableName("this name is taken")
            rows.users.update(owner.user_id, username=username)
            rows.events.note_own(now, owner.user_id, "renamed account")

        await self.store.transact(rename)

    async def request_reset(self, email: EmailAddress, browser: Browser) -> None:
        """E-mail a reset link to the person with *email*; do not reveal whether the person exists.

        A reset link is created for any address, so that the time taken does not show this either.
        Nothing is sent if the network of *browser* asks too often.  After 20 e-mails to an address
        in a day, another is sent only if no earlier link stays valid for 30 minutes or more.
        """
        now = self.clock.now()
        site = site_key(browser.address)

        def write(rows: AccountRows, nonce: bytes) -> None:
            kept = find_person(rows.users, email)
            subject = NO_USER if kept is None else kept.user.user_id
            proof_id = rows.proofs.insert(
                NewProof(Purpose.RESET_PASSWORD, subject, email, nonce, now)
            )
            if kept is not None and rows.emails.may_write_reset(email, now):
                rows.emails.insert(EmailKind.RESET_PASSWORD, email, {}, proof_id, now)

        await self._write_one(f"reset {email} {site}", write, site)

    async def reset(self, link: str, password: str, *, is_taken: bool = False) -> Ended | None:
        """Set the password, record the address as verified, and end all sessions.

        If the address was not verified before, keys are revoked, second factors are removed and the
        Telegram chat is unlinked, too, because a stranger may have added them.

        is_taken   whether another person used the account: changes of the last week are then undone
        Returns    the numbers of ended items; None if the link is invalid
        Raises     WeakPassword
        """
        proof = await self.find_proof(link, Purpose.RESET_PASSWORD)
        if proof is None:
            return None
        expect_password(password, email=proof.email)
        hashed, now = await self.hasher.hash(password), self.clock.now()

        def reset(rows: AccountRows) -> Ended | None:
            user_id = UserId(proof.subject)
            kept = rows.users.get(user_id)
            if use_proof(rows.proofs, proof.proof_id, Purpose.RESET_PASSWORD, now) is None:
                return None
            if kept is None or kept.user.email != proof.email:
                return None
            revoked = 0
            if kept.user.verified_at is None:  # a stranger may have created the keys
                revoked = rows.api_keys.revoke_active(user_id, now)
                drop_factors(rows, user_id)
                unlink_telegram(rows, user_id, user_actor(user_id), now)
                rows.proofs.use_up(Purpose.VERIFY_EMAIL, user_id, now)
            if is_taken:
                ended = end_since(rows, user_id, UnixMs(now - RESET_BACK_MS), now)
                ended = replace(ended, keys=ended.keys + revoked)
                rows.proofs.use_up(Purpose.CHANGE_EMAIL, user_id, now)
                rows.events.note_own(now, user_id, TOOK_BACK)
            else:
                ended = Ended(sessions=end_sessions(rows, user_id), keys=revoked)
            rows.users.update(user_id, verified_at=now)
            owner = replace(kept.user, verified_at=now)
            _set_password(rows, user_id, hashed, now)
            rows.emails.tell_owner(owner, EmailKind.PASSWORD_CHANGED, {}, now)
            rows.events.note_own(now, user_id, RESET, keys_revoked=str(ended.keys))
            return ended

        return await self.store.transact(reset)

    async def request_verification(self, session: Session) -> None:
        """E-mail a verification link, unless too many were sent lately.  Raises SessionEnded."""
        now = self.clock.now()

        def write(rows: AccountRows, nonce: bytes) -> None:
            owner = expect_session(rows, session)
            if rows.emails.may_write(owner, EmailKind.VERIFY_EMAIL, now):
                new = NewProof(Purpose.VERIFY_EMAIL, owner.user_id, owner.email, nonce, now)
                proof_id = rows.proofs.insert(new)
                rows.emails.insert(EmailKind.VERIFY_EMAIL, owner.email, {}, proof_id, now)

        await self._write_one(f"verify {session.user.user_id}", write)

    async def verify(self, session: Session, link: str) -> bool:
        """Record that the person's address is verified.

        Return False if the link is invalid, or was sent for another account.
        """
        proof, now = await self.find_proof(link, Purpose.VERIFY_EMAIL), self.clock.now()
        if proof is None or proof.subject != session.user.user_id:
            return False  # the address may belong to a stranger who opens the link

        def verify(rows: AccountRows) -> bool:
            owner = expect_session(rows, session)
            if use_proof(rows.proofs, proof.proof_id, Purpose.VERIFY_EMAIL, now) is None:
                return False
            rows.proofs.use_up(Purpose.VERIFY_EMAIL, owner.user_id, now)
            rows.users.update(owner.user_id, verified_at=now)
            rows.events.note_own(now, owner.user_id, "verified mailbox")
            return True

        return await self.store.transact(verify)

    async def claimable(self, session: Session) -> Sequence[factor_rows.User]:
        """Return the agents with the person's address, if both have verified it, newest first."""
        return await self.store.read(lambda rows: _claimable(rows, session.user))

    async def request_claim(self, session: Session, agent: UserId) -> bool:
        """E-mail a claim link, if the limits allow.

        Return False if the person cannot claim *agent*.
        """
        if agent not in {user.user_id for user in await self.claimable(session)}:
            return False
        now = self.clock.now()

        def write(rows: AccountRows, nonce: bytes) -> None:
            for user in _claimable(rows, expect_session(rows, session), agent):
                new = NewProof(Purpose.CLAIM_AGENT, agent, user.email, nonce, now)
                proof_id = rows.proofs.insert(new)
                facts = {"username": user.username}
                rows.emails.insert(EmailKind.CLAIM_AGENT, user.email, facts, proof_id, now)

        await self._write_one(f"claim {agent}", write)
        return True

    async def claim(self, session: Session, link: str) -> factor_rows.User | None:
        """Move the contents of an agent's account to this person; remove and return the agent.

        The e-mail address and the name of the agent are deleted, as if its account was deleted.
        Return None if the link is invalid or was sent to another address, or if the agent is not
        claimable.
        """
        proof, now = await self.find_proof(link, Purpose.CLAIM_AGENT), self.clock.now()
        if proof is None or proof.email != session.user.email:
            return None

        def claim(rows: AccountRows) -> factor_rows.User | None:
            owner = expect_session(rows, session)
            agent = next(iter(_claimable(rows, owner, UserId(proof.subject))), None)
            if agent is None:
                return None
            if use_proof(rows.proofs, proof.proof_id, Purpose.CLAIM_AGENT, now) is None:
                return None
            actor = user_actor(owner.user_id)
            for key in rows.api_keys.shown(agent.user_id, now, KEYS_SHOWN_MAX):
                if key.status(now) is KeyStatus.ACTIVE:
                    rows.events.note(now, actor, CLAIMED, f"key:{key.key_id}", hint=key.hint)
            for kept in rows.applications.of_user(agent.user_id):
                rows.events.note(now, actor, CLAIMED, subject_of(kept.application.signup_id))
            rows.users.hand_over(agent.user_id, owner.user_id)
            hand_over(rows, agent.user_id, owner.user_id, now)
            rows.users.update(agent.user_id, removed_at=now)
            rows.users.forget_name(agent.user_id)
            rows.events.note_own(now, owner.user_id, "claimed agent", agent=f"user:{agent.user_id}")
            return agent

        return await self.store.transact(claim)

    async def _find(self, email: EmailAddress) -> factor_rows.KeptUser | None:
        return await self.store.read(lambda rows: find_person(rows.users, email))

    async def _write_one(
        self, what: str, write: Callable[[AccountRows, bytes], None], site: LimitKey | None = None
    ) -> None:
        """Write an e-mail with *write* and a new nonce, unless a limit of e-mails is reached.

        what    the key under which the e-mail is counted
        site    the site of the visitor who asks for the e-mail; None: a signed-in user asks for it
        """
        if not await self._email_limit.take(what, site):
            return
        nonce = self.entropy(NONCE_BYTES)
        try:
            # The nonce is drawn outside, because the engine may run *write* again.
            await self.store.transact(lambda rows: write(rows, nonce))
        except ServiceUnavailable:
            await self._email_limit.give_back(what, site)
            raise


def note_use(rows: AccountRows, session_id: SessionId, at: UnixMs) -> None:
    """Store the time of a use of the session, unless a later time is stored."""
    session = rows.sessions.get(session_id)
    if session is not None and session.seen_at < at:
        rows.sessions.update(session_id, seen_at=at)


def _claimable(
    rows: AccountRows, owner: factor_rows.User, only: UserId | None = None
) -> Sequence[factor_rows.User]:
    """Return the agents with the address of *owner*, if both have verified it, newest first.

    Anyone can sign up, or sign up an agent, with an address that is not theirs.

    only   None: every such agent; otherwise at most the agent with this number
    """
    if owner.verified_at is None:
        return []
    agents = [kept.user for kept in rows.users.of_email(owner.email, factor_rows.UserKind.AGENT)]
    verified = [agent for agent in agents if agent.verified_at is not None]
    return [agent for agent in verified if only in {None, agent.user_id}]


def _with_password(rows: AccountRows, kept: factor_rows.KeptUser) -> factor_rows.User | None:
    """Return *kept* as stored now; None if the user was removed or the password has changed."""
    now_kept = rows.users.get(kept.user.user_id)
    if now_kept is None or now_kept.password_hash != kept.password_hash:
        return None
    return now_kept.user


def _set_password(rows: AccountRows, user_id: UserId, password_hash: str, at: UnixMs) -> None:
    """Store the password hash, and make earlier reset links invalid."""
    rows.users.update(user_id, password_hash=password_hash)
    rows.proofs.use_up(Purpose.RESET_PASSWORD, user_id, at)
