"""Counts the clicks and seconds of tasks in the browser."""

import time
from typing import Final

from support.scenes.people.browsing import Visitor

COUNT: Final = """
  addEventListener("click", (event) => {
    if (event.isTrusted && event.detail) window.counted();
  }, true);
"""


class Clicks:
    def __init__(self, visitor: Visitor) -> None:
        self.visitor = visitor
        self.count = 0
        self.token = ""  # the path of the page of the token that moved most
        self._began_s = 0.0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began_s

    async def listen(self) -> None:
        await self.visitor.page.expose_function("counted", self._counted)
        await self.visitor.page.add_init_script(COUNT)

    async def begin(self, path: str) -> None:
        self._began_s = time.monotonic()
        await self.visitor.open(path)
        self.count = 0

    def _counted(self) -> None:
        self.count += 1
