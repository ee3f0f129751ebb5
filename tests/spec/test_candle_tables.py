"""GET /v1/token/{tokenAddress}/candles?format=csv|parquet|arrow: rows and cost of a table."""

import asyncio
import io
import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pytest
from series_service import (
    BEGIN_S,
    QUIET,
    TOKEN,
    UNTRACKED,
    SeriesService,
)

from mintscope.market.series.tables import COLUMNS
from support.processes.listening import listening

EXAMPLE = "mintscope_client.examples.candle_table"


async def flat_pages(market: SeriesService, token: str, **query: Any) -> list[dict[str, Any]]:
    """Return the candles of the JSON pages as rows of a table."""
    found: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        answer = await market.ask("candles", credit_token=token, cursor=cursor, **query)
        page = answer.json()["data"]
        rows = []
        for candle in page["candles"]:
            sol = candle.pop("sol") or dict.fromkeys("ohlc")
            candle |= {f"sol{name.upper()}": value for name, value in sol.items()}
            rows.append({name: candle[name] for name in COLUMNS})
        found = rows + found
        cursor = page["nextCursor"]
    return found


def read_table(body: bytes, form: str) -> list[dict[str, Any]]:
    if form == "csv":
        return pl.read_csv(io.BytesIO(body), infer_schema_length=None).to_dicts()
    if form == "parquet":
        return pl.read_parquet(io.BytesIO(body)).to_dicts()
    return pl.read_ipc(io.BytesIO(body)).to_dicts()


CONTENT_TYPES = {
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.file",
}


async def test_a_table_has_the_rows_of_the_pages_for_a_credit_per_1000_rows(
    market: SeriesService,
) -> None:
    slots = [
        market.made(60 * minute, 1.0 + minute / 7, is_buy=minute % 3 == 0, volume=minute)
        for minute in range(1_100)
    ]
    for final, end in ((0, 1), (1, 401), (401, 801)):
        await market.add(slots[final:end])
        await market.traded.finalize(end)
    await market.add(slots[801:])
    token = await market.service.issue(40)
    pages = await flat_pages(market, token, tf="m1", limit=1000)
    assert len(pages) == 1_100

    for form, content_type in CONTENT_TYPES.items():
        left = await market.service.left(token)
        answer = await market.ask("candles", credit_token=token, tf="m1", format=form)

        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith(content_type)
        named = f'attachment; filename="{TOKEN}-m1.{form}"'
        assert answer.headers["content-disposition"] == named
        assert answer.headers["x-data-slot"] == "1100"
        assert read_table(answer.content, form) == pages
        assert await market.service.left(token) == left - 2

        within: dict[str, Any] = {"from_": BEGIN_S + 60, "to": BEGIN_S + 120}
        some = await market.ask("candles", credit_token=token, tf="m1", format=form, **within)
        assert read_table(some.content, form) == pages[1:3]
        assert await market.service.left(token) == left - 3

    poor = await market.service.issue(1)
    answer = await market.ask("candles", credit_token=poor, tf="m1", format="csv")
    assert (answer.status_code, answer.json()["error"]["code"]) == (402, "INSUFFICIENT_CREDITS")
    assert await market.service.left(poor) == 1


async def test_a_table_is_written_only_for_a_client_that_can_pay_for_it(
    market: SeriesService, monkeypatch: pytest.MonkeyPatch
) -> None:
    for minute in (0, 1_099):
        await market.trade(60 * minute, 1.0)
    monkeypatch.setitem(sys.modules, "polars", None)  # so that writing fails
    asked = {"tf": "m1", "format": "parquet", "fill": "previous"}
    codes = []
    for credit_count in (0, 1, 2):
        token = await market.service.issue(3)
        for _ in range(3 - credit_count):
            await market.ask("candles", credit_token=token, tf="m1")
        answer = await market.ask("candles", credit_token=token, **asked)
        codes.append(answer.json()["error"]["code"])
        assert await market.service.left(token) == credit_count

    assert codes == ["INSUFFICIENT_CREDITS", "INSUFFICIENT_CREDITS", "BAD_REQUEST"]


async def test_a_refused_or_empty_table_is_free(market: SeriesService) -> None:
    token = await market.service.issue(1)
    await market.trade(0, 2.0)
    for query, code in (
        ({"format": "xlsx"}, "BAD_REQUEST"),
        ({"format": "csv", "mint": QUIET}, "INSUFFICIENT_DATA"),
        ({"format": "csv", "mint": UNTRACKED}, "TOKEN_NOT_FOUND"),
    ):
        answer = await market.ask("candles", credit_token=token, tf="m1", **query)
        assert answer.json()["error"]["code"] == code
    empty = await market.ask("candles", credit_token=token, tf="m1", format="csv", to=1)
    assert empty.text == ",".join(COLUMNS) + "\n"
    assert await market.service.left(token) == 1
    unpaid = await market.ask("candles", tf="m1", format="csv")
    assert unpaid.status_code == 402


@pytest.mark.process
async def test_the_example_prints_a_pandas_table_and_writes_a_freqtrade_file(
    market: SeriesService, tmp_path: Path
) -> None:
    for minute in range(30):
        await market.trade(60 * minute, 1.0 + minute, volume=10**6)
    token = await market.service.issue(2)
    file = tmp_path / "SOL_USDC-5m.json"
    async with listening(market.service.app) as url:
        words = (url, TOKEN, "--tf", "m5", "--days", "10000")
        printed = await run(token, *words)
        await run(token, *words, "--freqtrade", str(file))

    assert "2025-06-15 15:2" in printed
    assert "isOpen" in printed
    # As freqtrade's JsonDataHandler reads it.
    table = pd.DataFrame(
        json.loads(file.read_text()), columns=["date", "open", "high", "low", "close", "volume"]
    )
    assert table["date"].tolist() == [1000 * (BEGIN_S - BEGIN_S % 300 + 300 * n) for n in range(6)]
    assert table["close"].iloc[-1] == 28.0
    assert table["volume"].sum() == 28.0


async def run(token: str, *words: str) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", EXAMPLE, *words,
        env={"MINTSCOPE_CREDENTIAL": token, "PATH": ""},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()
