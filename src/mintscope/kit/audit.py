"""Actors and events of the audit log, and hourly numbers.

The audit log: what was done to accounts, by whom; rows are only ever added.

Numbers of each hour, of all processes together: what administrators see in plots.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NewType, Protocol

from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import HOUR_MS

UserId = NewType("UserId", int)
KeyId = NewType("KeyId", int)

Actor = NewType("Actor", str)

COMMAND_LINE: Final = Actor("command line")
SERVICE: Final = Actor("service")
APPLICANT: Final = Actor("applicant")  # knows the secret of the application
MAILBOX: Final = Actor("mailbox")  # followed a link that was sent by e-mail


def user_actor(user_id: int) -> Actor:
    """Return the actor name of a signed-in user in the audit log."""
    return Actor(f"user:{user_id}")


def key_actor(key_id: int) -> Actor:
    """Return the actor name of a program with an API key in the audit log."""
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
    """The events to return; an empty text means all events.

    who      did it, or it was done to: `user:7`
    action   what was done begins with
    owner    of *who* events also the events on API keys of this user, by any actor
    """

    who: str = ""
    action: str = ""
    owner: UserId | None = None


EVERYTHING: Final = EventFilter()


class EventRows(Protocol):
    """The audit log inside one transaction."""

    def insert(self, event: Event) -> None:
        """Add *event*."""

    def newest(
        self, before: int | None, limit: int, wanted: EventFilter = EVERYTHING
    ) -> Sequence[tuple[int, Event]]:
        """Return up to *limit* events with their numbers, newest first, older than *before*."""

    def last_at(self, subject: str, action: str) -> UnixMs | None:
        """Return the time of the last *action* on *subject*; None: there was none."""


def note(
    events: EventRows, at: UnixMs, actor: Actor, action: str, subject: str, **detail: str
) -> None:
    """Add an event, with fields as in Event."""
    events.insert(Event(at=at, actor=actor, action=action, subject=subject, detail=detail))


HOURS_KEPT: Final = 31 * 24


class HourSeries(StrEnum):
    """Hourly counts besides requests: sums, but LAG_MS is the maximum and FUND the last value."""

    PAID = "paid"  # payments that settled, in the hour when they did: at once or later
    CREDITS_SOLD = "credits_sold"
    CREDITS_USED = "credits_used"
    LAG_MS = "lag_ms"  # age of the newest block
    FUND = "fund"  # lamports of the fee payer that are not reserved, the last of the hour


# Of a member of HourSeries, or as `requests_of` names it.
Series = str
REQUESTS: Final = "status:"


def requests_of(status: int) -> Series:
    """Return the series that counts requests answered with *status*."""
    return f"{REQUESTS}{status}"


def status_of(series: Series) -> int | None:
    """Return the status whose requests *series* counts; None for a series of another kind."""
    return int(series.removeprefix(REQUESTS)) if series.startswith(REQUESTS) else None


def hour_of(at: UnixMs) -> int:
    """Return the number of the hour that contains *at*, counted since 1970-01-01 UTC."""
    return at // HOUR_MS


class HourRows(Protocol):
    """The hourly numbers, inside one transaction."""

    def add(self, hour: int, values: Mapping[Series, int]) -> None:
        """Add *values* to those of *hour*; LAG_MS stores the maximum, FUND the last value."""

    def since(self, hour: int) -> Mapping[Series, Mapping[int, int]]:
        """Return the numbers since *hour*, by series and hour."""

    def purge(self, before: int) -> None:
        """Delete the numbers of hours before *before*."""
