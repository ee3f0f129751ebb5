"""A queue that lets at most one task go on in each iteration of the event loop.

Without the queue, sixty payments that are confirmed together would delay all other requests by the
total time of the sixty.
"""

import asyncio
from collections import deque
from collections.abc import Callable

import structlog

log = structlog.get_logger()


class FairQueue:
    """Resumes the tasks that wait, one in each iteration of the event loop, in order of arrival."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], bool]] = deque()
        self._is_taken = False

    async def next(self) -> None:
        """Wait until no other caller goes on in the same iteration of the event loop.

        Returns at once if the current iteration is free.
        """
        if self.take():
            return
        turn = asyncio.get_running_loop().create_future()

        def go_on() -> bool:
            if turn.done():  # the caller was cancelled
                return False
            turn.set_result(None)
            return True

        self.wait(go_on)
        await turn

    def take(self) -> bool:
        """Reserve this iteration of the event loop; return whether it was still free."""
        if self._is_taken:
            return False
        self._is_taken = True
        asyncio.get_running_loop().call_soon(self._pass_on)
        return True

    def wait(self, go_on: Callable[[], bool]) -> None:
        """Call *go_on* in a later iteration of the event loop, when the callers before it are done.

        *go_on* returns whether it has used the iteration.  If it raises an error, the error is
        logged, and the next caller goes on.  Use this only after `take` has returned False:
        otherwise *go_on* may never be called.
        """
        self._waiting.append(go_on)

    def _pass_on(self) -> None:
        while self._waiting:
            go_on = self._waiting.popleft()
            # `_is_taken` stays True, so that no newcomer overtakes those that wait.
            try:
                is_used = go_on()
            except Exception:
                log.exception("queued work failed")
                is_used = False
            if is_used:
                asyncio.get_running_loop().call_soon(self._pass_on)
                return
        self._is_taken = False
