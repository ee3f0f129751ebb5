"""People: signing up, signing in, proving a mailbox, and the sessions in which they do."""

from collections.abc import Sequence
from dataclasses import dataclass

from mintscope.accounts.address import Email
from mintscope.accounts.session import Session, SessionId
from mintscope.accounts.user import User, UserId


class EmailTaken(Exception):
    """There is an account with this address."""


class WrongPassword(Exception):
    """The address or the password is wrong; nobody is told which."""


class TooManyGuesses(Exception):
    """Too many wrong passwords for this address lately; wait *retry_after_s*."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"Too many attempts: wait {retry_after_s} seconds.")
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Browser:
    """Where a session begins: the client's address, and what it says it is."""

    address: str
    agent: str


class PeopleDesk:
    """Everything a person does with an account, except its keys.

    Cookies are 43 characters of base64url from a cryptographic generator, stored as hashes.
    """

    async def sign_up(self, email: Email, password: str, browser: Browser) -> str:
        """Make the account and a session of it; return the session's cookie.

        Raises    EmailTaken, WeakPassword
        """
        raise NotImplementedError

    async def sign_in(self, email: Email, password: str, browser: Browser) -> str:
        """Return the cookie of a new session.

        One password hash, whether the address exists or not.  Guesses are limited per address
        and client, and a stranger's do not lock the owner out.
        Raises    WrongPassword, TooManyGuesses
        """
        raise NotImplementedError

    async def session(self, cookie: str) -> Session | None:
        """Return the session if it is neither ended nor expired, and note that it was used.

        The note is written at most once a minute.
        """
        raise NotImplementedError

    async def prove(self, session: Session, password: str) -> None:
        """Note that the password was entered again.  Raises WrongPassword, TooManyGuesses."""
        raise NotImplementedError

    async def sign_out(self, session: Session) -> None:
        """End the session."""
        raise NotImplementedError

    async def sessions(self, user_id: UserId) -> Sequence[Session]:
        """Return the sessions in force, newest use first; their `csrf` is empty."""
        raise NotImplementedError

    async def end_session(self, user_id: UserId, session_id: SessionId) -> bool:
        """End a session of the user's own; False if there is none."""
        raise NotImplementedError

    async def end_other_sessions(self, session: Session) -> int:
        """End all of the user's sessions but this; return how many."""
        raise NotImplementedError

    async def change_password(self, session: Session, password: str) -> None:
        """Set a new password, end all other sessions, and write to the mailbox.

        Raises    WeakPassword
        """
        raise NotImplementedError

    async def request_reset(self, email: Email) -> None:
        """Write a link to the person of *email*; nothing tells whether there is one.

        At most one letter in five minutes.
        """
        raise NotImplementedError

    async def find_reset(self, link: str) -> Email | None:
        """Return whose password the link resets; None: it is unknown, used, or has expired."""
        raise NotImplementedError

    async def reset(self, link: str, password: str) -> bool:
        """Set the password: the mailbox is proven thereby, and all sessions end.

        An account that had not verified its mailbox before loses its keys too: whoever made
        them may have been somebody else.  False if the link is not good; WeakPassword.
        """
        raise NotImplementedError

    async def request_verification(self, session: Session) -> None:
        """Write a link to the person's mailbox, at most one in five minutes."""
        raise NotImplementedError

    async def verify(self, session: Session, link: str) -> bool:
        """Note that the mailbox is the person's, if the link was sent to this very account.

        It takes the session: a link alone would let whoever registered a stranger's address have
        the stranger confirm it.
        """
        raise NotImplementedError

    async def claimable(self, session: Session) -> Sequence[User]:
        """Return the agent accounts with the mailbox this person has verified."""
        raise NotImplementedError

    async def request_claim(self, session: Session, agent: UserId) -> bool:
        """Write a link to the mailbox of the agent; False if it cannot be claimed."""
        raise NotImplementedError

    async def claim(self, session: Session, link: str) -> User | None:
        """Move the keys of the agent account to this person, and end that account."""
        raise NotImplementedError
