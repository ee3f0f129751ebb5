"""Users: people, who sign in with a password, and agents, who only hold an API key."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.email_address import EmailAddress

UserId = NewType("UserId", int)


class UserKind(StrEnum):
    """Who is behind an account."""

    PERSON = "person"
    AGENT = "agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """An account.

    email        a person's own; an agent's is that of its application
    verified_at  when its owner last proved to read that mailbox; None: never
    """

    user_id: UserId
    kind: UserKind
    username: str
    email: EmailAddress
    verified_at: UnixMs | None
    is_administrator: bool
    created_at: UnixMs


def username_of(email: EmailAddress, suffix: str) -> str:
    """Return a user name: what stands before the @, as far as it is plain, and *suffix*."""
    local = email.partition("@")[0].partition("+")[0]
    plain = "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in local)
    return f"{plain.strip('-')[:24] or 'agent'}-{suffix}"
