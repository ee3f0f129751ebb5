"""People: signing up, signing in, proving a mailbox, and the sessions in which they do."""

from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mintscope.base.clock import Clock
from mintscope.base.errors import ServiceUnavailable
from mintscope.base.limits import Limits, site_key
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.mail.email_limit import EmailLimit
from mintscope.core.accounts.people.login_limit import LoginLimit, LoginLimits
from mintscope.core.accounts.people.password import Hasher, expect_password
from mintscope.core.accounts.people.session import (
    AGENT_LENGTH_MAX,
    Lifetimes,
    NewSession,
    Session,
    SessionEnded,
    SessionId,
)
from mintscope.core.accounts.people.store import NewPerson, PeopleStore, SessionStore
from mintscope.core.accounts.proof import Proof, Purpose, parse_link
from mintscope.core.accounts.secrets import NONCE_BYTES, AccountSecrets
from mintscope.core.accounts.user import User, UserId, username_of

__all__ = ["Browser", "EmailTaken", "People", "SessionEnded", "WrongPassword"]

COOKIE_BYTES: Final = 32
COOKIE_LENGTH: Final = 43
SUFFIX_BYTES: Final = 4


class EmailTaken(Exception):
    """There is an account with this address."""


class WrongPassword(Exception):
    """The address or the password is wrong; nobody is told which."""


@dataclass(frozen=True, slots=True)
class Browser:
    """Where a session begins: the client's address, and what it says it is."""

    address: str
    agent: str


class People:
    """Everything a person does with an account, except its keys.

    Cookies are 43 characters of base64url from a cryptographic generator, stored as hashes.
    Whatever is done in a session raises SessionEnded if that was ended a moment before.
    """

    def __init__(  # noqa: PLR0913 - one argument for each part
        self,
        *,
        people: PeopleStore,
        sessions: SessionStore,
        hasher: Hasher,
        secrets: AccountSecrets,
        limits: Limits,
        clock: Clock,
        entropy: Callable[[int], bytes],
        lifetimes: Lifetimes | None = None,
        guesses: LoginLimits | None = None,
    ) -> None:
        self._people = people
        self._sessions = sessions
        self._hasher = hasher
        self._secrets = secrets
        self._clock = clock
        self._entropy = entropy
        self._lifetimes = lifetimes or Lifetimes()
        self._guard = LoginLimit(guesses or LoginLimits(), limits)
        self._letters = EmailLimit(limits)

    async def sign_up(self, email: EmailAddress, password: str, browser: Browser) -> str:
        """Make the account and a session of it; return the session's cookie.

        Raises    EmailTaken, WeakPassword, TooManyAttempts
        """
        expect_password(password, email=email)
        await self._guard.sign_up(browser.address)
        if await self._people.find(email) is not None:
            raise EmailTaken
        person = NewPerson(
            email=email,
            username=username_of(email, self._entropy(SUFFIX_BYTES).hex()),
            password_hash=await self._hasher.hash(password),
        )
        cookie, session = self._draw(browser)
        if not await self._people.add(person, session, self._clock.now()):
            raise EmailTaken
        return cookie

    async def sign_in(self, email: EmailAddress, password: str, browser: Browser) -> str:
        """Return the cookie of a new session.

        One password hash, whether the address exists or not.  Guesses are limited per address
        and client, and a stranger's do not lock the owner out.
        Raises    WrongPassword, TooManyAttempts
        """
        person = await self._people.find(email)
        stored = None if person is None else person.password_hash
        is_right = await self._guess(email, browser.address, password, stored)
        if person is None or not is_right:
            raise WrongPassword
        cookie, session = self._draw(browser)
        if not await self._sessions.open(person, session, self._clock.now()):
            raise WrongPassword  # it was changed while this one was being hashed
        return cookie

    async def session(self, cookie: str) -> Session | None:
        """Return the session if it is neither ended nor expired, and note that it was used.

        The note is written at most once a minute.
        """
        if len(cookie) != COOKIE_LENGTH or not cookie.isascii():
            return None
        session = await self._sessions.find(self._secrets.hash(cookie))
        now = self._clock.now()
        if session is None or not self._lifetimes.hold(session, now):
            return None
        if self._lifetimes.is_to_be_noted(session, now):
            try:
                await self._sessions.note_use(session.session_id, now)
            except ServiceUnavailable:
                pass  # a full disk is no reason to sign people out
            else:
                session = replace(session, seen_at=now)
        return replace(session, csrf=self._secrets.csrf_of(cookie))

    async def prove(self, session: Session, password: str) -> None:
        """Note that the password was entered again.

        Raises    WrongPassword, TooManyAttempts
        """
        person = await self._people.find(session.user.email)
        if person is None or person.user.user_id != session.user.user_id:
            raise SessionEnded
        place = f"session {session.session_id}"  # only whoever is in it can use up its guesses
        email = session.user.email
        if not await self._guess(email, place, password, person.password_hash):
            raise WrongPassword
        await self._sessions.prove(session, person, self._clock.now())

    async def sign_out(self, session: Session) -> None:
        """End the session."""
        await self._sessions.end(session.user.user_id, session.session_id)

    async def sessions(self, user_id: UserId) -> Sequence[Session]:
        """Return the sessions in force, newest use first; their `csrf` is empty."""
        now = self._clock.now()
        kept = await self._sessions.of_user(user_id)
        return [session for session in kept if self._lifetimes.hold(session, now)]

    async def end_session(self, user_id: UserId, session_id: SessionId) -> bool:
        """End a session of the user's own; False if there is none."""
        return await self._sessions.end(user_id, session_id)

    async def end_other_sessions(self, session: Session) -> int:
        """End all of the user's sessions but this; return how many."""
        return await self._sessions.end_others(session)

    async def change_password(self, session: Session, password: str) -> None:
        """Set a new password, end all other sessions, and write to the mailbox.

        Raises    WeakPassword
        """
        expect_password(password, email=session.user.email)
        hashed = await self._hasher.hash(password)
        await self._people.change_password(session, hashed, self._clock.now())

    async def request_reset(self, email: EmailAddress, browser: Browser) -> None:
        """Write a link to the person of *email*; nothing tells whether there is one.

        Whoever asks too often, at one site, is not heard; what others ask does not count for them.
        """
        now = self._clock.now()
        await self._write_one(
            f"reset {email} {site_key(browser.address)}",
            lambda nonce: self._people.request_reset(email, nonce, now),
        )

    async def find_reset(self, link: str) -> EmailAddress | None:
        """Return whose password the link resets; None: it is unknown, used, or has expired."""
        proof = await self._find_proof(link, Purpose.RESET_PASSWORD)
        return None if proof is None else proof.email

    async def reset(self, link: str, password: str) -> bool:
        """Set the password: the mailbox is proven thereby, and all sessions end.

        An account that had not verified its mailbox before loses its keys too: whoever made
        them may have been somebody else.  False if the link is not good; WeakPassword.
        """
        proof = await self._find_proof(link, Purpose.RESET_PASSWORD)
        if proof is None:
            return False
        expect_password(password, email=proof.email)
        hashed = await self._hasher.hash(password)
        return await self._people.reset(proof.proof_id, hashed, self._clock.now())

    async def request_verification(self, session: Session) -> None:
        """Write a link to the person's mailbox, with growing pauses."""
        now = self._clock.now()
        await self._write_one(
            f"verify {session.user.user_id}",
            lambda nonce: self._people.request_verification(session, nonce, now),
        )

    async def verify(self, session: Session, link: str) -> bool:
        """Note that the mailbox is the person's, if the link was sent to this very account.

        It takes the session: a link alone would let whoever registered a stranger's address have
        the stranger confirm it.
        """
        proof = await self._find_proof(link, Purpose.VERIFY_EMAIL)
        if proof is None or proof.subject != session.user.user_id:
            return False
        return await self._people.verify(session, proof.proof_id, self._clock.now())

    async def claimable(self, session: Session) -> Sequence[User]:
        """Return the agent accounts with the mailbox this person has verified."""
        if session.user.verified_at is None:
            return []
        return await self._people.agents(session.user.email)

    async def request_claim(self, session: Session, agent: UserId) -> bool:
        """Write a link to the mailbox of the agent, with growing pauses.

        False if it cannot be claimed by this person.
        """
        if agent not in {user.user_id for user in await self.claimable(session)}:
            return False
        now = self._clock.now()
        await self._write_one(
            f"claim {agent}", lambda nonce: self._people.request_claim(session, agent, nonce, now)
        )
        return True

    async def claim(self, session: Session, link: str) -> User | None:
        """Move the keys of the agent account to this person, and end that account.

        Return the agent; None if the link is not good, or its mailbox is not this person's.
        """
        proof = await self._find_proof(link, Purpose.CLAIM_AGENT)
        if proof is None or proof.email != session.user.email:
            return None
        return await self._people.claim(session, proof.proof_id, self._clock.now())

    async def _guess(
        self, email: EmailAddress, place: str, password: str, stored: str | None
    ) -> bool:
        """Say whether the password is right; if it is not, it counts.  Raises TooManyAttempts."""
        await self._guard.begin(email, place)
        try:
            is_right = await self._hasher.matches(password, stored)
        except ServiceUnavailable:
            await self._guard.forgive(email, place)
            raise
        if is_right:
            await self._guard.forgive(email, place)
        return is_right

    async def _find_proof(self, text: str, purpose: Purpose) -> Proof | None:
        parts = parse_link(text)
        proof = None if parts is None else await self._people.find_proof(parts[0])
        if parts is None or proof is None or not proof.is_good(purpose, self._clock.now()):
            return None
        return proof if self._secrets.is_link_of(proof.nonce, parts[1]) else None

    async def _write_one(self, what: str, write: Callable[[bytes], Awaitable[None]]) -> None:
        """Let *write* write a letter, of a fresh nonce, unless one about *what* went lately."""
        if not await self._letters.take(what):
            return
        try:
            await write(self._entropy(NONCE_BYTES))
        except ServiceUnavailable:
            await self._letters.give_back(what)
            raise

    def _draw(self, browser: Browser) -> tuple[str, NewSession]:
        """Return a new cookie, and what is kept of its session."""
        cookie = urlsafe_b64encode(self._entropy(COOKIE_BYTES)).rstrip(b"=").decode()
        agent = browser.agent[:AGENT_LENGTH_MAX]
        return cookie, NewSession(self._secrets.hash(cookie), browser.address, agent)
