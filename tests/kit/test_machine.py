"""Checks of disk, memory and write-ahead log, with real files and a real log of SQLite."""

from pathlib import Path

import apsw
import pytest
from prometheus_client import REGISTRY

from mintscope.kit import machine
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.machine import MIB, Machine, disk_free_bytes, memory_free_share


def looked_at(folder: Path, **bounds: float) -> Machine:
    usual = {"disk_bytes_min": 1, "memory_share_min": 0.0, "wal_bytes_max": 2**40}
    return Machine(folder, **(usual | bounds))  # type: ignore[arg-type]


async def test_a_disk_with_too_little_space_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there" / "yet"
    free = disk_free_bytes(folder)
    await looked_at(folder, disk_bytes_min=free // 2).expect_disk()
    with pytest.raises(ServiceUnavailable, match="MiB free on the disk of the data; there are"):
        await looked_at(folder, disk_bytes_min=free * 2).expect_disk()

    looked_at(folder).measure()
    shown = REGISTRY.get_sample_value("mintscope_disk_free_bytes")
    assert shown is not None
    assert abs(shown - disk_free_bytes(folder)) < 1_024 * MIB


async def test_memory_that_runs_out_is_reported(tmp_path: Path) -> None:
    share = memory_free_share()
    assert share is not None
    assert 0 < share < 1
    await looked_at(tmp_path, memory_share_min=share / 2).expect_memory()
    with pytest.raises(ServiceUnavailable, match="of the memory to be free; it is"):
        await looked_at(tmp_path, memory_share_min=1.0).expect_memory()


async def test_the_limit_of_a_control_group_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cached files count as free memory; the test writes the files of a cgroup v2."""
    group = tmp_path / "system.slice" / "mintscope.service"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("1000\n")
    (group / "memory.current").write_text("980\n")
    (group / "memory.stat").write_text("anon 900\ninactive_file 60\nactive_file 20\n")
    own = tmp_path / "own"
    own.write_text("0::/system.slice/mintscope.service\n")
    monkeypatch.setattr(machine, "GROUPS", tmp_path)
    monkeypatch.setattr(machine, "GROUP_OF_PROCESS", own)
    assert memory_free_share() == pytest.approx(0.08)
    (group / "memory.current").write_text("1060\n")
    assert memory_free_share() == 0
    (group / "memory.max").write_text("max\n")
    share = memory_free_share()
    assert share is not None
    assert share != pytest.approx(0.08)


async def test_a_long_write_ahead_log_is_reported(tmp_path: Path) -> None:
    """A read transaction that stays open prevents SQLite from restarting the log."""
    path = tmp_path / "market.sqlite"
    written = apsw.Connection(str(path))
    reading = apsw.Connection(str(path))
    written.execute("PRAGMA journal_mode = WAL")
    written.execute("PRAGMA journal_size_limit = 0")
    written.execute("PRAGMA wal_autocheckpoint = 10")
    written.execute("CREATE TABLE t (x)")
    reading.execute("BEGIN")
    reading.execute("SELECT count(*) FROM t").fetchall()
    looks = looked_at(tmp_path, wal_bytes_max=1 * MIB)
    await looks.expect_short_log()
    for _ in range(300):
        written.execute("INSERT INTO t VALUES (randomblob(4000))")
    with pytest.raises(ServiceUnavailable, match=r"write-ahead log of market\.sqlite"):
        await looks.expect_short_log()

    reading.execute("COMMIT")
    written.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    await looks.expect_short_log()
    reading.close()
    written.close()
