"""Sessions of people, and the links and codes that prove their e-mail addresses."""

from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NewType, TypedDict

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import User
from mintscope.accounts.secrets import AccountSecrets
from mintscope.kit.credentials import CredentialHash
from mintscope.kit.errors import ErrorCode, InvalidToken
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS, HOUR_MS, MINUTE_MS

SessionId = NewType("SessionId", int)

IDLE_MS: Final = 30 * MINUTE_MS
ABSOLUTE_MS: Final = 12 * HOUR_MS
FRESH_MS: Final = 10 * MINUTE_MS  # how long a proof by password or passkey is valid
NOTE_MS: Final = MINUTE_MS  # a use is stored if the last stored use is older than this
AGENT_LENGTH_MAX: Final = 200
SESSIONS_PER_USER_MAX: Final = 100
COOKIE_BYTES: Final = 32
COOKIE_LENGTH: Final = 43  # of the base64url of COOKIE_BYTES, without padding


class SessionEnded(Exception):
    """The session has ended, or its user may not do the action; the action was not carried out."""


class UserRemoved(
    InvalidToken,
    SessionEnded,
    code=ErrorCode.INVALID_TOKEN,
    text="expected a credential of an account that exists; during this request, the account was"
    " deleted, or became part of another account",
):
    """The user was removed during the request; the action was not carried out.

    The API refuses the API key, and pages redirect to sign-in.
    """


class SecondFactorDue(Exception):
    """The password is correct, but a second factor is required; *ticket* identifies the sign-in."""

    def __init__(self, ticket: str) -> None:
        super().__init__("the second factor is missing")
        self.ticket = ticket


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A signed-in person in one browser.

    proved_at   the time of the last proof by password or passkey in this session
    agent       the User-Agent header of the browser, at most 200 characters; untrusted
    csrf        the CSRF text in every form of this session; "" if the cookie is not known
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
        """Return whether the last proof by password or passkey is less than ten minutes old."""
        return now - self.proved_at < FRESH_MS


@dataclass(frozen=True, slots=True)
class Browser:
    """A client: its IPv4 address or IPv6 /64, and its User-Agent header, which is untrusted."""

    address: str
    agent: str


@dataclass(frozen=True, slots=True)
class NewSession:
    """A new session of a browser: the hash of its cookie, its IP address and its User-Agent."""

    cookie_hash: CredentialHash
    address: str
    agent: str


def draw_text(entropy: Callable[[int], bytes]) -> str:
    """Return a random text for a cookie: 43 base64url characters."""
    return urlsafe_b64encode(entropy(COOKIE_BYTES)).rstrip(b"=").decode()


def draw_cookie(
    secrets: AccountSecrets, entropy: Callable[[int], bytes], browser: Browser
) -> tuple[str, NewSession]:
    """Return a new cookie of 43 base64url characters, and the session to store for it."""
    cookie = draw_text(entropy)
    agent = browser.agent[:AGENT_LENGTH_MAX]
    return cookie, NewSession(secrets.hash(cookie), browser.address, agent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """The lifetimes of sessions, in milliseconds, since the last use and since the start."""

    idle_ms: int = IDLE_MS
    absolute_ms: int = ABSOLUTE_MS

    def hold(self, session: Session, now: UnixMs) -> bool:
        """Return whether *session* is still valid at *now*."""
        is_used = now - session.seen_at < self.idle_ms
        return is_used and now - session.created_at < self.absolute_ms

    def is_to_be_noted(self, session: Session, now: UnixMs) -> bool:
        """Return whether a use at *now* must be stored, because the last stored use is too old."""
        return now - session.seen_at >= min(NOTE_MS, self.idle_ms // 4)


class SessionChanges(TypedDict, total=False):
    """The columns of a session that an update can change."""

    seen_at: UnixMs
    proved_at: UnixMs


ProofId = NewType("ProofId", int)

GUESSES_MAX: Final = 5  # of the code in an e-mail; then only the link is accepted
EVER: Final = UnixMs(0)


class Purpose(StrEnum):
    """The action that an e-mailed link or code allows."""

    CONFIRM_APPLICATION = "confirm_application"
    VERIFY_EMAIL = "verify_email"
    RESET_PASSWORD = "reset_password"  # noqa: S105  not a password
    CLAIM_AGENT = "claim_agent"
    CHANGE_EMAIL = "change_email"
    UNDO_EMAIL = "undo_email"

    @property
    def lifetime_ms(self) -> int:
        """The milliseconds for which a link or code for this purpose is valid."""
        return {
            Purpose.CONFIRM_APPLICATION: 72 * HOUR_MS,
            Purpose.VERIFY_EMAIL: 24 * HOUR_MS,
            Purpose.RESET_PASSWORD: HOUR_MS,
            Purpose.CLAIM_AGENT: HOUR_MS,
            Purpose.CHANGE_EMAIL: 24 * HOUR_MS,
            Purpose.UNDO_EMAIL: 7 * DAY_MS,
        }[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailProof:
    """A proof of an e-mail address: the link in an e-mail, and for an application also the code.

    subject   the ID of the application or user that the proof is about; 0: no user has *email*
    since     for an undo, the beginning of the session whose changes are undone; None: *made_at*
    """

    proof_id: ProofId
    purpose: Purpose
    subject: int
    email: EmailAddress
    nonce: bytes
    made_at: UnixMs
    expires_at: UnixMs
    used_at: UnixMs | None
    guesses: int = 0
    since: UnixMs | None = None

    def is_good(self, purpose: Purpose, now: UnixMs) -> bool:
        """Return whether the link or code may still be used for *purpose*."""
        return self.purpose is purpose and self.used_at is None and now < self.expires_at


@dataclass(frozen=True, slots=True)
class NewProof:
    """A link or code to send to *email*; its fields are described at EmailProof."""

    purpose: Purpose
    subject: int
    email: EmailAddress
    nonce: bytes
    made_at: UnixMs
    since: UnixMs | None = None

    @property
    def expires_at(self) -> UnixMs:
        """The time until which the link or code is valid."""
        return UnixMs(self.made_at + self.purpose.lifetime_ms)


class ProofChanges(TypedDict, total=False):
    """The columns of an e-mail proof that an update can change."""

    used_at: UnixMs
    guesses: int


def link_text(proof_id: ProofId, link: str) -> str:
    """Return the end of an e-mailed link: its ID, a dot, and its secret *link*."""
    return f"{proof_id}.{link}"


def parse_link(text: str) -> tuple[ProofId, str] | None:
    """Return the ID and the secret in *text*, the end of an e-mailed link.

    Return None if *text* is malformed.
    """
    number, dot, link = text.partition(".")
    # 18 digits fit the 64 bits of an id.  isdigit alone would also accept digits of other scripts.
    if not dot or not number.isascii() or not number.isdigit() or len(number) > 18:  # noqa: PLR2004
        return None
    return ProofId(int(number)), link
