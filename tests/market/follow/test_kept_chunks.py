"""Closed parts of a list in files, and states of a list that are read late."""

from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
import pytest
from structlog.testing import capture_logs

from mintscope.market.follow.list_cache import ChunkFiles
from mintscope.market.listing.averages import OF_OPEN, OF_RECENT, AverageColumns, Averages
from mintscope.market.listing.columns import ROW, ChunkInMemory, PartChunk, closes_of
from mintscope.market.timeframe import TIMEFRAMES, Timeframe

ROWS: Final = 5


def chunk(count: int) -> PartChunk:
    rows = np.arange(0, 2 * count, 2, dtype=np.int32)
    closes = np.linspace(1.0, 2.0, count)
    closes[::3] = np.nan
    return PartChunk(rows, closes, np.arange(count) * 10**12, swaps=rows + np.int32(1))


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_chunk_in_a_file_has_all_bits(tmp_path: Path) -> None:
    given = chunk(100)
    kept = ChunkFiles(tmp_path, rows_min=100)(given)
    assert not isinstance(kept, ChunkInMemory)
    assert kept.count == 100
    for found, wanted in zip(kept.whole(), given, strict=True):
        if found is None or wanted is None:
            assert found is wanted
        else:
            assert found.dtype == wanted.dtype
            assert found.tobytes() == wanted.tobytes()
    assert kept.column("bought") is None
    assert list(tmp_path.iterdir()) == []  # the file has no name


def test_a_file_is_closed_with_its_chunk(tmp_path: Path) -> None:
    before = open_files()
    kept = [ChunkFiles(tmp_path, rows_min=1)(chunk(9)) for _ in range(3)]
    assert open_files() == before + 3
    kept.clear()
    assert open_files() == before


def test_a_short_chunk_stays_in_memory(tmp_path: Path) -> None:
    assert isinstance(ChunkFiles(tmp_path, rows_min=100)(chunk(99)), ChunkInMemory)


def test_a_chunk_that_cannot_be_written_stays_in_memory(tmp_path: Path) -> None:
    files = ChunkFiles(tmp_path / "missing", rows_min=1)
    with capture_logs() as logs:
        kept = [files(chunk(9)) for _ in range(2)]
    assert [type(each) for each in kept] == [ChunkInMemory] * 2
    assert [line["event"] for line in logs] == ["list_kept_in_memory"]


@pytest.mark.parametrize("rows", [[0, 2, 4], [5], [198, 3, 4], [500]])
def test_prices_of_rows_are_found(rows: list[int]) -> None:
    given = chunk(100)
    priced = {
        int(row): float(close)
        for row, close in zip(given.rows, given.closes, strict=True)
        if close == close  # noqa: PLR0124 - NaN
    }
    at, closes = closes_of(ChunkInMemory(given), rows)
    found = {rows[place]: close for place, close in zip(at.tolist(), closes.tolist(), strict=True)}
    assert found == {row: priced[row] for row in rows if row in priced}


class Twin:
    """Columns that trade as another's do, and the states shown of them."""

    def __init__(self) -> None:
        self.columns = AverageColumns(ROWS)
        self.rows: Any = np.zeros(ROWS, ROW)
        self.states: list[Averages] = []

    def trade(self, at: np.ndarray[Any, Any], k: int, usd: float) -> None:
        self.columns.close(self.rows, at, k)
        self.rows["counts"][at, k] += 1
        prices = np.full((2, len(at)), usd)
        self.columns.note(at, k, prices, np.ones(len(at), np.bool_))
        self.rows["usd"][at] = usd

    def show(self) -> Averages:
        self.states.append(self.columns.shown(self.rows))
        return self.states[-1]


def values(state: Averages) -> dict[str, bytes]:
    """Return each column of *state*, and some of earlier candles."""
    found = {name: state.column(name).tobytes() for name in (*OF_OPEN, *OF_RECENT)}
    for name in ("price", "ema9_m5", "macd_m5", "rsi_m5", "atr_m5", "bollinger_lower_m5"):
        found[f"earlier {name}"] = state.earlier(name, Timeframe.M5).tobytes()
    return found


def test_a_state_that_is_read_late_is_as_it_was() -> None:
    random = Random(95)
    late, early = Twin(), Twin()
    seen: list[dict[str, bytes]] = []
    for step in range(400):
        at = np.array(sorted(random.sample(range(ROWS), random.randrange(1, ROWS))))
        k, usd = random.randrange(len(TIMEFRAMES)), random.uniform(1, 9)
        for each in (late, early):
            each.trade(at, k, usd)
            if step % 90 == 89:
                each.columns.start_row(step % ROWS)
                each.rows["counts"][step % ROWS] = 0
        if random.random() < 0.2:
            late.show()
            state = early.show()
            seen.append(values(state))
            if random.random() < 0.3:  # a reader drops its state
                gone = random.randrange(len(seen))
                del late.states[gone], seen[gone]
    assert len(seen) > 30
    for state, wanted in zip(late.states, seen, strict=True):
        assert values(state) == wanted
        assert state.rsi.tobytes() == state.column("rsi_h1").tobytes()
