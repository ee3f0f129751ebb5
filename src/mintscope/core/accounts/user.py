"""Users: people, who sign in with a password, and agents, who only hold an API key."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NewType, Protocol, TypedDict, Unpack

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.email_address import EmailAddress

UserId = NewType("UserId", int)

USERNAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{1,30}[a-z0-9]")
REMOVED: Final = "removed-"  # what names of accounts begin with that were removed
SUFFIX_BYTES: Final = 4


class UserKind(StrEnum):
    """The kind of user."""

    PERSON = "person"
    AGENT = "agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """An account.

    email              a person's own; an agent's is that of its application
    verified_at        when its owner last proved to read that address; None: never
    has_second_factor  signing in takes more than the password
    """

    user_id: UserId
    kind: UserKind
    username: str
    email: EmailAddress
    verified_at: UnixMs | None
    is_administrator: bool
    created_at: UnixMs
    has_second_factor: bool = False


@dataclass(frozen=True, slots=True)
class KeptUser:
    """A user and the hash of the password; an agent has none."""

    user: User
    password_hash: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewUser:
    """The row of a new user; fields as in User and KeptUser."""

    kind: UserKind
    username: str
    email: EmailAddress
    verified_at: UnixMs | None = None
    password_hash: str | None = None
    created_at: UnixMs


class UserChanges(TypedDict, total=False):
    """The columns of a user that may change."""

    username: str
    email: EmailAddress
    verified_at: UnixMs
    password_hash: str
    administrator: bool
    removed_at: UnixMs


class UserRows(Protocol):
    """Users inside one transaction; a removed user is never returned."""

    def get(self, user_id: UserId, /) -> KeptUser | None:
        """Return one user."""

    def of_email(self, email: EmailAddress, kind: UserKind) -> Sequence[KeptUser]:
        """Return the users of *kind* with that address, newest first; one person at most."""

    def newest(self, before: UserId | None, limit: int) -> Sequence[User]:
        """Return up to *limit* users, newest first, that are older than *before*."""

    def administrators(self) -> Sequence[UserId]:
        """Return every administrator."""

    def insert(self, new: NewUser) -> UserId:
        """Add a user."""

    def hand_over(self, giver: UserId, taker: UserId) -> None:
        """Give every key and every application of *giver* to *taker*."""

    def update(self, user_id: UserId, /, **changes: Unpack[UserChanges]) -> None:
        """Change columns of a user."""


class NameRows(Protocol):
    """User names, of all accounts that ever were, inside one transaction."""

    def is_taken(self, username: str) -> bool:
        """Say whether an account has that name, or had it when it was removed."""


class UnusableName(ValueError):
    """A text that may not be a user name, or one that is taken; the message may be shown."""


def expect_username(text: str) -> str:
    """Return *text* if it may be a user name.  Raises UnusableName."""
    if not USERNAME.fullmatch(text) or text.startswith(REMOVED):
        raise UnusableName("expected 3 to 32 characters: a to z, 0 to 9, and hyphens between them")
    return text


def find_person(users: UserRows, email: EmailAddress) -> KeptUser | None:
    """Return the person of that address."""
    return next(iter(users.of_email(email, UserKind.PERSON)), None)


def username_of(email: EmailAddress, entropy: Callable[[int], bytes]) -> str:
    """Return a user name: what stands before the @, as far as it is plain, and a random suffix."""
    local = email.partition("@")[0].partition("+")[0]
    plain = "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in local)
    return f"{plain.strip('-')[:24] or 'agent'}-{entropy(SUFFIX_BYTES).hex()}"
