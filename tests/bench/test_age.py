"""The benchmark `make age` fills stores without contradictions, and judges by its rules."""

import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Final

import apsw
import pytest
from bench.age.__main__ import Measured, line, missed
from bench.age.costs import Cost, Start, cost_so_far, waits
from bench.age.filling import Age
from bench.age.places import PLACES, Traded

from mintscope.app.stores.folder import MARKET_FILE, MONEY_FILE
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql.sqlite import open_store
from mintscope.kit.time import DAY_MS
from support.scenes.payments.audited import violations_of
from support.scenes.stores import money_in

NOW: Final = UnixMs(1_790_000_000_000)
SMALL: Final = Age(seen=300, followed=20, candles=200, entries=4_001)

UNLIKE_THE_JOURNAL: Final = f"""
WITH spent (account, day, credits) AS (
    SELECT account, at / {DAY_MS}, -sum(delta) FROM credit_entry WHERE kind = 'spend'
     GROUP BY account, at / {DAY_MS})
SELECT * FROM (SELECT * FROM spent EXCEPT SELECT * FROM credit_day)
 UNION ALL
SELECT * FROM (SELECT * FROM credit_day EXCEPT SELECT * FROM spent)
"""


async def test_a_made_store_is_upgraded_and_its_books_are_sound(tmp_path: Path) -> None:
    with PLACES["sqlite"](tmp_path) as place:
        place.make(SMALL, Traded(b"state", 1, None), NOW)
        folder = Path(place.settings["MINTSCOPE_DATA_DIR"])
        open_store(folder / MARKET_FILE, "market").close()
        async with money_in(folder, clock=ManualClock(NOW)) as money:
            assert await money.credits.contradictions() == []
            assert await violations_of(money.books, now=NOW) == []
            walked = await money.books.walked()
        with closing(apsw.Connection(str(folder / MONEY_FILE))) as raw:
            assert raw.execute("SELECT count(*) FROM credit_entry").get == SMALL.entries
            assert raw.execute("SELECT count(*) FROM closed_month").get == 12
            assert raw.execute(UNLIKE_THE_JOURNAL).fetchall() == []

    assert walked.closed is not None
    assert walked.entry_count < SMALL.entries / 12


def at(
    share: float,
    cpu_s: float,
    wall_s: float = 0.0,
    step: str = "doctor",
    idle_s: tuple[float, float] | None = None,
) -> Measured:
    return Measured("sqlite", step, share, Cost(wall_s, cpu_s, 0.0, idle_s=idle_s))


@pytest.mark.parametrize(
    ("found", "count"),
    [
        ([at(0.25, 1.0), at(1.0, 4.0)], 0),
        ([at(0.25, 1.0), at(1.0, 8.0)], 1),
        ([at(0.25, 0.001), at(1.0, 0.2)], 0),
        ([at(1.0, 1.0, 4.9, "api, to ready")], 0),
        ([at(1.0, 1.0, 5.1, "api, to ready")], 1),
        ([at(1.0, 1.0, 9.0, "api, to ready", (2.0, 4.9))], 0),
        ([at(1.0, 1.0, 9.0, "api, to ready", (2.0, 5.1))], 1),
    ],
)
def test_growth_faster_than_the_store_and_late_steps_miss_a_goal(
    found: list[Measured], count: int
) -> None:
    assert len(missed(found)) == count


@pytest.mark.process
def test_waits_for_a_processor_do_not_count_as_time_on_an_idle_machine() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        start = Start(time.monotonic() - 100.0, {})  # as if started 100 s ago
        waited_s = sum(waits([process.pid]).values())
        cost = cost_so_far(process, start, [])
        process.terminate()
    assert cost.idle_s is not None
    least_s, most_s = cost.idle_s
    assert cost.cpu_s <= least_s <= most_s <= cost.wall_s - waited_s
    assert least_s >= 100.0 - 2 * waited_s - 1.0


def test_the_table_shows_the_limits() -> None:
    def row(step: str, note: str = "") -> str:
        shown = line(Measured("sqlite", step, 1.0, Cost(4.2, 1.0, 100.0, note, (2.0, 3.1))))
        return " ".join(shown.split())

    assert row("api, to ready") == "sqlite api, to ready 1.00 4.20 2.0-3.1 5 1.00 100"
    assert row("doctor") == "sqlite doctor 1.00 4.20 2.0-3.1 1.00 100"
    assert row("audit", "0.1 s a part").endswith("0.1 s a part (limit 5 s)")
