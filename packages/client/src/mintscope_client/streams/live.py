"""Events of a stream: reports as they change."""

import msgspec

from mintscope_client.endpoints.reports import Report


class LiveReport(msgspec.Struct, frozen=True):
    """The whole report of a token, as of *slot*; at most four a second for each token.

    credits_left    on the credential at the start of the current minute
    """

    slot: int
    report: Report
    credits_left: int | None


class StartedMinute(msgspec.Struct, frozen=True, rename="camel"):
    """Data of the event `minute`: the credits charged for it, and the credits left."""

    credits: int
    credits_remaining: int


class StreamEnd(msgspec.Struct, frozen=True, rename="camel"):
    """Data of the event `end`: the reason, and the number of credits returned."""

    reason: str
    message: str
    credits_returned: int = 0
