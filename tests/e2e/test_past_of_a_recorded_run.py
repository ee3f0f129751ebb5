"""Reports of past slots of a recorded run equal those served after each slot, byte for byte."""

from itertools import product
from pathlib import Path
from random import Random
from typing import Final

import msgspec
import pytest
from prove.prices.market import START, Pool, Trade, crowd, in_order
from traded_pools import SOL, block_file, last_second, mint_of, sol_market

from mintscope.dex.decode import decode_block
from mintscope.ingest.pipeline import Ingest
from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import InsufficientData
from mintscope.kit.primitives import Mint, Slot, UnixMs
from mintscope.kit.time import DAY_S, SECOND_MS
from mintscope.market.engine.engine import LiveMarket
from mintscope.market.log import Appended, LoadedMint, LogReader, LogTip
from mintscope.market.ports import DEFAULT_RETENTION, RECENT_S, Retention
from mintscope.market.report import PARTIAL, PLAIN, ReportKind
from mintscope.market.series.past import Moment, PastMint, past_report
from mintscope.solana.blocks import WSOL
from mintscope.solana.files import FileSource
from support.fakes.log import frames_after
from support.scenes.market_engines import MARKET_ENGINES, market_of

PAIRS: Final = 200
SPAN_S: Final = 3_000
FRAMES: Final = ("d1", "h4", "m30", "s15")
KINDS: Final = (
    PLAIN,
    PARTIAL,
    ReportKind(is_closed=True),
    ReportKind(timeframes=FRAMES),
    ReportKind(is_closed=True, timeframes=FRAMES),
)
Asked = tuple[Mint, Slot, ReportKind]
Served = dict[Asked, bytes | str]


def made_market(seed: int) -> list[Trade]:
    """Return the trades of three pools, of which one begins late and one is abandoned."""
    random = Random(seed)
    pools = [Pool(f"{seed}-{n}", 10.0**n, 10.0**n / 2) for n in (4, 5, 6)]
    early = crowd(random, pools[:2], end=SPAN_S / 2, every_s=3, volatility=0.003)
    late = crowd(random, pools[1:], begin=SPAN_S / 2, end=SPAN_S, every_s=3, volatility=0.003)
    return in_order(early, late)


async def recorded_slots(reader: LogReader, after: int) -> list[Slot]:
    """Return the slots of the log after the event *after*."""
    found: list[Slot] = []
    while events := await reader.events(after, 256):
        found += [event.header.slot for event in events if isinstance(event, Appended)]
        after = events[-1].seq
    return found


async def served(reader: LogReader, mints: list[Mint], asked: list[Asked]) -> Served:
    """Return the reports that a live process serves if each of *asked* is sent after its slot."""
    live = LiveMarket(len(mints))
    first = len(mints)  # the events that track the mints are trimmed
    live.restart(LogTip(seq=first, slot=None, time=None, follows_files=True), frozenset(mints))
    for mint in mints:
        live.expect(mint)
        assert live.insert(
            LoadedMint(
                mint=mint,
                seq=first,
                state=None,
                candles={},
                minutes=(),
                tail=(),
                frames=frames_after((), FRAMES),
            )
        )
    found: Served = {}
    while events := await reader.events(live.seq, 256):
        for event in events:
            live.apply(event)
            if not isinstance(event, Appended):
                continue
            for mint, slot, kind in asked:
                if slot == event.header.slot:
                    found[mint, slot, kind] = reported(live, mint, kind)
    return found


def reported(live: LiveMarket, mint: Mint, kind: ReportKind) -> bytes | str:
    try:
        return live.report(mint, kind)
    except InsufficientData as flaw:
        return str(flaw)


@pytest.mark.parametrize("engine", MARKET_ENGINES)
async def test_200_reports_of_past_slots_equal_the_served_reports(
    engine: str, tmp_path: Path
) -> None:
    markets = {name: made_market(seed) for seed, name in enumerate(("dogs", "cats"))}
    end_s = last_second(markets)
    content, _ = block_file({SOL: sol_market(end_s), **markets})
    path = tmp_path / "blocks.jsonl"
    path.write_bytes(content)
    retention = Retention(DEFAULT_RETENTION.keep_s, swaps_s=DAY_S)
    mints = [Mint(WSOL), *(Mint(mint_of(name)) for name in markets)]
    async with market_of(engine, tmp_path, retention=retention) as market:
        await Ingest(
            source=FileSource([path]),
            store=market.store,
            decode=decode_block,
            clock=ManualClock(UnixMs((START + end_s) * SECOND_MS)),
            mints=mints,
            follows_files=True,
        ).run()
        slots = await recorded_slots(market.reader, after=len(mints))
        reached = [slot for slot in slots if slot > slots[0] + RECENT_S]  # one slot per second
        asked = Random(7).sample(sorted(product(mints, reached, KINDS), key=repr), PAIRS)
        reports = await served(market.reader, mints, asked)
        tip = await market.reader.tip()
        assert tip.folded is not None
        assert sum(slot < tip.folded for _, slot, _ in asked) > PAIRS // 2
        confident = 0
        for mint, slot, kind in asked:
            past = await market.series.past(mint, Moment(slot=slot), kind.timeframes)
            assert isinstance(past, PastMint)
            try:
                made: bytes | str = msgspec.json.encode(past_report(past, kind))
            except InsufficientData as flaw:
                made = str(flaw)
            assert made == reports[mint, slot, kind], (mint, slot, kind)
            confident += b'"confidence":"high"' in made if isinstance(made, bytes) else 0
        assert confident > PAIRS // 4
