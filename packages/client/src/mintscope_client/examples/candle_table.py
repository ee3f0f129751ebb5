"""Reads candles into a pandas table; prints the newest, or writes a file that freqtrade reads.

    python -m mintscope_client.examples.candle_table URL MINT --tf m5 --days 30
    python -m mintscope_client.examples.candle_table URL MINT --tf m5 --freqtrade SOL_USDC-5m.json

Copy this file: it needs pandas and no mintscope package.  It reads the credit token or API key from
the environment variable MINTSCOPE_CREDENTIAL.  It costs a credit for each 1,000 candles, or part of
them.
"""

import argparse
import json
import os
import time
from pathlib import Path
from urllib.parse import urlencode

import pandas as pd  # type: ignore[import-untyped]


def candle_table(url: str, mint: str, tf: str, days: float, credential: str) -> pd.DataFrame:
    """Return the candles of the last *days* days, oldest first, indexed by their start time.

    The service returns at most the newest 44,640 candles.
    """
    asked = {"tf": tf, "format": "csv", "from": int(time.time() - 86_400 * days)}  # noqa: TID251
    table = pd.read_csv(
        f"{url}/v1/token/{mint}/candles?{urlencode(asked)}",
        storage_options={"Authorization": f"Bearer {credential}"},
    )
    table.index = pd.to_datetime(table.pop("t"), unit="s", utc=True)
    return table


def freqtrade_rows(table: pd.DataFrame) -> list[list[float]]:
    """Return the closed candles in freqtrade's format (`--data-format-ohlcv json`)."""
    closed = table[~table["isOpen"]]
    begin_ms = closed.index.astype("datetime64[ms, UTC]").astype("int64")
    prices = closed[["o", "h", "l", "c", "volume"]].to_numpy().tolist()
    return [[int(at), *each] for at, each in zip(begin_ms, prices, strict=True)]


def main() -> None:
    """Print the newest candles as a table, or write all of them to a file for freqtrade."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("mint")
    parser.add_argument("--tf", default="m5")
    parser.add_argument("--days", type=float, default=30)
    parser.add_argument("--freqtrade", type=Path)
    asked = parser.parse_args()
    credential = os.environ["MINTSCOPE_CREDENTIAL"]  # noqa: TID251 - a program of its own
    table = candle_table(asked.url, asked.mint, asked.tf, asked.days, credential)
    if asked.freqtrade is None:
        print(table.tail())
    else:
        asked.freqtrade.write_text(json.dumps(freqtrade_rows(table)))


if __name__ == "__main__":
    main()
