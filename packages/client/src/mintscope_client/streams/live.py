"""The reports that a stream yields."""

import msgspec

from mintscope_client.endpoints.reports import Report


class LiveReport(msgspec.Struct, frozen=True):
    """The whole report of a token after *slot*; at most four reports a second per token.

    credits_left    the number of credits left on the credential after the charge for the current
                    minute; None: no minute has been charged yet
    """

    slot: int
    report: Report
    credits_left: int | None


class StartedMinute(msgspec.Struct, frozen=True, rename="camel"):
    """The data of the stream's event `minute`: the credits charged for it, and the credits left."""

    credits: int
    credits_remaining: int


class StreamEnd(msgspec.Struct, frozen=True, rename="camel"):
    """The data of the stream's event `end`: the reason, and the number of credits given back."""

    reason: str
    message: str
    credits_returned: int = 0
