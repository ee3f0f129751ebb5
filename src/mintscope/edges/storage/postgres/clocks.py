"""The clock of this machine beside that of the server, which all replicas share."""

from collections.abc import Callable
from typing import Final, NamedTuple

from mintscope.edges.storage.database import Database, DatabaseAway

CLOCK: Final = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
APART_MS_MAX: Final = 2_000  # between replicas: what is dated by one is read by others


class ClockDifference(NamedTuple):
    """How far our clock is ahead, and by how much that may be wrong."""

    ahead_ms: int
    doubt_ms: int

    @property
    def surely_ahead_ms(self) -> int:
        """How far our clock is ahead; 0 if it may be right."""
        return self.ahead_ms if abs(self.ahead_ms) > self.doubt_ms else 0

    def expect_near(self) -> None:
        """Raise DatabaseAway if our clock is not that of the server."""
        if abs(self.ahead_ms) > APART_MS_MAX + self.doubt_ms:
            raise DatabaseAway(
                f"expected a clock within {APART_MS_MAX} ms of the database's; ours is"
                f" {self.ahead_ms} ms ahead"
            )


def compare_clocks(database: Database, now_ms: Callable[[], int]) -> ClockDifference:
    """Ask the server what time it is; *now_ms*: our clock."""
    before_ms = now_ms()
    server_ms = database.execute(CLOCK).get
    after_ms = now_ms()
    return ClockDifference((before_ms + after_ms) // 2 - server_ms, 1 + (after_ms - before_ms) // 2)
