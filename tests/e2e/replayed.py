"""Puts the made-up markets of `prove.prices` into block files, ingests them, and serves them."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from prove.prices.market import START, Trade
from traded_pools import (
    SOL,
    Swapped,
    Together,
    block_file,
    last_second,
    mint_of,
    sol_market,
)

from mintscope.app.config.config import ApiConfig
from mintscope.dex.decode import decode_block
from mintscope.ingest.pipeline import Ingest
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Mint, UnixMs
from mintscope.kit.time import DAY_S, SECOND_MS
from mintscope.market.ports import DEFAULT_RETENTION, Retention
from mintscope.market.standing import Offer
from mintscope.solana.blocks import WSOL
from mintscope.solana.files import FileSource
from support.scenes.market_engines import market_of
from support.scenes.service import Service, bearer, running_service

PAGE: Final = 500
UNLIMITED: Final = ApiConfig(rate_limit_requests=1_000_000)


class AnsweredRule:
    """A price rule that decides, for each swap of a token in order, as the API has decided."""

    def __init__(self, sets: Sequence[bool]) -> None:
        self._sets: Iterator[bool] = iter(sets)

    def sets_price(self, _offer: Offer) -> bool:
        """Return whether the next swap sets a price according to the API."""
        return next(self._sets)


@asynccontextmanager
async def replayed(
    folder: Path,
    markets: Mapping[str, Sequence[Trade]],
    curves: Mapping[str, Mapping[str, str]] | None = None,
    together: Sequence[Together] = (),
) -> AsyncIterator[tuple[Service, list[Swapped]]]:
    """Ingest a block file of *markets*; yield a service with these markets, and their swaps.

    The last three arguments are those of `block_file`.
    """
    end_s = last_second(markets)
    content, swapped = block_file({SOL: sol_market(end_s), **markets}, curves, together)
    path = folder / "blocks.jsonl"
    path.write_bytes(content)
    clock = ManualClock(UnixMs((START + end_s) * SECOND_MS))
    retention = Retention(DEFAULT_RETENTION.keep_s, swaps_s=DAY_S)
    async with market_of("sqlite", folder, retention=retention) as market:
        await Ingest(
            source=FileSource([path]),
            store=market.store,
            decode=decode_block,
            clock=clock,
            mints=[WSOL, *(Mint(mint_of(name)) for name in markets)],
            follows_files=True,
        ).run()
        async with running_service(
            folder, clock=clock, series=market.series, api=UNLIMITED
        ) as service:
            yield service, swapped


async def answered(service: Service, token: str, name: str) -> list[dict[str, Any]]:
    """Return all swaps of the market *name*, newest first, as `/swaps` returns them."""
    lines: list[dict[str, Any]] = []
    asked = {"limit": str(PAGE)}
    while True:
        path = f"/v1/token/{mint_of(name)}/swaps"
        response = await service.client.get(path, params=asked, headers=bearer(token))
        assert response.status_code == 200, response.text
        data = response.json()["data"]
        lines += data["swaps"]
        if data["nextCursor"] is None:
            return lines
        asked["cursor"] = data["nextCursor"]
