"""A connection that waits for no answer without end: a server that is frozen sends none.

The server's own timeouts end a statement only where the server runs, and what the kernel finds out
about a connection is only that the other kernel answers.
"""

import time
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen
from typing_extensions import override

T = TypeVar("T")

LOOK_S: Final = 0.1
MARGIN_S: Final = 5.0  # for what the server needs to say that it ended a statement


class SilentServer(psycopg.OperationalError):
    """The server neither took nor sent anything for too long; the connection is closed."""


class BoundedConnection(psycopg.Connection[Any]):
    """Closes itself, and raises SilentServer, where the server is silent for *silent_s_max*."""

    silent_s_max: float = MARGIN_S

    @override
    def wait(self, gen: PQGen[T], interval: float = LOOK_S, timeout: float | None = None) -> T:
        """Go on with *gen* as the server answers; return what it returns."""
        return super().wait(self._bounded(gen), interval, timeout)

    def _bounded(self, gen: PQGen[T]) -> PQGen[T]:
        try:
            wanted = next(gen)
            until_s = time.monotonic() + self.silent_s_max
            while True:
                ready = yield wanted
                if ready:
                    until_s = time.monotonic() + self.silent_s_max
                elif time.monotonic() >= until_s:
                    self.pgconn.finish()
                    raise SilentServer(
                        f"expected an answer of the database within {self.silent_s_max:.1f} s"
                    )
                wanted = gen.send(ready)
        except StopIteration as ended:
            result: T = ended.value
            return result
