"""Turns of the event loop, for tasks that become ready together.

Sixty payments that are confirmed together would stall every other request for their sum.
"""

import asyncio
from collections import deque
from collections.abc import Callable


class FairQueue:
    """Lets one go on in each turn of the event loop, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], bool]] = deque()
        self._is_taken = False

    async def next(self) -> None:
        """Wait for a turn of one's own; with one caller there is no waiting."""
        if self.take():
            return
        turn = asyncio.get_running_loop().create_future()

        def go_on() -> bool:
            if turn.done():  # who was cancelled needs none
                return False
            turn.set_result(None)
            return True

        self.wait(go_on)
        await turn

    def take(self) -> bool:
        """Take the turn that is under way; False if it is taken: then `wait`."""
        if self._is_taken:
            return False
        self._is_taken = True
        asyncio.get_running_loop().call_soon(self._pass_on)
        return True

    def wait(self, go_on: Callable[[], bool]) -> None:
        """Call *go_on* in a turn of its own; it returns False if it did not need one any more."""
        self._waiting.append(go_on)

    def _pass_on(self) -> None:
        while self._waiting:
            go_on = self._waiting.popleft()
            if go_on():
                asyncio.get_running_loop().call_soon(self._pass_on)
                return
        self._is_taken = False
