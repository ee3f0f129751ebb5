"""The pool book and candles of real launches agree with a slow reading of the same trades."""

import gzip
import json
from collections import defaultdict
from pathlib import Path

import pytest

from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.market.engine.pool_book import PoolBook, booked, candles_of, key_of
from mintscope.market.log import PricedSwap


def test_candles_of_real_launches_agree_with_their_trades(shared_data: Path) -> None:
    path = shared_data / "market_2026" / "launch_trades.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"the launches are not there: {path}")
    launches = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    assert len(launches) >= 9
    for launch in launches:
        pool = launch["pool"]
        spans: dict[int, list[tuple[float, int, bool]]] = defaultdict(list)
        book = PoolBook()
        for n, trade in enumerate(launch["swaps"]):
            volume = int(trade["sol"] * 1e8)
            is_buy = trade["side"] == "buy"
            usd = trade["price"]
            swap = PricedSwap(Mint(launch["mint"]), n, 0, -1, 0, is_buy, volume, usd, usd, pool)
            book.apply(Slot(n), UnixS(trade["ts"]), [swap])
            spans[trade["ts"] // 300 * 300].append((usd, volume, is_buy))
        change = book.changed()

        (one,) = booked(change.state)
        assert (one.pool, one.since) == (pool, launch["swaps"][0]["ts"])
        expected = []
        for at, of in sorted(spans.items()):
            prices = [usd for usd, *_ in of]
            bought = sum(volume for _, volume, is_buy in of if is_buy)
            sold = sum(volume for _, volume, is_buy in of if not is_buy)
            sides = (bought, sold, len(of))
            expected.append(
                (at, key_of(pool), prices[0], max(prices), min(prices), prices[-1], *sides)
            )
        assert sorted(map(tuple, [*change.rows, *candles_of([one])])) == expected
