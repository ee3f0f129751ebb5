"""The records of the newest candles of all tokens grow in few steps."""

from typing import Any

import numpy as np

from mintscope.market.engine.recent import RECENTS
from mintscope.market.screening.averages import RecentRows

ROWS = 10_000
CHUNK = 100


def test_few_records_are_copied_and_at_most_twice_as_many_are_made_as_there_are_rows() -> None:
    made: list[int] = []

    def make(count: int, of: np.dtype[Any]) -> Any:
        made.append(count)
        return np.zeros(count, of)

    rows = RecentRows(CHUNK, RECENTS[0], make)
    filled = np.frombuffer(b"\1" * CHUNK * RECENTS[0].itemsize, RECENTS[0])
    for first in range(0, ROWS, CHUNK):
        rows.make_room(first + CHUNK)
        rows.write(np.arange(first, first + CHUNK), filled)

    assert sum(made[:-1]) < 2 * ROWS  # of which each was copied into the next
    assert made[-1] <= 2 * (ROWS + 1)
    assert rows.read(np.arange(ROWS)).tobytes() == filled.tobytes() * (ROWS // CHUNK)
