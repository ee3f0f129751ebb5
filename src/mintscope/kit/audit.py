"""Actors and events of the audit log, and the names of the series of hourly values."""

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
APPLICANT: Final = Actor("applicant")  # someone with the secret of an application
MAILBOX: Final = Actor("mailbox")  # someone who followed a link in an e-mail


def user_actor(user_id: int) -> Actor:
    """Return the audit log's name for the signed-in user *user_id*."""
    return Actor(f"user:{user_id}")


def key_actor(key_id: int) -> Actor:
    """Return the audit log's name for a program that uses the API key *key_id*."""
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
    """Selects events of the audit log; an empty text or None selects all."""

    who: str = ""  # the actor or the subject of an event, for example `user:7`
    action: str = ""  # the text with which the action of an event begins
    owner: UserId | None = None  # with *who*: also the events on API keys of this user


EVERYTHING: Final = EventFilter()


HOURS_KEPT: Final = 31 * 24


class HourSeries(StrEnum):
    """Values that are stored for each hour: sums, except LAG_MS (maximum) and FUND (last value).

    Requests are counted in further series, one for each HTTP status: see `requests_of`.
    """

    PAID = "paid"  # payments, counted in the hour in which their purchase was issued
    CREDITS_SOLD = "credits_sold"
    CREDITS_USED = "credits_used"
    LAG_MS = "lag_ms"  # age of the newest block, in milliseconds
    FUND = "fund"  # unreserved lamports of the fee payer at the end of the hour


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
