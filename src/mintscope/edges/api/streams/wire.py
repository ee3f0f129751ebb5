"""What a stream is asked for, and the data of its events, beside those of the market."""

from typing import Annotated

import msgspec

from mintscope.core.market.updates.update import ReportSnapshot, ReportUpdate
from mintscope.edges.api.wire import Wire
from mintscope.edges.server.streams.stream import End


class StreamQuery(Wire):
    """Query of GET /v1/stream."""

    mints: Annotated[
        list[str],
        msgspec.Meta(min_length=1, description="Token mint addresses, separated by commas."),
    ]


class MinuteEvent(Wire):
    """Data of the event `minute`: what was taken for the minute that begins, and what is left."""

    credits: int
    credits_remaining: int


class StreamEvents(Wire):
    """What a stream sends as server-sent events: the name of each, and its data in JSON."""

    minute: MinuteEvent
    snapshot: ReportSnapshot
    update: ReportUpdate
    end: End
