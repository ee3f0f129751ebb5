"""The audit log: what was done to accounts, by whom; rows are only ever added."""

from dataclasses import dataclass, field
from typing import Final, NewType

from mintscope.base.primitives import UnixMs

Actor = NewType("Actor", str)

COMMAND_LINE: Final = Actor("command line")
SERVICE: Final = Actor("service")
APPLICANT: Final = Actor("applicant")  # whoever knows the secret of the application
MAILBOX: Final = Actor("mailbox")  # whoever followed a link that was sent there


def user_actor(user_id: int) -> Actor:
    """Return how the log names a signed-in person."""
    return Actor(f"user:{user_id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One row; *subject* as `application:3`, `user:7`, `key:5`."""

    at: UnixMs
    actor: Actor
    action: str
    subject: str
    detail: dict[str, str] = field(default_factory=dict)
