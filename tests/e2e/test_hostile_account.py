"""A free account with the heaviest possible load slows no debit and fills no disk.

It has twenty alerts that fire at every slot, and a receiver that accepts no webhook.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

import apsw
import httpx
import pytest

from mintscope.alerts.evaluation import LISTED_FACTOR
from mintscope.app.config.groups import SignalsConfig
from mintscope.app.stores.folder import MONEY_FILE, WEBHOOKS_FILE
from mintscope.credits.sqlite import CreditBook
from mintscope.kit.clock import SystemClock
from mintscope.kit.http.rate_limit import WRITES
from mintscope.kit.primitives import Mint
from mintscope.market.log import PricedSwap
from mintscope.solana.blocks import WSOL
from support.processes.api_process import api_process, settings
from support.processes.servers import wait_for
from support.scenes.old_folder import FACTS, old_folder
from support.scenes.service import bearer, credit_token
from support.scenes.traded import Traded, traded_on

FULL: Final = os.environ.get("STORM") == "full"  # noqa: TID251 - only how long to storm
RULES: Final = 20
SLOT_S: Final = 0.1
IDLE_S: Final = 120.0 if FULL else 2.0
HOSTILE_S: Final = 600.0 if FULL else 10.0
PARTS: Final = 3  # of each span; the result is the median of their p99
PAUSE_S: Final = 0.005  # between two debits
BYTES_KEPT_MAX: Final = 10_000_000
ROWS_OF_WRITE_MAX: Final = 3  # an alert or a watchlist, its audit, its idempotency key
WRITE_BYTES_MAX: Final = 4_000  # of all these rows
KEY: Final = bearer(FACTS["key"]["apiKey"])
TOKEN: Final = credit_token(1)
ASKED: Final = {
    "mint": WSOL,
    "field": "price.usd",
    "kind": "crosses",
    "level": 160.0,
    "leastConfidence": "low",
}
CONFIG: Final = SignalsConfig()


@dataclass
class Refusing:
    """A receiver of webhooks that closes every connection, and counts the connections."""

    count: int = 0
    busiest: list[float] = field(default_factory=list)  # the times of the connections

    async def serve(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.count += 1
        self.busiest.append(time.monotonic())
        with suppress(ConnectionError):
            writer.close()
            await writer.wait_closed()

    def most_in_a_minute(self) -> int:
        times = self.busiest
        return max(
            (sum(1 for at in times if since <= at < since + 60) for since in times), default=0
        )


async def trade(market: Traded) -> None:
    """Let the price cross the level of the alerts at every slot, until cancelled."""
    tip = await market.reader.tip()
    slot, price = tip.slot or 0, 150.0
    while True:
        slot, price = slot + 1, 320.0 - price
        swap = PricedSwap(Mint(WSOL), 0, 0, -1, 0, True, 10**6, price, 1.0)  # noqa: FBT003
        await market.slot(slot, SystemClock().now() // 1000, swap)
        await asyncio.sleep(SLOT_S)


async def debit_p99_s(client: httpx.AsyncClient, span_s: float) -> float:
    """Spend credits for *span_s*; return the median of PARTS 99th percentiles, in seconds."""
    found = []
    for _ in range(PARTS):
        took, end_s = [], time.monotonic() + span_s / PARTS
        while time.monotonic() < end_s:
            begun_s = time.perf_counter()
            answer = await client.get(f"/v1/token/{WSOL}", headers=bearer(TOKEN))
            took.append(time.perf_counter() - begun_s)
            assert answer.status_code == 200, answer.text
            await asyncio.sleep(PAUSE_S)
        found.append(sorted(took)[len(took) * 99 // 100])
    return median(found)


@asynccontextmanager
async def traded_service(folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    data = old_folder(folder / "data")
    with closing(apsw.Connection(str(data / MONEY_FILE))) as db:
        db.execute("UPDATE api_key SET scopes = ?", ('["signals:read","signals:write"]',))
    with closing(CreditBook(data / MONEY_FILE, pepper=bytes.fromhex(FACTS["pepper"]))) as book:
        book.issue(TOKEN, 10_000_000, note="", at=SystemClock().now())
    environment = settings(
        folder,
        MINTSCOPE_SIGNALS__WEBHOOK_LOOPBACK="true",
        MINTSCOPE_API__RATE_LIMIT_REQUESTS="1000000",
    )
    async with traded_on("sqlite", data, []) as market:
        trading = asyncio.create_task(trade(market))
        try:
            with api_process(environment, folder / "api.log") as address:
                await asyncio.to_thread(wait_for, f"{address}/readyz")
                async with httpx.AsyncClient(base_url=address, timeout=20) as client:
                    yield client
        finally:
            trading.cancel()
            await asyncio.gather(trading, return_exceptions=True)


def left_by(data: Path) -> tuple[int, int, float]:
    """Return the number of firings, that of webhooks, and the mean bytes that the two take."""
    rows, size = [], 0.0
    for name, table in ((MONEY_FILE, "signal_firing"), (WEBHOOKS_FILE, "webhook")):
        with closing(apsw.Connection(str(data / name))) as db:
            count: Any = db.execute(f"SELECT count(*) FROM {table}").get
            pages: Any = db.execute(
                "SELECT sum(pgsize) FROM dbstat WHERE name IN"
                " (SELECT name FROM sqlite_schema WHERE tbl_name = ?)",
                (table,),
            ).get
        rows.append(int(count))
        size += float(pages) / max(1, count)
    return rows[0], rows[1], size


@pytest.mark.process
@pytest.mark.storm
async def test_a_free_account_with_20_firing_alerts_slows_no_debit_and_fills_no_disk(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    receiver = Refusing()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    async with traded_service(tmp_path) as client:
        await debit_p99_s(client, 1.0)
        idle_s = await debit_p99_s(client, IDLE_S)
        for number in range(RULES):
            asked = ASKED | {"name": f"r{number}", "webhookUrl": url}
            answer = await client.post("/v1/signals", json=asked, headers=KEY)
            assert answer.status_code == 201, answer.text
        hostile_s = await debit_p99_s(client, HOSTILE_S)
    server.close()
    firings, webhooks, row_bytes = left_by(tmp_path / "data")
    hours = 1 + int(HOSTILE_S // 3_600)
    sent_max = RULES * CONFIG.firings_per_hour_max * hours
    assert RULES <= firings <= LISTED_FACTOR * sent_max
    assert webhooks <= min(firings, sent_max)
    assert 0 < receiver.most_in_a_minute() <= CONFIG.webhooks_per_minute_max // 2
    sent_a_day = RULES * CONFIG.firings_per_hour_max * 24
    rows_a_day = (LISTED_FACTOR + 1) * sent_a_day + ROWS_OF_WRITE_MAX * WRITES.count
    kept = RULES * CONFIG.firings_kept_max + LISTED_FACTOR * sent_a_day // 24  # deleted hourly
    bytes_kept = kept * row_bytes + WRITES.count * WRITE_BYTES_MAX
    record_property(
        "figure",
        f"debit p99 {hostile_s * 1e3:.1f} ms beside a hostile account, {idle_s * 1e3:.1f} ms idle;"
        f" {receiver.count} attempts in {HOSTILE_S:.0f} s; a free account causes at most"
        f" {rows_a_day:,} rows a day, of which {bytes_kept / 1e6:.1f} MB are kept",
    )
    if FULL:  # the short form runs beside other tests, which slow debits, too
        assert hostile_s <= 2 * idle_s
    assert bytes_kept <= BYTES_KEPT_MAX
