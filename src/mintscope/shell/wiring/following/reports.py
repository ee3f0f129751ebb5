"""The reports, kept by each api process, and the streams of their changes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mintscope.base.clock import Clock
from mintscope.core.market.coverage import CoverageReader
from mintscope.core.market.engine.live import LiveMarket
from mintscope.core.market.log import LogReader
from mintscope.edges.follow.broadcaster import Broadcaster
from mintscope.edges.follow.coverage import CoverageFollower
from mintscope.edges.follow.follower import Follower
from mintscope.edges.server.streams.streams import StreamBounds, Streams
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.kernels import telling_what_is_compiled
from mintscope.shell.wiring.maintenance import running
from mintscope.shell.wiring.storage.notices import waiting


@asynccontextmanager
async def following(
    config: Config, reader: LogReader, coverage: CoverageReader, clock: Clock
) -> AsyncIterator[tuple[Follower, Streams, CoverageFollower]]:
    """Follow *reader* and *coverage* during the block, and look after streams."""
    with telling_what_is_compiled():
        market = LiveMarket(config.market.live_mints_max)
    async with waiting(config) as wait:
        follower = Follower(reader, market, clock, wait=wait)
        streams = Streams(Broadcaster(follower, market, clock), clock, stream_bounds(config))
        covered = CoverageFollower(coverage, market.cover, share_min=config.api.read_share_min)
        await covered.try_to_look()  # so that the first report has it
        async with (
            running(follower.run, "follow"),
            running(streams.run, "streams"),
            running(covered.run, "coverage"),
        ):
            yield follower, streams, covered


def stream_bounds(config: Config) -> StreamBounds:
    """Return the bounds of streams in *config*.

    One whose client reads nothing ends in half of the time that an answer may be left unread, so
    that it can learn why.
    """
    return StreamBounds(
        streams_max=config.streams.open_max,
        streams_per_account_max=config.streams.per_account_max,
        mints_max=config.streams.mints_max,
        behind_s_max=config.api.answer_timeout_s / 2,
        stale_after_s=config.api.stale_after_s,
    )
