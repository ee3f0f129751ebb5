"""The records of the newest candles of all tokens grow in few steps."""

from typing import Any

import numpy as np

from mintscope.market.engine.recent import RECENTS
from mintscope.market.screening.averages import RESTORED_GROW, RecentRows

ROWS = 10_000
CHUNK = 100


def test_a_restore_copies_few_records_and_makes_no_more_than_one_for_each_row() -> None:
    made: list[int] = []

    def make(count: int, of: np.dtype[Any]) -> Any:
        made.append(count)
        return np.zeros(count, of)

    rows = RecentRows(ROWS, RECENTS[0], make)
    filled = np.frombuffer(b"\1" * CHUNK * RECENTS[0].itemsize, RECENTS[0])
    for first in range(0, ROWS, CHUNK):
        rows.write(np.arange(first, first + CHUNK), filled, RESTORED_GROW)

    assert sum(made[:-1]) < 2 * ROWS  # of which each was copied into the next
    assert made[-1] == ROWS + 1
    assert rows.read(np.arange(ROWS)).tobytes() == filled.tobytes() * (ROWS // CHUNK)
