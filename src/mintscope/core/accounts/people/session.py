"""Sessions of people: kept by the server, ended by it, named by a random id in a cookie."""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, NewType, Protocol, TypedDict, Unpack

from mintscope.base.credentials import CredentialHash
from mintscope.base.primitives import UnixMs
from mintscope.base.time import HOUR_MS, MINUTE_MS
from mintscope.core.accounts.secrets import AccountSecrets
from mintscope.core.accounts.user import User, UserId

SessionId = NewType("SessionId", int)

IDLE_MS: Final = 30 * MINUTE_MS
ABSOLUTE_MS: Final = 12 * HOUR_MS
FRESH_MS: Final = 10 * MINUTE_MS  # how long a password entered counts for what needs it again
NOTE_MS: Final = MINUTE_MS
AGENT_LENGTH_MAX: Final = 200
SESSIONS_PER_USER_MAX: Final = 100
COOKIE_BYTES: Final = 32
COOKIE_LENGTH: Final = 43


class SessionEnded(Exception):
    """The session was ended, elsewhere, while something was being done in it; nothing was."""


class SecondFactorDue(Exception):
    """The password was right, and the second factor is missing; *ticket* names this sign-in."""

    def __init__(self, ticket: str) -> None:
        super().__init__("the second factor is missing")
        self.ticket = ticket


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A signed-in person at one browser.

    proved_at   when the password was last entered in it
    agent       what the browser says it is, cut to 200 characters; not to be trusted
    csrf        the text that every form of this session carries
    """

    session_id: SessionId
    user: User
    created_at: UnixMs
    seen_at: UnixMs
    proved_at: UnixMs
    address: str
    agent: str
    csrf: str

    def is_fresh(self, now: UnixMs) -> bool:
        """Say whether the password was entered a short time ago."""
        return now - self.proved_at < FRESH_MS


@dataclass(frozen=True, slots=True)
class Browser:
    """Where a session begins: the client's address, and what it says it is."""

    address: str
    agent: str


@dataclass(frozen=True, slots=True)
class NewSession:
    """The row of a new session."""

    cookie_hash: CredentialHash
    address: str
    agent: str


def draw_cookie(
    secrets: AccountSecrets, entropy: Callable[[int], bytes], browser: Browser
) -> tuple[str, NewSession]:
    """Return a cookie, 43 characters of base64url, and what is kept of its session."""
    cookie = urlsafe_b64encode(entropy(COOKIE_BYTES)).rstrip(b"=").decode()
    agent = browser.agent[:AGENT_LENGTH_MAX]
    return cookie, NewSession(secrets.hash(cookie), browser.address, agent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """How long sessions last: unused, and at all."""

    idle_ms: int = IDLE_MS
    absolute_ms: int = ABSOLUTE_MS

    def hold(self, session: Session, now: UnixMs) -> bool:
        """Say whether *session* has not expired."""
        is_used = now - session.seen_at < self.idle_ms
        return is_used and now - session.created_at < self.absolute_ms

    def is_to_be_noted(self, session: Session, now: UnixMs) -> bool:
        """Say whether its last use was noted so long ago that this one must be noted too."""
        return now - session.seen_at >= min(NOTE_MS, self.idle_ms // 4)


class SessionChanges(TypedDict, total=False):
    """The columns of a session that may change."""

    seen_at: UnixMs
    proved_at: UnixMs


class SessionRows(Protocol):
    """Sessions inside one transaction, expired or not, of users who are there; `csrf` is empty."""

    def find(self, cookie_hash: CredentialHash) -> Session | None:
        """Return the session of that cookie."""

    def get(self, session_id: SessionId, /) -> Session | None:
        """Return one session, with its user as it is now."""

    def of_user(self, user_id: UserId) -> Sequence[Session]:
        """Return the user's sessions, newest use first."""

    def insert(self, user_id: UserId, new: NewSession, at: UnixMs) -> SessionId:
        """Add a session that begins at *at*."""

    def update(self, session_id: SessionId, /, **changes: Unpack[SessionChanges]) -> None:
        """Change columns of a session."""

    def delete(self, session_ids: Collection[SessionId]) -> None:
        """Delete sessions."""

    def purge(self, *, idle_since: UnixMs, begun_before: UnixMs) -> None:
        """Delete sessions not used since, or begun before, those moments."""
