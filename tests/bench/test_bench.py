"""The input of benchmarks is the same in every clone, and every benchmark can be loaded."""

import gzip
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from mintscope.dex.decode import decode_block
from mintscope.solana.wire import JsonTransactions

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for folder in ("bench", "bench/mainnet")
    for path in (ROOT / folder).glob("*.py")
)


class Block(msgspec.Struct):
    """The part of a getBlock result that has its transactions."""

    transactions: list[msgspec.Raw]


@pytest.fixture(autouse=True)
def bench_is_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.mark.storm
def test_the_made_block_has_the_shares_of_mainnet() -> None:
    """Two thirds of the transactions are votes; each trade among the others is decoded."""
    made = importlib.import_module("bench.transactions").made()
    entries = msgspec.json.decode(made.block, type=Block).transactions
    decoded = decode_block(JsonTransactions(entries))
    alone = decode_block(JsonTransactions([msgspec.Raw(one) for one in made.transactions]))

    assert len(entries) == 1_500
    assert sum(b"Vote111" in bytes(entry) for entry in entries) == 1_000
    assert sum(b'"err":{' in bytes(entry) for entry in entries) == 131
    assert len({swap.signature for swap in decoded.swaps}) > 250
    assert len({swap.program for swap in decoded.swaps}) == 6
    assert sorted(s.signature for s in decoded.swaps) == sorted(s.signature for s in alone.swaps)
    assert not decoded.quarantined


@pytest.mark.storm
def test_a_block_of_the_mainnet_load_has_its_size_and_new_mints() -> None:
    """A transaction has 12 kB; a burst has 5,000 swaps a second; a day has 50,000 new mints."""
    chain = importlib.import_module("bench.mainnet.chain").Chain(age_s=1_000)
    node = importlib.import_module("bench.mainnet.node").Node(chain)
    first = chain.head()
    busy = next(slot for slot in range(first - 400, first) if chain.is_busy(slot))
    assert 900 <= chain.swaps(chain.busy) <= 1_000
    assert 150 <= chain.swaps(chain.calm) <= 250
    assert b"Vote111" not in json.dumps([chain.calm, chain.busy]).encode()
    for slot, transactions in ((busy, chain.busy), (busy - 20, chain.calm)):
        packed, is_packed = node.answer("getBlock", [slot, {"transactionDetails": "full"}])
        text = gzip.decompress(packed)
        assert is_packed
        count = len(json.loads(text)["result"]["transactions"])
        assert count in {len(transactions), len(transactions) + 1}
        assert 11_000 < len(text) / count < 13_000
    slots = round(0.01 * 86_400 / importlib.import_module("bench.pace").SLOT_S)
    new = [chain.newcomer(first + number) for number in range(slots)]
    swaps = decode_block(JsonTransactions([msgspec.Raw(one.encode()) for one in new if one])).swaps
    assert len(swaps) == pytest.approx(500, abs=2)
    mints = {mint for swap in swaps for mint in (swap.in_mint, swap.out_mint)}
    assert len(mints) == len(swaps) + 1


@pytest.mark.storm
def test_the_made_block_is_the_same_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chain of this test is short, with few transactions, to save time."""
    transactions = importlib.import_module("bench.transactions")
    monkeypatch.setattr(transactions, "HISTORY_DAYS", 0.01)
    transactions.entries_by_kind.cache_clear()
    made = transactions.made(3)
    transactions.entries_by_kind.cache_clear()

    assert made == transactions.made(3)
    assert made.block != transactions.made(4).block
    transactions.entries_by_kind.cache_clear()


@pytest.mark.parametrize("module", MODULES)
def test_every_benchmark_can_be_loaded(module: str) -> None:
    """A peer that is not installed is no failure: `make bench` installs it."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as missing:
        if str(missing.name).startswith(("mintscope", "bench")):
            raise
        pytest.skip(f"did not run: {missing}")


@pytest.mark.process
def test_the_names_of_figures_are_modules_and_are_on_the_page() -> None:
    main = importlib.import_module("bench.__main__")
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    asked = subprocess.run(
        [sys.executable, "-m", "bench", "nothing"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert all(f"bench.{name}" in MODULES for name in main.NAMES)
    assert set(re.findall(r"\| `([a-z_]+)` \|", page)) == set(main.NAMES)
    assert asked.returncode == 2
    assert f"expected names of {', '.join(main.NAMES)}; there were nothing" in asked.stderr


OLD_LINE = (
    "decode a block of 1,500 (recorded)           mintscope                          "
    "        1,012.50 ms                          <= 9 ms"
)


def test_two_revisions_are_compared_by_the_printed_figures_of_mintscope() -> None:
    """Older revisions print fewer columns; figures of peers are not compared."""
    compare = importlib.import_module("bench.compare")
    figure = importlib.import_module("bench.figure")
    new = figure.Figure(
        what="decode a block of 1,500 (recorded)",
        who="mintscope",
        value=1012.5,
        unit="ms",
        spread=0.01,
        cpu_us=8.5,
    )
    peer = figure.Figure(what=new.what, who="node", value=4.0, unit="ms", ratio=4.0)
    rate = figure.Figure(what="decode", who="mintscope", value=35_000.0, unit="tx/s per core")

    expected = [((new.what, "ms"), 1012.5)]
    assert list(compare.figures(OLD_LINE)) == expected
    assert list(compare.figures(f"{figure.HEAD}\n{figure.line(new)}\n")) == expected
    assert list(compare.figures(figure.line(peer))) == []
    assert list(compare.figures(figure.line(rate))) == [(("decode", "tx/s per core"), 35_000.0)]


def test_a_higher_rate_and_a_shorter_time_are_better() -> None:
    compare = importlib.import_module("bench.compare")

    assert compare.ratio("tx/s per core", 120.0, 100.0) == pytest.approx(1.2)
    assert compare.ratio("ms", 100.0, 120.0) == pytest.approx(1.2)


def test_the_benchmark_alternates_between_mintscope_and_the_baseline() -> None:
    turns = importlib.import_module("bench.turns")
    called: list[str] = []
    taken = turns.take_turns(
        {"ours": lambda: called.append("ours"), "floor": lambda: called.append("floor")}, rounds=5
    )

    assert [{*called[n : n + 2]} for n in range(0, 12, 2)] == [{"ours", "floor"}] * 6
    assert len(taken["ours"].cpu_s) == len(taken["floor"].wall_s) == 5
    assert turns.spread([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(0.5)


@pytest.mark.process
def test_the_makefile_takes_an_interpreter_that_mintscope_runs_on(tmp_path: Path) -> None:
    """A Python of another version is skipped; stderr gives the reason for the choice."""
    too_old = tmp_path / "old" / "python3"
    too_old.parent.mkdir()
    too_old.write_text("#!/bin/sh\nexit 0\n")
    too_old.chmod(0o755)
    ours = tmp_path / "ours" / "python3"
    ours.parent.mkdir()
    ours.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    ours.chmod(0o755)
    reported = subprocess.run(
        [sys.executable, ROOT / "bench" / "interpreter.py"],
        env={"PATH": f"{too_old.parent}:{ours.parent}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert reported.stdout == f"{ours}\n"
    assert "profile-guided optimisation" in reported.stderr
