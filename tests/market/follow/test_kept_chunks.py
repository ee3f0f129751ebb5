"""Averages of closed candles in files: states that are read late have their original values."""

from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
import pytest
from structlog.testing import capture_logs

from mintscope.market.engine.recent import RECENTS
from mintscope.market.follow import list_files
from mintscope.market.follow.list_files import ListFiles, file_system_of
from mintscope.market.screening.averages import OF_OPEN, OF_RECENT, AverageColumns, Averages
from mintscope.market.screening.columns import (
    IN_MEMORY,
    ROW,
    ListMemory,
    PartChunk,
    closes_of,
)
from mintscope.market.timeframe import TIMEFRAMES, Timeframe

ROWS: Final = 5
OF_M5: Final = RECENTS[1]


def chunk(count: int) -> PartChunk:
    rows = np.arange(0, 2 * count, 2, dtype=np.int32)
    closes = np.linspace(1.0, 2.0, count)
    closes[::3] = np.nan
    return PartChunk(rows, closes, np.arange(count) * 10**12, swaps=rows + np.int32(1))


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_chunk_in_a_file_keeps_all_bits(tmp_path: Path) -> None:
    given = chunk(100)
    kept = ListFiles(tmp_path, rows_min=100).chunk(given)
    assert not isinstance(kept, PartChunk)
    assert kept.row_count == 100
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
    kept = [ListFiles(tmp_path, rows_min=1).chunk(chunk(9)) for _ in range(3)]
    assert open_files() == before + 3
    kept.clear()
    assert open_files() == before


def test_a_short_chunk_stays_in_memory(tmp_path: Path) -> None:
    assert isinstance(ListFiles(tmp_path, rows_min=100).chunk(chunk(99)), PartChunk)


def test_a_chunk_that_cannot_be_written_stays_in_memory(tmp_path: Path) -> None:
    files = ListFiles(tmp_path / "missing", rows_min=1)
    with capture_logs() as logs:
        kept = [files.chunk(chunk(9)) for _ in range(2)]
    assert [type(each) for each in kept] == [PartChunk] * 2
    assert [line["event"] for line in logs] == ["list_kept_in_memory"]


def resident_kib(folder: Path) -> int:
    """Return the resident size, in KiB, of the maps of files in *folder*."""
    found = 0
    is_ours = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            is_ours = str(folder) in line
        elif words[0] == "Rss:" and is_ours:
            found += int(words[1])
    return found


def test_records_in_a_file_remain_after_their_memory_is_released(tmp_path: Path) -> None:
    files = ListFiles(tmp_path, rows_min=100, maps=True)
    few = files.records(99, OF_M5)
    assert few.base is None
    made = files.records(20_000, OF_M5)
    assert not any(made.tobytes())
    made["since"] = np.arange(20_000)
    assert resident_kib(tmp_path) * 1024 > made.nbytes
    files.release()
    assert resident_kib(tmp_path) == 0
    assert made["since"].tolist() == [*range(20_000)]
    assert list(tmp_path.iterdir()) == []  # the file has no name
    del made
    files.release()
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()


def test_records_without_a_file_are_in_memory(tmp_path: Path) -> None:
    files = ListFiles(tmp_path / "missing", rows_min=1, maps=True)
    with capture_logs() as logs:
        assert files.records(9, OF_M5).base is None
    assert [line["event"] for line in logs] == ["list_kept_in_memory"]


def test_no_map_is_made_on_a_file_system_that_copies_on_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On such a file system, a full disk would end a process that writes to a memory map."""
    mounts = tmp_path / "mountinfo"
    copying = tmp_path / "a b"
    place = str(copying).replace(" ", r"\040")
    mounts.write_text(
        "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        f"98 22 0:43 / {place} rw - ext4 /dev/vdb rw\n"
        f"99 98 0:44 / {place} rw - btrfs /dev/vdc rw\n"
    )
    monkeypatch.setattr(list_files, "MOUNTS", mounts)
    assert file_system_of(copying / "data") == "btrfs"
    assert file_system_of(tmp_path) == "ext4"
    assert ListFiles(copying / "data", rows_min=1).records(9, OF_M5).base is None
    assert ListFiles(tmp_path, rows_min=1).records(9, OF_M5).base is not None
    monkeypatch.setattr(list_files, "MOUNTS", tmp_path / "missing")
    assert file_system_of(tmp_path) == ""


@pytest.mark.parametrize("rows", [[0, 2, 4], [5], [198, 3, 4], [500]])
def test_prices_of_rows_are_found(rows: list[int]) -> None:
    given = chunk(100)
    priced = {
        int(row): float(close)
        for row, close in zip(given.rows, given.closes, strict=True)
        if close == close  # noqa: PLR0124 - NaN
    }
    at, closes = closes_of(given, rows)
    found = {rows[place]: close for place, close in zip(at.tolist(), closes.tolist(), strict=True)}
    assert found == {row: priced[row] for row in rows if row in priced}


class Twin:
    """Columns of averages, and the states that `show` returned; two twins get the same trades."""

    def __init__(self, keep: ListMemory = IN_MEMORY) -> None:
        self.columns = AverageColumns(ROWS, keep.records)
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
    """Return the bytes of each column of *state*, and of some columns of earlier candles."""
    found = {name: state.column(name).tobytes() for name in (*OF_OPEN, *OF_RECENT)}
    for name in ("price", "ema9_m5", "macd_m5", "rsi_m5", "atr_m5", "bollinger_lower_m5"):
        found[f"earlier {name}"] = state.earlier(name, Timeframe.M5).tobytes()
    return found


def test_a_state_that_is_read_late_has_its_original_values(tmp_path: Path) -> None:
    """Averages in files, compared at the end, equal averages in memory, copied at once."""
    random = Random(95)
    files = ListFiles(tmp_path, rows_min=1, maps=True)
    late, early = Twin(files), Twin()
    seen: list[dict[str, bytes]] = []
    for step in range(400):
        at = np.array(sorted(random.sample(range(ROWS), random.randrange(1, ROWS))))
        k, usd = random.randrange(len(TIMEFRAMES)), random.uniform(1, 9)
        for each in (late, early):
            each.trade(at, k, usd)
            if step % 90 == 89:
                each.columns.start_row(step % ROWS)
                each.rows["counts"][step % ROWS] = 0
        files.release()
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
