"""`mintscope export` writes the candles of a day to files."""

import asyncio
from pathlib import Path
from random import Random

import polars as pl
import pytest
from typer.testing import CliRunner

from mintscope.app.cli.tokens import app
from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.kit.time import DAY_S
from mintscope.market.log import PricedSwap, SlotHeader
from mintscope.market.ports import FinalSlot, NewSlot
from mintscope.market.series.tables import COLUMNS
from support.fakes.made_chain import MINTS
from support.oracles import definitions
from support.scenes.market_engines import market_of

DAY = 1_750_032_000  # 2025-06-16
A, B, SILENT, _ = MINTS


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    monkeypatch.setenv("MINTSCOPE_DATA_DIR", str(data))
    monkeypatch.setenv("MINTSCOPE_CHAIN__RPC_URL", "http://127.0.0.1:1")
    return data


async def trade(folder: Path) -> dict[Mint, list[definitions.Trade]]:
    random = Random(9)
    reported: dict[Mint, list[definitions.Trade]] = {A: [], B: []}
    async with market_of("sqlite", folder) as market:
        await market.store.start(mints=[A, B, SILENT], follows_files=False)
        time = DAY - 3_000
        for number in range(1, 1_000):
            time += random.randrange(200)
            mint = random.choice([A, B])
            price, volume = random.uniform(1, 2), random.randrange(1, 10**9)
            swap = PricedSwap(mint, 0, 0, -1, 0, random.random() < 0.5, volume, price, price / 100)
            header = SlotHeader(Slot(number), Slot(number - 1), str(number), UnixS(time))
            await market.store.write([NewSlot(header, (swap,))])
            reported[mint].append(definitions.Trade(time, price, price / 100, volume, swap.is_buy))
            if number == 500:
                await market.store.write([FinalSlot(Slot(number))])
    assert time > DAY + DAY_S
    return reported


@pytest.mark.parametrize(("form", "tf", "width_s"), [("parquet", "m5", 300), ("csv", "h1", 3_600)])
def test_the_exported_file_has_the_candles_of_the_day_of_every_mint(
    folder: Path, tmp_path: Path, form: str, tf: str, width_s: int
) -> None:
    reported = asyncio.run(trade(folder))
    to = tmp_path / "out"

    words = ["export", "2025-06-16", "--to", str(to), "--tf", tf, "--format", form]
    ran = CliRunner().invoke(app, words)

    assert ran.exit_code == 0, ran.output
    (file,) = to.iterdir()
    assert file.name == f"candles-2025-06-16-{tf}-0001.{form}"
    table = pl.read_parquet(file) if form == "parquet" else pl.read_csv(file)
    assert table.columns == ["token", *COLUMNS]
    expected = [
        (mint, c.start, c.open, c.high, c.low, c.close, c.swaps)
        for mint in sorted(reported)
        for c in definitions.candles(reported[mint], width_s)
        if DAY <= c.start < DAY + DAY_S
    ]
    found = table.select("token", "t", "o", "h", "l", "c", "swaps").rows()
    assert found == expected
    assert f"{len(expected)} candles of 2025-06-16 written" in ran.output


def test_files_of_an_earlier_export_are_removed_if_the_new_one_has_fewer(
    folder: Path, tmp_path: Path
) -> None:
    asyncio.run(trade(folder))
    to = tmp_path / "out"
    to.mkdir()
    begin = "candles-2025-06-16"
    earlier = {f"{begin}-m5-{number}.csv" for number in ("0001", "0002", "0003", "10000")}
    others = {f"{begin}-m5-0002.parquet", f"{begin}-h1-0002.csv", f"{begin}-m5-notes.csv"}
    for name in earlier | others:
        (to / name).write_text("of an earlier run")

    words = ["export", "2025-06-16", "--to", str(to), "--tf", "m5", "--format", "csv"]
    ran = CliRunner().invoke(app, words)

    assert ran.exit_code == 0, ran.output
    assert {each.name for each in to.iterdir()} == {f"{begin}-m5-0001.csv", *others}
    assert (to / f"{begin}-m5-0001.csv").read_text().startswith("token,")


def test_an_unknown_timeframe_is_refused(folder: Path, tmp_path: Path) -> None:
    assert folder.exists()
    words = ["export", "2025-06-16", "--to", str(tmp_path / "out"), "--tf", "m2"]
    ran = CliRunner().invoke(app, words)
    assert ran.exit_code == 2
    assert "expected one of m1, m5" in ran.output
