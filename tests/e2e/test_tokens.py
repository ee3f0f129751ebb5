"""`mintscope tokens`, over real transactions and with wrong input."""

import asyncio
import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result
from typing_extensions import override

from mintscope.app.cli.tokens import app
from mintscope.dex.decode import decode_block
from mintscope.ingest.pipeline import Ingest
from mintscope.kit.clock import SystemClock
from mintscope.market.mint_facts import TokenProgram
from mintscope.solana.blocks import WSOL
from mintscope.solana.files import FileSource
from support.scenes.stores import market_in

MINT = "DKu9kykSfbN5LBfFXtNNDPaX35o4Fv6vJ9FKk7pZpump"
Rows = Sequence[dict[str, Any]]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "mintscope.toml"
    path.write_text(f'data_dir = "{tmp_path}"\nchain.rpc_url = "http://127.0.0.1:1"\n')
    return path


def tokens(config: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["tokens", *arguments, "--config", str(config)])


@pytest.fixture
def node() -> Iterator[dict[str, Any]]:
    """Yield the `url` of a node, and the `accounts` that it returns to every call, at slot 77."""
    reported: dict[str, Any] = {"accounts": []}

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            result = {"context": {"slot": 77}, "value": reported["accounts"]}
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, *_: object, **__: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        reported["url"] = f"http://127.0.0.1:{server.server_port}"
        Thread(target=server.serve_forever, daemon=True).start()
        yield reported
        server.shutdown()


def account(data: bytes, *, owner: str) -> dict[str, Any]:
    return {"owner": owner, "data": [b64encode(data).decode(), "base64"], "lamports": 1}


def replay(blocks: Path, folder: Path) -> None:
    async def ingest() -> None:
        async with market_in(folder) as market:
            await Ingest(
                source=FileSource([blocks]),
                store=market.store,
                decode=decode_block,
                clock=SystemClock(),
                mints=[WSOL],
                follows_files=True,
            ).run()

    asyncio.run(ingest())


def write_fixtures(data: Path, path: Path) -> None:
    """Write the recorded transactions that have a slot and a time to *path*, as a block file."""
    fixtures = [json.loads(line) for line in (data / "fixtures.jsonl").read_text().splitlines()]
    by_slot: dict[tuple[int, int], list[msgspec.Raw]] = {}
    for fixture in fixtures:
        if fixture["slot"] and fixture["blockTime"]:
            of_slot = by_slot.setdefault((fixture["slot"], fixture["blockTime"]), [])
            of_slot.append(msgspec.Raw((data / fixture["file"]).read_bytes()))
    with path.open("wb") as file:
        for (slot, time), transactions in sorted(by_slot.items()):
            line = {"slot": slot, "blockTime": time, "transactions": transactions}
            file.write(msgspec.json.encode(line) + b"\n")


def expected_prices(rows: Rows) -> dict[str, list[tuple[float, float]]]:
    """Return the expected prices (usd, sol) of every base mint that has a rate, newest last."""
    prices: dict[str, list[tuple[float, float]]] = {}
    for row in sorted(rows, key=lambda row: (row["slot"], row["ix"])):
        rate = rate_at(rows, row["time"])
        price = float(row["price"])
        if rate is None or is_dust(row):
            continue
        if row["quote_kind"] == "SOL":
            one = price * rate, price
        else:
            one = price, 1.0 if row["base"] == WSOL else price / rate
        prices.setdefault(row["base"], []).append(one)
    return prices


def rate_at(rows: Rows, time: int) -> float | None:
    """Return the median price of SOL, in USD, in the newest minute with swaps.

    Return None if there was no swap in the 300 s before *time*.
    """
    samples = [
        (row["time"], float(row["price"]), float(row["base_volume"]))
        for row in rows
        if row["base"] == WSOL and float(row["base_volume"]) >= 0.05 and row["time"] <= time
    ]
    newest = max((at for at, _, _ in samples), default=0)
    if time - newest > 300:
        return None
    window = sorted((price, sol) for at, price, sol in samples if min(time, newest + 60) - at <= 60)
    half = sum(sol for _, sol in window) / 2
    total = 0.0
    for price, sol in window:
        total += sol
        if total >= half:
            return price
    raise AssertionError


def is_dust(row: dict[str, Any]) -> bool:
    amounts = {row["in_mint"]: int(row["in_amount"]), row["out_mint"]: int(row["out_amount"])}
    floor = 100_000 if row["quote_kind"] == "SOL" else 20_000
    return min(amounts.values()) < 1_000 or amounts[row["quote"]] < floor


def test_tokens_show_prints_the_last_price_of_each_real_mint(
    shared_data: Path, config: Path, tmp_path: Path
) -> None:
    data = shared_data / "transactions"
    write_fixtures(data, tmp_path / "blocks.jsonl")
    every = [json.loads(line) for line in (data / "expected_swaps.jsonl").read_text().splitlines()]
    rows = [row for row in every if row["slot"] and row["time"]]
    mints = sorted({row["base"] for row in rows})
    assert tokens(config, "add", *mints).exit_code == 0
    replay(tmp_path / "blocks.jsonl", tmp_path)
    expected = expected_prices(rows)

    for mint in mints:
        shown = json.loads(tokens(config, "show", mint).stdout)
        if mint not in expected:
            assert shown["price"] is None, mint
            continue
        # With several pools, each known from one transaction, the deepest pool decides.
        several = {row["pool"] or row["program"] for row in rows if row["base"] == mint}
        prices = expected[mint] if len(several) > 1 else expected[mint][-1:]
        usd_sol = shown["price"]["usd"], shown["price"]["sol"]
        assert any(usd_sol == pytest.approx(one, rel=1e-12) for one in prices), mint
        counted = [row for row in rows if row["base"] == mint and rate_at(rows, row["time"])]
        assert shown["lastSwap"] == max(row["time"] for row in counted)
    assert len(expected) == 8
    listed = json.loads(tokens(config, "list", "--json").stdout)
    newest = max(row["time"] for row in rows)
    for each in listed:
        assert datetime.fromisoformat(each["m1Ready"]).timestamp() > newest
        assert datetime.fromisoformat(each["h1Ready"]).timestamp() > newest + 190 * 3_600


def test_mints_are_added_listed_in_pages_and_removed(config: Path) -> None:
    added = tokens(config, "add", MINT, WSOL)
    again = tokens(config, "add", MINT)
    listed = tokens(config, "list")
    as_json = tokens(config, "list", "--json")
    first = tokens(config, "list", "--limit", "1")
    second = tokens(config, "list", "--after", MINT)
    removed = tokens(config, "remove", MINT)
    gone = tokens(config, "show", MINT)

    assert added.stdout.count("tracked from now on") == 2
    assert again.stdout == f"{MINT}  was tracked already\n"
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["mint", MINT, WSOL]
    assert first.stderr == f"there are more: --after {MINT}\n"
    assert [line.split()[0] for line in first.stdout.splitlines()] == ["mint", MINT]
    assert [line.split()[0] for line in second.stdout.splitlines()] == ["mint", WSOL]
    assert [(each["mint"], each["by"]) for each in json.loads(as_json.stdout)] == [
        (MINT, "operator"),
        (WSOL, "operator"),
    ]
    assert removed.stdout == f"{MINT}  dropped\n"
    assert (gone.exit_code, gone.stdout) == (2, "")
    assert "is not tracked" in gone.stderr


def test_sol_is_not_removed(config: Path) -> None:
    tokens(config, "add", MINT, WSOL)
    refused = tokens(config, "remove", MINT, WSOL)
    listed = json.loads(tokens(config, "list", "--json").stdout)

    assert refused.exit_code == 2
    assert (
        refused.stderr == f"expected a token other than SOL, which is always tracked; was {WSOL}\n"
    )
    assert [each["mint"] for each in listed] == [MINT, WSOL]


def test_sol_that_an_earlier_version_removed_can_be_added_again(
    config: Path, tmp_path: Path
) -> None:
    async def remove() -> None:
        async with market_in(tmp_path) as market:
            await market.tracking.add(WSOL)
            await market.tracking.remove(WSOL)

    asyncio.run(remove())
    added = tokens(config, "add", WSOL)

    assert added.stdout == f"{WSOL}  tracked from now on\n"
    (listed,) = json.loads(tokens(config, "list", "--json").stdout)
    assert (listed["mint"], listed["by"]) == (WSOL, "operator")


def test_an_address_that_is_no_mint_is_refused_in_one_sentence(
    config: Path, node: dict[str, Any], tmp_path: Path
) -> None:
    config.write_text(f'data_dir = "{tmp_path}"\nchain.rpc_url = "{node["url"]}"\n')
    node["accounts"] = [account(bytes(82), owner=MINT), None]
    refused = tokens(config, "add", MINT)

    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr == (
        f"{MINT}: expected a mint of a token program; the account belongs to {MINT}\n"
    )
    assert "there is no data here" in tokens(config, "list").stderr


def test_the_facts_of_an_added_mint_are_stored_and_shown(
    config: Path, node: dict[str, Any], tmp_path: Path
) -> None:
    config.write_text(f'data_dir = "{tmp_path}"\nchain.rpc_url = "{node["url"]}"\n')
    made = bytes(36) + (5_000).to_bytes(8, "little") + b"\x06\x01" + bytes(36)
    node["accounts"] = [account(made, owner=str(TokenProgram.SPL)), None]
    added = tokens(config, "add", MINT)
    facts = json.loads(tokens(config, "show", MINT).stdout)["facts"]

    assert (added.stdout, added.stderr) == (f"{MINT}  tracked from now on\n", "")
    assert (facts["slot"], facts["decimals"], facts["supply"]) == (77, 6, 5_000)
    assert (facts["mintAuthority"], facts["name"]) == (None, None)


def test_a_mint_is_added_unchecked_if_the_node_does_not_answer(config: Path) -> None:
    added = tokens(config, "add", MINT)

    assert (added.exit_code, added.stdout) == (0, f"{MINT}  tracked from now on\n")
    assert added.stderr.startswith("the mints were not checked; ingest checks them later: ")
    assert added.stderr.count("\n") == 1


def test_a_mint_without_swaps_has_no_price(config: Path) -> None:
    tokens(config, "add", MINT)

    assert json.loads(tokens(config, "show", MINT).stdout) == {
        "mint": MINT,
        "trackedSince": None,
        "listed": True,
        "price": None,
        "candleCounts": {"m1": 0, "m5": 0, "m15": 0, "h1": 0},
        "imported": {},
        "lastSwap": None,
        "historyMissing": 0,
        "facts": None,
    }


@pytest.mark.parametrize("command", ["add", "remove", "show"])
def test_a_wrong_address_changes_nothing(command: str, config: Path) -> None:
    arguments = [command, "0OIl"] if command == "show" else [command, MINT, "0OIl"]
    wrong = tokens(config, *arguments)

    assert wrong.exit_code == 2
    assert "expected a token mint address" in wrong.stderr
    assert "Traceback" not in wrong.stderr
    assert "there is no data here" in tokens(config, "list").stderr


def test_a_file_that_is_not_sqlite_is_reported_in_one_message(config: Path, tmp_path: Path) -> None:
    (tmp_path / "market.sqlite").write_bytes(b"nonsense" * 1_000)
    result = tokens(config, "list")

    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert "expected an SQLite database" in result.stderr
