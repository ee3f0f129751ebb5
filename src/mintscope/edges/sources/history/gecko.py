"""Candles of GeckoTerminal: its public OHLCV endpoint, which needs no key.

https://www.geckoterminal.com/dex-api: the pools of a token by rank, then at most 1,000 candles a
call, newest first, in dollars and of that token.
"""

import asyncio
from typing import Final, TypeVar

import httpx
import msgspec

from mintscope.base.foreign import Undecodable, decode_json
from mintscope.base.http import open_client, read_body
from mintscope.base.primitives import MICRO_USD, Mint, UnixS
from mintscope.base.solana import SourceError
from mintscope.core.market.history.imports import ImportedCandle
from mintscope.core.market.timeframe import Timeframe

T = TypeVar("T")

GECKO_URL: Final = "https://api.geckoterminal.com/api/v2"
BODY_MAX: Final = 4 * 1024 * 1024
TIMEOUT_S: Final = 20.0
CANDLES_A_CALL: Final = 1_000
CALLS_MAX: Final = 200
PAUSE_S: Final = 2.5  # 30 calls a minute are allowed
HOW: Final = {
    Timeframe.M1: ("minute", 1),
    Timeframe.M5: ("minute", 5),
    Timeframe.M15: ("minute", 15),
    Timeframe.H1: ("hour", 1),
}


class _PoolAttributes(msgspec.Struct, frozen=True):
    address: str


class _Pool(msgspec.Struct, frozen=True):
    attributes: _PoolAttributes


class _Pools(msgspec.Struct, frozen=True):
    data: list[_Pool]


class _Series(msgspec.Struct, frozen=True):
    ohlcv_list: list[tuple[int, float, float, float, float, float]]


class _SeriesData(msgspec.Struct, frozen=True):
    attributes: _Series


class _Ohlcv(msgspec.Struct, frozen=True):
    data: _SeriesData


POOLS: Final = msgspec.json.Decoder(_Pools)
OHLCV: Final = msgspec.json.Decoder(_Ohlcv)


class NoCandles(SourceError):
    """The provider gave no usable answer."""


async def gecko_candles(
    mint: Mint,
    timeframe: Timeframe,
    from_time: UnixS,
    *,
    url: str = GECKO_URL,
    pause_s: float = PAUSE_S,
) -> list[ImportedCandle]:
    """Return the candles of the first pool of *mint* since *from_time*, oldest first.

    Raises NoCandles
    """
    unit, aggregate = HOW[timeframe]
    found: dict[int, ImportedCandle] = {}
    async with open_client(timeout_s=TIMEOUT_S) as http:
        pools = await _get(http, f"{url}/networks/solana/tokens/{mint}/pools", POOLS)
        if not pools.data:
            raise NoCandles(f"GeckoTerminal knows no pool of {mint}")
        pool = pools.data[0].attributes.address
        path = f"{url}/networks/solana/pools/{pool}/ohlcv/{unit}?aggregate={aggregate}"
        path += f"&limit={CANDLES_A_CALL}&currency=usd&token={mint}"
        before = ""
        for _ in range(CALLS_MAX):
            await asyncio.sleep(pause_s)
            lines = (await _get(http, path + before, OHLCV)).data.attributes.ohlcv_list
            new = [line for line in lines if line[0] >= from_time and line[0] not in found]
            found |= {line[0]: _candle(line) for line in new}
            if len(new) < CANDLES_A_CALL:
                break
            before = f"&before_timestamp={min(found)}"
    return [found[at] for at in sorted(found)]


def _candle(line: tuple[int, float, float, float, float, float]) -> ImportedCandle:
    at, open_, high, low, close, volume = line
    return ImportedCandle(UnixS(at), open_, high, low, close, round(volume * MICRO_USD))


async def _get(http: httpx.AsyncClient, url: str, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        async with asyncio.timeout(TIMEOUT_S), http.stream("GET", url) as response:
            if response.status_code != httpx.codes.OK:
                raise NoCandles(f"GeckoTerminal: expected HTTP 200; was {response.status_code}")
            return decode_json(await read_body(response, bytes_max=BODY_MAX), decoder)
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, Undecodable) as cause:
        raise NoCandles(f"GeckoTerminal: {type(cause).__name__} {cause}") from cause
