"""The check that a gRPC stream gives blocks."""

from typing import Final

from mintscope.base.clock import Clock
from mintscope.base.errors import ServiceUnavailable

SILENT_S: Final = 20.0


class StreamWatch:
    """Fails once no session of a stream has given a block for SILENT_S, or since the start."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._block_at_s = clock.monotonic_s()

    def note_block(self) -> None:
        """Note that a session gives a block now."""
        self._block_at_s = self._clock.monotonic_s()

    async def expect_blocks(self) -> None:
        """Raise ServiceUnavailable while the stream gives no blocks."""
        silent_s = self._clock.monotonic_s() - self._block_at_s
        if silent_s > SILENT_S:
            raise ServiceUnavailable(
                f"no server of geyser.urls gave a block for {silent_s:.0f} s, so chain.rpc_url is"
                " asked for all blocks: the lines stream_ended have the answers of the servers"
            )
