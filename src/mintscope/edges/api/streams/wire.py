"""Requests for a stream, and the data of its events, beside those of the market."""

from typing import Annotated

import msgspec

from mintscope.base.primitives import EACH_ONCE, AddressText, about
from mintscope.base.solana import WSOL
from mintscope.core.market.updates.update import ReportSnapshot, ReportUpdate
from mintscope.edges.api.wire import ReportQuery, Wire
from mintscope.edges.server.streams.stream import End


class StreamQuery(ReportQuery):
    """Query of GET /v1/stream."""

    mints: Annotated[
        list[AddressText],
        msgspec.Meta(
            min_length=1,
            description="Token mint addresses, separated by commas.",
            examples=[[WSOL]],
            extra_json_schema=EACH_ONCE,
        ),
    ]


class MinuteEvent(Wire):
    """Data of the event `minute`: what was taken for the minute that begins, and what is left."""

    credits: Annotated[int, about("Credits that were taken for this minute.", 1)]
    credits_remaining: Annotated[int, about("Credits left.", 41)]


class StreamEvents(Wire):
    """Server-sent events of a stream: the name of each, and its data in JSON."""

    minute: Annotated[MinuteEvent, about("A paid minute begins.")]
    snapshot: Annotated[ReportSnapshot, about("A whole report.")]
    update: Annotated[ReportUpdate, about("Changes since.")]
    end: Annotated[End, about("Why the stream ends.")]
