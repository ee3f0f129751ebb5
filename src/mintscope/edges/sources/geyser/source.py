"""A Source over a gRPC stream that JSON-RPC repairs."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass, field, replace

from mintscope.base.clock import Clock
from mintscope.base.finality import FinalityMeter
from mintscope.base.primitives import Slot
from mintscope.base.solana import Tip, Update
from mintscope.edges.sources.geyser.believable import Believable
from mintscope.edges.sources.geyser.node import StreamedNode
from mintscope.edges.sources.geyser.stream import WATCHDOG_S, GeyserEndpoint, Stream
from mintscope.edges.sources.geyser.watch import StreamWatch
from mintscope.edges.sources.node import Node
from mintscope.edges.sources.poll import Poller, Polling, Progress

SHORTEST_MS = 1
# The stream has finality by itself: to look costs next to nothing.
FINALITY_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class GeyserSource:
    """The endpoints in order of preference; *programs* are the addresses blocks are filtered by.

    The poller decides what follows what; the stream only answers it faster than a node.  *meter*
    measures the finality of the chain; *watch* notes the blocks of the stream.
    """

    endpoints: Sequence[GeyserEndpoint]
    programs: Sequence[str]
    repairer: Node
    polling: Polling
    _: KW_ONLY
    clock: Clock
    watchdog_s: float = WATCHDOG_S
    progress: Progress | None = None
    owed_since: dict[Slot, float] = field(default_factory=dict)
    meter: FinalityMeter = field(default_factory=FinalityMeter)
    watch: StreamWatch | None = None

    async def genesis_hash(self) -> str | None:
        """Return the repairer's; None if it refuses.  An unreachable one is waited for."""
        return await Poller(self.repairer, self.polling, clock=self.clock).genesis_hash()

    async def updates(self, after: Tip | None) -> AsyncGenerator[Update, None]:
        """Yield blocks in order, finality and gaps; never ends.  Raises as the poller does."""
        stream = Stream(
            self.endpoints,
            self.programs,
            believable=Believable(self.repairer, self.clock),
            clock=self.clock,
            watchdog_s=self.watchdog_s,
            watch=self.watch,
        )
        node = StreamedNode(
            stream,
            self.repairer,
            self.clock,
            poll_s=self.polling.poll_interval_ms / 1000,
            gap_after_s=self.polling.gap_after_s,
        )
        # The node itself waits for news, and for the pause while it polls.
        polling = replace(
            self.polling,
            poll_interval_ms=SHORTEST_MS,
            fast_finality_every_s=FINALITY_EVERY_S,
            asks_ahead=False,
        )
        poller = Poller(
            node,
            polling,
            clock=self.clock,
            progress=self.progress,
            owed_since=self.owed_since,
            meter=self.meter,
        )
        running = asyncio.create_task(stream.run())
        try:
            async with aclosing(poller.updates(after)) as updates:
                async for update in updates:
                    if running.done():
                        running.result()
                    yield update
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
