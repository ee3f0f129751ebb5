"""Ingest starts a separate process that stores the list of tokens."""

from pathlib import Path
from signal import SIGALRM

import msgspec
import pytest
from structlog.testing import capture_logs

from mintscope.app.running.list_worker import Order, store_apart
from mintscope.app.stores.folder import MARKET_FILE
from mintscope.market.log import PricedSwap
from mintscope.market.screening.token_list import FORM
from support.fakes.made_chain import MINTS, START
from support.processes.listening import json_lines
from support.scenes.stores import market_in
from support.scenes.traded import TradedStore


@pytest.mark.process
async def test_the_list_is_stored_in_a_process_of_its_own(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    order = Order(str(tmp_path), None, "info", is_json=True, mints_min=1)
    async with market_in(tmp_path) as market:
        await market.store.start(mints=MINTS[:1], follows_files=False)
        kept = TradedStore(market)
        await kept.append(1, START)
        assert await store_apart(order)
        first = await market.list_snapshots.newest(FORM)
        assert first is not None
        priced = PricedSwap(MINTS[0], 0, 0, -1, 0, True, 10, 1.0, 0.01, "p")  # noqa: FBT003
        await kept.append(2, START + 1, priced)
        assert await store_apart(order)
        newest = await market.list_snapshots.newest(FORM)
        assert newest is not None
        assert newest.folded_seq > first.folded_seq
    broken = tmp_path / "broken"
    broken.mkdir(mode=0o700)
    (broken / MARKET_FILE).write_bytes(b"no database" * 1_000)
    assert not await store_apart(msgspec.structs.replace(order, data_dir=str(broken)))
    logged = capfd.readouterr().err
    assert [line for line in logged.splitlines() if not line.startswith("{")] == []
    events = [line["event"] for line in json_lines(logged)]
    assert events.count("list_loaded") == 2
    assert events[-1] == "list_not_kept"
    # A process that ingest no longer ends, because ingest was killed, ends itself.
    with capture_logs() as lines:
        assert not await store_apart(msgspec.structs.replace(order, alone_s_max=0.001))
    assert [line["error"] for line in lines] == [f"ended by signal {SIGALRM.value}"]
