"""The processes beside this one: how they are, by the parent of all of them."""

from typing import Final

import msgspec

from mintscope.base.errors import ServiceUnavailable
from mintscope.base.metrics import RESTARTS
from mintscope.edges.api.check import Check
from mintscope.shell.wiring.processes.sibling import Sibling

PARENT_SAYS: Final = "processes"


class Siblings:
    """The last message of the parent; nothing in a process without one.

    is_restart   the parent has started this process again
    """

    def __init__(self, *, has_parent: bool) -> None:
        self._has_parent = has_parent
        self.is_restart = False
        self._known: dict[str, Sibling] = {}

    def hear(self, line: bytes) -> None:
        """Take in a *line* of the parent: every process by its name, in JSON."""
        self._known = msgspec.json.decode(line, type=dict[str, Sibling])
        for name, sibling in self._known.items():
            RESTARTS.labels(name).set(sibling.restarts)

    async def expect_none_stopped(self) -> None:
        """Raise ServiceUnavailable while a process is stopped for good."""
        stopped = sorted(name for name, sibling in self._known.items() if sibling.is_stopped)
        if stopped:
            raise ServiceUnavailable(
                f"{', '.join(stopped)} has ended and is not started again; its log says why"
            )

    @property
    def checks(self) -> list[Check]:
        """The check of /v1/health and /readyz; none without a parent."""
        return [Check(PARENT_SAYS, self.expect_none_stopped)] if self._has_parent else []
