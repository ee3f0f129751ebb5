"""The audit log: what was done to accounts, by whom; rows are only ever added."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NewType, Protocol

from mintscope.base.primitives import UnixMs

Actor = NewType("Actor", str)

COMMAND_LINE: Final = Actor("command line")
SERVICE: Final = Actor("service")
APPLICANT: Final = Actor("applicant")  # knows the secret of the application
MAILBOX: Final = Actor("mailbox")  # followed a link that was sent by e-mail


def user_actor(user_id: int) -> Actor:
    """Return how the log names a signed-in person."""
    return Actor(f"user:{user_id}")


def key_actor(key_id: int) -> Actor:
    """Return how the log names a program with an API key."""
    return Actor(f"key:{key_id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One row; *subject* as `application:3`, `user:7`, `key:5`."""

    at: UnixMs
    actor: Actor
    action: str
    subject: str
    detail: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events are wanted; an empty text wants all.

    who      did it, or it was done to: `user:7`
    action   what was done begins with
    """

    who: str = ""
    action: str = ""


EVERYTHING: Final = EventFilter()


class EventRows(Protocol):
    """The audit log inside one transaction."""

    def insert(self, event: Event) -> None:
        """Add *event*."""

    def newest(
        self, before: int | None, limit: int, wanted: EventFilter = EVERYTHING
    ) -> Sequence[tuple[int, Event]]:
        """Return up to *limit* events with their numbers, newest first, older than *before*."""


def note(
    events: EventRows, at: UnixMs, actor: Actor, action: str, subject: str, **detail: str
) -> None:
    """Add an event; fields as in Event."""
    events.insert(Event(at=at, actor=actor, action=action, subject=subject, detail=detail))
