"""`mintscope serve` over block files: whole processes, real HTTP, numbers checked from outside."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
from solders.keypair import Keypair
from typer.testing import CliRunner, Result

from mintscope.app.cli.app import app
from mintscope.app.stores.folder import held
from mintscope.dex.outcome import Swap
from mintscope.kit.primitives import Slot, UnixMs, UnixS
from mintscope.solana.blocks import WSOL, Block
from mintscope_devchain.chain import Devchain, lines
from support.fakes.made_chain import made_transaction, swap_in
from support.oracles import definitions, slow_market
from support.oracles.intended_swaps import intended, with_what_is_left
from support.processes.api_process import command
from support.processes.listening import addresses_in
from support.scenes.postgres import url_in

NOW = UnixMs(1_763_640_000_000)
MINTS = 60
HISTORY_DAYS = 0.4  # enough candles of an hour for an EMA of nine
END_S = 20
POLL_S = 0.02


def settings(folder: Path, files: Sequence[Path], **more: str) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("MINTSCOPE_")}  # noqa: TID251
    return inherited | {
        "MINTSCOPE_DATA_DIR": str(folder / "data"),
        "MINTSCOPE_CHAIN__SOURCE": "files",
        "MINTSCOPE_CHAIN__FILES": ",".join(map(str, files)),
        "MINTSCOPE_API__PORT": "0",
        "MINTSCOPE_API__RATE_LIMIT_REQUESTS": "10000",
        "MINTSCOPE_METRICS__ENABLED": "false",
        "MINTSCOPE_LOG__LEVEL": "warning",
        **more,
    }


def in_this_process(environment: dict[str, str], *words: str) -> Result:
    """Run a command in this process, because a new process takes a second to start."""
    return CliRunner().invoke(app, words, env=environment)


def issued(environment: dict[str, str], credit_count: int) -> str:
    """Return a new credit token of *credit_count* credits, issued by the command line."""
    ran = in_this_process(environment, "credits", "issue", "--credits", str(credit_count))
    assert ran.exit_code == 0, ran.output
    return ran.stdout.strip()


@contextmanager
def serving(environment: dict[str, str]) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Yield the address and process of a service that has read its block files to the end."""
    with subprocess.Popen(
        [sys.executable, "-m", "mintscope", "serve"],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            reported = []
            address = ""
            is_read = False
            while not (address and is_read):
                line = process.stderr.readline()
                reported.append(line)
                assert line, reported
                address = next(iter(addresses_in(line)), address)
                is_read = is_read or "history read" in line
            yield address, process
            process.send_signal(signal.SIGTERM)
            assert process.wait(END_S) == 0
        finally:
            process.kill()


def ask(client: httpx.Client, mint: str) -> httpx.Response:
    """Request a report for *mint* until it includes the newest block; return the response."""
    answer = client.get(f"/v1/token/{mint}")
    pause = threading.Event()
    while answer.status_code == 503:
        pause.wait(POLL_S)
        answer = client.get(f"/v1/token/{mint}")
    return answer


@dataclass(frozen=True)
class Replay:
    """A file of blocks, and the reports that are expected after the last block.

    reports   by mint; None if the mint has too few candles for a report
    """

    file: bytes
    reports: Mapping[str, Mapping[str, Any] | None]
    now: int


@pytest.fixture(scope="module")
def replay() -> Replay:
    chain = Devchain(seed=11, now=NOW, mints=MINTS, history_days=HISTORY_DAYS)
    # Of several pools, liquidity decides which of them set a price, but the intended swaps do not
    # have it: only mints with one pool are compared here; tests/market checks the others.
    meant = {slot: intended(chain, Slot(slot)) for slot in chain.blockstore.slots}
    pools = _pools(meant)
    mints = [token.mint for token in chain.tokens if len(pools.get(token.mint, ())) == 1]
    expected, now = _expected(chain, meant, mints)
    reports = {
        mint: None if len(definitions.candles(trades, 60)) < 9 else definitions.report(trades, now)
        for mint, trades in expected.items()
    }
    return Replay(b"".join(lines(chain, len(chain.blockstore.slots))), reports, now)


@pytest.mark.engine("sqlite")
@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_reports_after_a_replay_of_60_mints_agree_with_the_definitions(
    engine: str, replay: Replay, tmp_path: Path
) -> None:
    file, mints = tmp_path / "blocks.jsonl", list(replay.reports)
    file.write_bytes(replay.file)
    environment = settings(tmp_path, [file], MINTSCOPE_MARKET__MINTS=",".join(mints))
    if engine == "postgresql":
        environment["MINTSCOPE_STORE"] = url_in(tmp_path)
    credit_token = issued(environment, 10_000)

    with (
        serving(environment) as (address, _),
        httpx.Client(
            base_url=address,
            headers={"Authorization": f"Bearer {credit_token}"},
            timeout=END_S,
        ) as client,
    ):
        _wait_for(client, replay.now)
        wrong: list[str] = []
        served = 0
        for mint, expected in replay.reports.items():
            answer = ask(client, mint)
            if expected is None:
                assert answer.json()["error"]["code"] == "INSUFFICIENT_DATA"
                continue
            assert answer.status_code == 200, answer.text
            data = answer.json()["data"]
            assert data.pop("token") == mint
            data.pop("coverage", None)  # counted once a minute, beside the log
            report = dict(expected)
            price = report.pop("price")
            reported = data.pop("price")
            assert {key: reported[key] for key in price} == pytest.approx(price, rel=1e-12)
            wrong += definitions.disagreements(data, report, price["usd"], mint)
            served += 1

    assert wrong == []
    assert served >= 40


def _pools(meant: Mapping[Slot, Sequence[Swap]]) -> Mapping[str, set[str]]:
    """Return the pools that each mint was traded in."""
    pools: dict[str, set[str]] = {}
    for swaps in meant.values():
        for swap in swaps:
            for mint in (swap.in_mint, swap.out_mint):
                pools.setdefault(mint, set()).add(swap.pool)
    return pools


def _expected(
    chain: Devchain, meant: Mapping[Slot, Sequence[Swap]], mints: Sequence[str]
) -> tuple[dict[str, list[definitions.Trade]], int]:
    """Return the trades expected by `slow_market`, by mint, and the time of the last block."""
    blocks = [
        Block(
            slot=Slot(slot),
            parent_slot=Slot(0),
            blockhash="",
            parent_blockhash="",
            time=UnixS(_block(chain, slot).time),
            transactions=[
                made_transaction(swap) for swap in with_what_is_left(swaps, chain, Slot(slot))
            ],
        )
        for slot, swaps in meant.items()
    ]
    trades: dict[str, list[definitions.Trade]] = {mint: [] for mint in mints}
    swaps = [[swap_in(transaction) for transaction in b.transactions] for b in blocks]
    times = slow_market.effective_times(blocks)
    samples = slow_market.sol_samples(swaps)
    rates = {times[n]: slow_market.sol_price(samples, times, n) for n in range(len(blocks))}
    for one in slow_market.trades(blocks):
        if one.mint in trades:
            price = None if one.price is None else float(one.price)
            rate = rates[one.time]
            assert rate is not None
            price_sol = None if price is None else 1.0 if one.mint == WSOL else price / rate
            trade = definitions.Trade(one.time, price, price_sol, one.volume, one.is_buy)
            trades[one.mint].append(trade)
    return trades, times[-1]


def _block(chain: Devchain, slot: int) -> Any:
    block = chain.blockstore.block(Slot(slot))
    assert block is not None
    return block


def _wait_for(client: httpx.Client, now: int) -> None:
    """Wait until the report of SOL reaches *now*, the time of the last block of the file."""
    pause = threading.Event()
    while ask(client, WSOL).json()["data"]["dataSpan"]["to"] != now:
        pause.wait(POLL_S)


def test_real_transactions_are_served_at_real_prices(tmp_path: Path, shared_data: Path) -> None:
    swaps = shared_data / "transactions" / "expected_swaps.jsonl"
    rows = [json.loads(line) for line in swaps.read_text().splitlines()]
    file = tmp_path / "blocks.jsonl"
    _write_fixture_blocks(shared_data / "transactions", file)
    bases = sorted({row["base"] for row in rows if row["base"]} - {WSOL})
    last = {row["base"]: row for row in _in_order(rows) if _is_rated(row, rows)}
    priced = {mint: row for mint, row in last.items() if not _is_dust(row)}
    environment = settings(tmp_path, [file], MINTSCOPE_MARKET__MINTS=",".join(bases))
    credit_token = issued(environment, 10)

    with serving(environment) as (address, _):
        headers = {"Authorization": f"Bearer {credit_token}"}
        with httpx.Client(base_url=address, headers=headers, timeout=END_S) as client:
            answer = ask(client, f"{WSOL}?partial=true")
        shown = {
            mint: json.loads(in_this_process(environment, "tokens", "show", mint).stdout)["price"]
            for mint in priced
        }

    assert answer.status_code == 200, answer.text
    assert answer.json()["data"]["price"]["usd"] in _prices(rows, WSOL)
    assert len(priced) >= 7
    for mint, row in priced.items():
        usd_or_sol = shown[mint]["usd" if row["quote_kind"] == "USD" else "sol"]
        # With several pools, each known from one transaction, the deepest pool decides.
        if len(_pools_of(rows, mint)) == 1:
            assert usd_or_sol in _prices([row], mint), mint
        else:
            assert any(shown[mint][unit] in _prices(rows, mint) for unit in ("usd", "sol")), mint


def _prices(rows: list[dict[str, Any]], mint: str) -> list[Any]:
    return [pytest.approx(float(row["price"]), rel=1e-12) for row in rows if row["base"] == mint]


def _pools_of(rows: list[dict[str, Any]], mint: str) -> set[str]:
    return {row["pool"] or row["program"] for row in rows if row["base"] == mint}


def _write_fixture_blocks(folder: Path, file: Path) -> None:
    """Write fixture transactions with slot and time to *file*: one block a line, by slot."""
    blocks: dict[int, dict[str, Any]] = {}
    for path in sorted((folder / "tx").glob("*.json")):
        transaction = json.loads(path.read_bytes())
        slot, time = transaction.pop("slot", 0), transaction.pop("blockTime", None)
        if slot and time:
            block = blocks.setdefault(slot, {"slot": slot, "blockTime": time, "transactions": []})
            block["transactions"].append(transaction)
    file.write_text("".join(json.dumps(blocks[slot]) + "\n" for slot in sorted(blocks)))


def _in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    known = [row for row in rows if row["slot"] and row["time"]]
    return sorted(known, key=lambda row: (row["slot"], row["signature"], row["ix"]))


def _is_rated(row: dict[str, Any], rows: list[dict[str, Any]]) -> bool:
    """Return whether a swap of 0.05 SOL or more for dollars is at most 300 s older than *row*."""
    return any(
        other["base"] == WSOL
        and other["quote_kind"] == "USD"
        and Decimal(other["base_volume"]) >= Decimal("0.05")
        and other["slot"]
        and other["slot"] <= row["slot"]
        and row["time"] - other["time"] <= 300
        for other in rows
        if other["time"]
    )


def _is_dust(row: dict[str, Any]) -> bool:
    quote_min = Decimal("0.02") if row["quote_kind"] == "USD" else Decimal("0.0001")
    raw_min = min(int(row["in_amount"]), int(row["out_amount"]))
    return Decimal(row["quote_volume"]) < quote_min or raw_min < 1_000


def test_a_second_service_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "blocks.jsonl"
    file.write_text('{"slot": 1, "blockTime": 1700000000, "transactions": []}\n')
    environment = settings(tmp_path, [file])

    with serving(environment):
        second = command(environment, "serve")

    assert second.returncode == 1
    assert "expected to be the only serve of" in second.stderr
    assert "Traceback" not in second.stderr


@pytest.mark.parametrize("half", ["ingest", "api"])
def test_a_process_exits_with_3_if_its_folder_is_in_use(tmp_path: Path, half: str) -> None:
    """Exit code 3 keeps a supervisor from restarting the process: only an operator can decide."""
    environment = settings(tmp_path, [tmp_path / "none.jsonl"])
    with held(tmp_path / "data", half):
        ended = command(environment, half)

    assert ended.returncode == 3
    assert f"expected to be the only {half} of" in ended.stderr


def test_serve_exits_with_3_if_its_api_exits_with_3(tmp_path: Path) -> None:
    """Exit code 3 keeps a supervisor from restarting `serve`, whose settings cannot sell."""
    file = tmp_path / "blocks.jsonl"
    file.write_text('{"slot": 1, "blockTime": 1700000000, "transactions": []}\n')
    key = Keypair.from_seed(sha256(b"a fee payer").digest())
    environment = settings(tmp_path, [file]) | {
        "MINTSCOPE_PAYMENTS__ENABLED": "true",
        "MINTSCOPE_PAYMENTS__FEE_PAYER_KEY": str(key),
        "MINTSCOPE_PAYMENTS__PAY_TO": str(key.pubkey()),
    }

    ended = command(environment, "serve")

    assert ended.returncode == 3
    assert "api ended with exit code 3" in ended.stderr


def test_a_deleted_money_file_is_refused_until_ingest_starts_with_new(tmp_path: Path) -> None:
    """Market and pepper still exist, so every command that would create the file refuses."""
    file = tmp_path / "blocks.jsonl"
    file.write_text('{"slot": 1, "blockTime": 1700000000, "transactions": []}\n')
    environment, folder = settings(tmp_path, [file]), tmp_path / "data"
    with serving(environment):
        pass
    for path in folder.glob("money.sqlite*"):
        path.unlink()

    for half in ("serve", "api", "ingest"):
        ended = command(environment, half)
        assert ended.returncode == 3
        assert "expected the money of installation" in ended.stderr
        assert "Traceback" not in ended.stderr
    refused = in_this_process(environment, "credits", "issue", "--credits", "1")
    assert refused.exit_code == 1
    assert "expected the money of installation" in refused.stderr
    assert command(environment, "ingest", "--new").returncode == 0
    assert issued(environment, 1)


def test_the_message_about_a_cut_block_file_has_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "blocks.jsonl"
    file.write_text('{"slot": 1, "blockTime": 1700000000, "transactions": []}\n{"slot": 2, "bl')

    ended = command(settings(tmp_path, [file]), "ingest")

    assert ended.returncode == 1
    assert "blocks.jsonl:2" in ended.stderr
    assert "Traceback" not in ended.stderr
