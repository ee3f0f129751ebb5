"""The arrays of a token list grow in few large steps, and not with each token."""

from typing import Any

import numpy as np

from mintscope.kit.primitives import UnixS
from mintscope.market.engine.recent import RECENTS
from mintscope.market.screening.averages import RecentRows
from mintscope.market.screening.columns import NEVER_TRADED, ROW, ListColumns

ROWS = 10_000
CHUNK = 100


def test_records_grow_in_few_steps_to_at_most_twice_the_rows() -> None:
    made: list[int] = []

    def make(count: int, of: np.dtype[Any]) -> Any:
        made.append(count)
        return np.zeros(count, of)

    rows = RecentRows(CHUNK, RECENTS[0], make)
    filled = np.frombuffer(b"\1" * CHUNK * RECENTS[0].itemsize, RECENTS[0])
    for first in range(0, ROWS, CHUNK):
        rows.make_room(first + CHUNK)
        rows.write(np.arange(first, first + CHUNK), filled)

    assert sum(made[:-1]) < 2 * ROWS  # each of these was copied into the next
    assert made[-1] <= 2 * (ROWS + 1)
    assert rows.read(np.arange(ROWS)).tobytes() == filled.tobytes() * (ROWS // CHUNK)


def test_every_byte_of_rows_that_were_added_is_set() -> None:
    """Snapshots store the rows' bytes, so even the padding between fields must be initialized."""
    columns = ListColumns(UnixS(0))
    for count in range(len(columns.rows) + 1, ROWS, CHUNK):
        used = np.full((count, ROW.itemsize), 0x55, np.uint8)  # its memory may be used again below
        del used
        columns.make_room(count)
        assert columns.rows.tobytes() == NEVER_TRADED.tobytes() * len(columns.rows)
