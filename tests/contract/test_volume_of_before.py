"""A migration adds up volume without a price, which an earlier version stored only by minute."""

import re
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Final

import pytest

from mintscope.market.log import PricedSwap
from mintscope.market.ports import DEFAULT_RETENTION
from support.fakes.made_chain import MINTS, START
from support.scenes.market_engines import MARKET_ENGINES, execute_in
from support.scenes.traded import traded_on

MIGRATIONS: Final = {
    "sqlite": "migrations/sqlite/market/0019_volume_without_a_price.sql",
    "postgresql": "migrations/postgres/market/0009_volume_without_a_price.sql",
}
ROWS: Final = "SELECT * FROM candle ORDER BY mint, timeframe, bucket"


@pytest.mark.parametrize("engine", MARKET_ENGINES)
async def test_a_migration_makes_wider_spans_from_the_minutes(engine: str, tmp_path: Path) -> None:
    random = Random(3)
    async with traded_on(engine, tmp_path, MINTS[:2], retention=DEFAULT_RETENTION) as traded:
        time = int(START)
        for number in range(1, 120):
            time += random.choice([1, 50, 400, 5_000])
            price = random.choice([None, None, 1.5])
            swap = PricedSwap(random.choice(MINTS[:2]), 0, 0, -1, 0, random.random() < 0.5,
                              random.randrange(1, 1_000), price, price)  # fmt: skip
            await traded.slot(number, time, swap)
        await traded.finalize(119)
    whole = execute_in(engine, tmp_path, ROWS)
    without = "DELETE FROM candle WHERE count = 0 AND timeframe <> 'm1'"
    execute_in(engine, tmp_path, without)
    of_before = execute_in(engine, tmp_path, ROWS)
    assert {len(row) for row in whole} == {len(row) for row in of_before}
    assert len(of_before) < len(whole)

    script = files("mintscope.kit.sql").joinpath(MIGRATIONS[engine]).read_text()
    for statement in re.sub(r"--.*", "", script).split(";"):
        if statement.strip():
            execute_in(engine, tmp_path, statement)

    assert execute_in(engine, tmp_path, ROWS) == whole
