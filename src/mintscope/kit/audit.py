"""Actors and events of the audit log, and the series of hourly counts."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NewType

from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import HOUR_MS

UserId = NewType("UserId", int)
KeyId = NewType("KeyId", int)

Actor = NewType("Actor", str)

COMMAND_LINE: Final = Actor("command line")
SERVICE: Final = Actor("service")
APPLICANT: Final = Actor("applicant")  # an applicant with the secret of the application
MAILBOX: Final = Actor("mailbox")  # a person who followed a link in an e-mail


def user_actor(user_id: int) -> Actor:
    """Return the actor name of a signed-in user in the audit log."""
    return Actor(f"user:{user_id}")


def key_actor(key_id: int) -> Actor:
    """Return the actor name of a program with an API key in the audit log."""
    return Actor(f"key:{key_id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One row of the audit log; *subject* is `application:3`, `user:7` or `key:5`, for example."""

    at: UnixMs
    actor: Actor
    action: str
    subject: str
    detail: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EventFilter:
    """The events to return; an empty text means all events.

    who      the actor or the subject: `user:7`
    action   how the action begins
    owner    adds the events on the API keys of this user to those of *who*
    """

    who: str = ""
    action: str = ""
    owner: UserId | None = None


EVERYTHING: Final = EventFilter()


HOURS_KEPT: Final = 31 * 24


class HourSeries(StrEnum):
    """Hourly counts besides requests: sums, but LAG_MS is the maximum and FUND the last value."""

    PAID = "paid"  # payments that settled, in the hour when they did: at once or later
    CREDITS_SOLD = "credits_sold"
    CREDITS_USED = "credits_used"
    LAG_MS = "lag_ms"  # age of the newest block
    FUND = "fund"  # lamports of the fee payer that are not reserved, the last of the hour


# A member of HourSeries, or a name from `requests_of`.
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
