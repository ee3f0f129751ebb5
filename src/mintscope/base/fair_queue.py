"""Turns of the event loop, for tasks that become ready together.

Sixty payments that are confirmed together would stall every other request for their sum.
"""

import asyncio
from collections import deque


class FairQueue:
    """Lets one go on in each turn of the event loop, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_taken = False

    async def next(self) -> None:
        """Wait for a turn of one's own; with one caller there is no waiting."""
        loop = asyncio.get_running_loop()
        if not self._is_taken:
            self._is_taken = True
            loop.call_soon(self._pass_on)
            return
        turn = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _pass_on(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # who was cancelled needs none
                turn.set_result(None)
                turn.get_loop().call_soon(self._pass_on)
                return
        self._is_taken = False
