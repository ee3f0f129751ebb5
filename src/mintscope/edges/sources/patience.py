"""How long to wait for a node that gives no usable answer."""

from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from mintscope.edges.sources.rpc import RpcFailure, RpcRefused

log = structlog.get_logger()

FAILURE_PAUSE_S: Final = 0.5
FAILURE_PAUSE_S_MAX: Final = 30.0

Sleep = Callable[[float], Awaitable[None]]


class Patience:
    """Waits while a node gives no usable answers, longer each time in a row."""

    def __init__(self, sleep: Sleep) -> None:
        self._sleep = sleep
        self._pause_s = FAILURE_PAUSE_S

    async def wait(self, failure: RpcFailure) -> None:
        """Log *failure* and pause."""
        event = "chain_refused" if isinstance(failure, RpcRefused) else "chain_unreachable"
        log.warning(event, reason=str(failure), pause_s=self._pause_s)
        await self._sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 2, FAILURE_PAUSE_S_MAX)

    def renew(self) -> None:
        """Begin with the shortest pause again: the node has answered."""
        self._pause_s = FAILURE_PAUSE_S
