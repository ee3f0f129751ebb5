"""People: sign-up, sign-in, proofs of e-mail addresses, and sessions."""

from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, replace

from mintscope.accounts import factor_rows
from mintscope.accounts import user as person
from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.mail.email import EmailLimit
from mintscope.accounts.rows import AccountRows, AccountService, find_person
from mintscope.accounts.secrets import NONCE_BYTES
from mintscope.accounts.session import (
    COOKIE_LENGTH,
    Browser,
    Lifetimes,
    Purpose,
    SecondFactorDue,
    Session,
    SessionEnded,
    SessionId,
    draw_cookie,
)
from mintscope.accounts.sessions import RESET_BACK_MS, Ended, end_sessions
from mintscope.accounts.user import (
    EmailTaken,
    Hasher,
    LoginLimit,
    LoginLimits,
    WrongPassword,
    expect_password,
)
from mintscope.kit.audit import Event, EventFilter, UserId
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.limits import LimitKey, Limits, site_key
from mintscope.kit.primitives import UnixMs


@dataclass(kw_only=True, eq=False, repr=False)
class People(AccountService):
    """The actions of a person on an account, except on its keys.

    Cookies are 43 random base64url characters, stored as hashes.  If the session has ended
    meanwhile, a method that takes it and changes more than sessions does nothing and raises
    SessionEnded: the owner may have taken the account back from a thief.
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
        await self.store.transact(lambda rows: person.add(rows, new, session))
        return cookie

    async def sign_in(self, email: EmailAddress, password: str, browser: Browser) -> str:
        """Return the cookie of a new session.

        A hash is computed even if no user has *email*, so that the time taken reveals nothing.
        Guesses are limited by e-mail and client address, so strangers cannot lock the owner out.
        Raises    WrongPassword, TooManyAttempts; SecondFactorDue if a second factor is required
        """
        kept = await self._find(email)
        stored = None if kept is None else kept.password_hash
        is_right = await self._guess(email, browser.address, password, stored)
        if kept is None or not is_right:
            raise WrongPassword
        cookie, session = draw_cookie(self.secrets, self.entropy, browser)
        now = self.clock.now()
        if not await self.store.transact(
            lambda rows: person.open_session(rows, kept, session, now)
        ):
            raise SecondFactorDue(cookie)
        return cookie

    async def session(self, cookie: str) -> Session | None:
        """Return the session of *cookie*; None if there is none, or if it has ended.

        The time of the use is stored at most once a minute.
        """
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
                await self.store.transact(lambda rows: person.note_use(rows, session_id, now))
            except ServiceUnavailable:
                pass  # people stay signed in even if the disk is full
            else:
                session = replace(session, seen_at=now)
        return replace(session, csrf=self.secrets.csrf_of(cookie))

    async def prove(self, session: Session, password: str) -> None:
        """Record that the password was entered again.

        Raises WrongPassword, TooManyAttempts, SessionEnded.
        """
        email = session.user.email
        kept = await self._find(email)
        if kept is None or kept.user.user_id != session.user.user_id:
            raise SessionEnded
        place = f"session {session.session_id}"  # guesses in other sessions do not count
        if not await self._guess(email, place, password, kept.password_hash):
            raise WrongPassword
        now = self.clock.now()
        await self.store.transact(lambda rows: person.prove(rows, session, kept, now))

    async def sign_out(self, session: Session) -> None:
        """End the session."""
        await self.end_session(session.user.user_id, session.session_id)

    async def events(
        self, session: Session, before: int | None, limit: int
    ) -> Sequence[tuple[int, Event]]:
        """Return up to *limit* audit-log events of the account and its keys, newest first.

        before   only events with a smaller number; None: all
        """
        user_id = session.user.user_id
        wanted = EventFilter(who=f"user:{user_id}", owner=user_id)
        return await self.store.read(lambda rows: rows.events.newest(before, limit, wanted))

    async def sessions(self, user_id: UserId) -> Sequence[Session]:
        """Return the active sessions, the last used first; their `csrf` is empty."""
        now = self.clock.now()
        kept = await self.store.read(lambda rows: rows.sessions.of_user(user_id))
        return [session for session in kept if self.lifetimes.hold(session, now)]

    async def end_session(self, user_id: UserId, session_id: SessionId) -> bool:
        """End a session of the user; return False if there is no such session."""
        return await self.store.transact(lambda rows: person.end_session(rows, user_id, session_id))

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
        await self.store.transact(
            lambda rows: person.change_password(rows, session, hashed, nonce, now)
        )

    async def rename(self, session: Session, username: str) -> None:
        """Rename the account.  Raises UnusableName, SessionEnded."""
        name = factor_rows.expect_username(username)
        now = self.clock.now()
        await self.store.transact(lambda rows: person.rename(rows, session, name, now))

    async def request_reset(self, email: EmailAddress, browser: Browser) -> None:
        """E-mail a reset link to the person with *email*; do not reveal whether the person exists.

        Nothing is sent if the site of *browser* asks too often.  After 20 e-mails to an address in
        a day, another is sent only if no earlier link stays valid for 30 minutes or more.
        """
        now = self.clock.now()
        site = site_key(browser.address)
        await self._write_one(
            f"reset {email} {site}",
            lambda rows, nonce: person.request_reset(rows, email, nonce, now),
            site,
        )

    async def find_reset(self, link: str) -> EmailAddress | None:
        """Return the address of the account of a reset link; None if the link is invalid."""
        proof = await self.find_proof(link, Purpose.RESET_PASSWORD)
        return None if proof is None else proof.email

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
        since = UnixMs(now - RESET_BACK_MS) if is_taken else None
        return await self.store.transact(
            lambda rows: person.reset(rows, proof.proof_id, hashed, since, now)
        )

    async def request_verification(self, session: Session) -> None:
        """E-mail a verification link, unless too many were sent lately.  Raises SessionEnded."""
        now = self.clock.now()
        await self._write_one(
            f"verify {session.user.user_id}",
            lambda rows, nonce: person.request_verification(rows, session, nonce, now),
        )

    async def verify(self, session: Session, link: str) -> bool:
        """Record that the address is the person's, if the link was sent to this account.

        The link alone does not suffice: the address may belong to a stranger who opens the link.
        """
        proof, now = await self.find_proof(link, Purpose.VERIFY_EMAIL), self.clock.now()
        if proof is None or proof.subject != session.user.user_id:
            return False
        return await self.store.transact(
            lambda rows: person.verify(rows, session, proof.proof_id, now)
        )

    async def claimable(self, session: Session) -> Sequence[factor_rows.User]:
        """Return the agents whose verified address equals the person's verified address."""
        if session.user.verified_at is None:
            return []
        email = session.user.email
        return await self.store.read(lambda rows: person.agents_of(rows, email))

    async def request_claim(self, session: Session, agent: UserId) -> bool:
        """E-mail a claim link, if the limits allow; return False if *agent* is not claimable."""
        if agent not in {user.user_id for user in await self.claimable(session)}:
            return False
        now = self.clock.now()
        await self._write_one(
            f"claim {agent}",
            lambda rows, nonce: person.request_claim(rows, session, agent, nonce, now),
        )
        return True

    async def claim(self, session: Session, link: str) -> factor_rows.User | None:
        """Move the contents of an agent's account to this person; remove and return the agent.

        Return None if the link is invalid, or was sent to an address that is not this person's.
        """
        proof, now = await self.find_proof(link, Purpose.CLAIM_AGENT), self.clock.now()
        if proof is None or proof.email != session.user.email:
            return None
        return await self.store.transact(
            lambda rows: person.claim(rows, session, proof.proof_id, now)
        )

    async def _find(self, email: EmailAddress) -> factor_rows.KeptUser | None:
        return await self.store.read(lambda rows: find_person(rows.users, email))

    async def _guess(
        self, email: EmailAddress, place: str, password: str, stored: str | None
    ) -> bool:
        """Return whether the password is correct; count wrong guesses.  Raises TooManyAttempts."""
        await self._login_limit.begin(email, place)
        try:
            is_right = await self.hasher.matches(password, stored)
        except ServiceUnavailable:
            await self._login_limit.forgive(email, place)
            raise
        if is_right:
            await self._login_limit.forgive(email, place)
        return is_right

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
            await self.store.transact(lambda rows: write(rows, nonce))
        except ServiceUnavailable:
            await self._email_limit.give_back(what, site)
            raise
