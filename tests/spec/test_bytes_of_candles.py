"""Pages of candles equal their definition byte for byte, whatever is cached of earlier pages."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
from series_service import BEGIN_S, SeriesService, series_service

from support.oracles import definitions

STEPS: Final = 50
WIDTHS: Final = {"m1": 60, "m5": 300, "h4": 14_400}
ONE: Final = (
    b'{"t":%d,"o":%b,"h":%b,"l":%b,"c":%b,"sol":{"o":%b,"h":%b,"l":%b,"c":%b},"volume":%b,'
    b'"buyVolume":%b,"sellVolume":%b,"swaps":%d,"imported":false,"isOpen":%b}'
)


class Lived:
    """A market with random swaps, finality and lost slots; `trades` has the valid swaps."""

    def __init__(self, market: SeriesService, seed: int) -> None:
        self._market, self._random = market, Random(seed)
        self._after_s = self._final = 0
        self.trades: list[definitions.Trade] = []

    async def step(self) -> None:
        random = self._random
        market, traded = self._market, self._market.traded
        if random.random() < 0.2:
            self._final = max(self._final, market.slots - random.randrange(1, 4))
            await traded.finalize(self._final)
        while market.slots > self._final and len(self.trades) > 1 and random.random() < 0.2:
            await traded.retract(market.slots)
            market.slots -= 1
            self.trades.pop()
        self._after_s += random.choice([1, 20, 50, 130])
        price = random.choice([None, *[random.uniform(1e-7, 2e3) for _ in range(5)]])
        volume, is_buy = random.randrange(10**9), random.random() < 0.5
        await market.trade(self._after_s, price, volume=volume, is_buy=is_buy)
        sol = None if price is None else price / 100
        time = BEGIN_S + self._after_s
        self.trades.append(definitions.Trade(time, price, sol, volume, is_buy))

    def page(self, width_s: int, since: int, until: int, limit: int) -> bytes:
        """Return the expected list: the newest *limit* candles from *since* to *until*."""
        hours = {trade.time // 3_600 for trade in self.trades if trade.price is not None}
        counted = [each for each in self.trades if width_s <= 3_600 or each.time // 3_600 in hours]
        whole = definitions.candles(counted, width_s)
        inside = [candle for candle in whole if since <= candle.start <= until][-limit:]
        texts = self._texts(inside, width_s)
        return b"[" + b",".join(texts) + b"]"

    def _texts(self, candles: Sequence[definitions.Candle], width_s: int) -> Iterator[bytes]:
        for candle in candles:
            inside = [
                each.price_sol
                for each in self.trades
                if each.time - each.time % width_s == candle.start and each.price_sol is not None
            ]
            is_open = b"true" if self.trades[-1].time < candle.start + width_s else b"false"
            flow = ((candle.buy + candle.sell) / 1e6, candle.buy / 1e6, candle.sell / 1e6)
            in_sol = (inside[0], max(inside), min(inside), inside[-1])
            yield ONE % (
                candle.start,
                *map(number, (*candle[1:5], *in_sol, *flow)),
                candle.swaps,
                is_open,
            )


def number(value: float) -> bytes:
    return msgspec.json.encode(value)


async def test_every_page_of_candles_equals_the_definition_byte_for_byte(tmp_path: Path) -> None:
    random = Random(5)
    async with series_service(tmp_path) as market:
        token = await market.service.issue(4 * STEPS)
        lived = Lived(market, seed=3)
        await lived.step()
        for _ in range(STEPS):
            market.service.clock.advance(10_000)  # for the rate limit
            await lived.step()
            for _ in range(random.choice([0, 1, 3])):
                tf = random.choice([*WIDTHS])
                limit = random.choice([1, 3, 8, 1_000])
                newest = lived.trades[-1].time
                until = random.choice([newest, random.randrange(BEGIN_S, newest + 1), 1 << 33])
                since = random.choice([0, random.randrange(BEGIN_S, newest + 1)])
                asked: dict[str, Any] = {
                    "tf": tf,
                    "limit": limit,
                    "from": min(since, until),
                    "to": until,
                }

                answer = await market.ask("candles", credit_token=token, **asked)

                assert answer.status_code == 200, answer.text
                _, _, rest = answer.content.partition(b'"candles":')
                expected = lived.page(WIDTHS[tf], min(since, until), until, limit)
                assert rest.startswith(expected + b',"nextCursor":'), asked
