"""Transactions to swaps, on one core, beside solana-dex-parser on the same JSON."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from bench.figure import Figure, tell
from bench.transactions import Sample, samples
from mintscope.core.dex.decode import decode_block
from mintscope.core.market.swap import Swap
from mintscope.edges.sources.json_transactions import JsonTransactions

ROOT = Path(__file__).resolve().parents[1]
NODE = Path(sys.executable).with_name("node")
PEER = ROOT / "bench" / "peers" / "decode.mjs"
PEER_NAME = "solana-dex-parser 2.6.7 (npm)"
ROUNDS = 15
PEER_CALLS = 3000  # enough for its compiler to have seen everything
PEER_TIMEOUT_S = 120


class Block(msgspec.Struct):
    """As much of a getBlock result as it takes to find its transactions."""

    transactions: list[msgspec.Raw]


BLOCK = msgspec.json.Decoder(Block)


def best_s(work: Callable[[], object]) -> float:
    """Return the CPU time of the best of some rounds of *work*."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def peer_s(entries: Sequence[bytes]) -> float:
    """Return the CPU time of the peer's best round over *entries*."""
    rounds = max(2, PEER_CALLS // len(entries))
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(b"\n".join(entries))
        file.flush()
        ran = subprocess.run(
            [NODE, PEER, file.name, str(rounds)],
            capture_output=True,
            check=True,
            timeout=PEER_TIMEOUT_S,
        )
    return float(json.loads(ran.stdout)["seconds"])


def swaps_of_block(block: bytes) -> list[Swap]:
    """Return the swaps of a getBlock result, from its bytes."""
    return decode_block(JsonTransactions(BLOCK.decode(block).transactions)).swaps


def run() -> list[Figure]:
    """Measure on every sample there is."""
    return [figure for sample in samples() for figure in _figures(sample)]


def _figures(sample: Sample) -> list[Figure]:
    raws = [msgspec.Raw(entry) for entry in sample.transactions]
    in_block = [bytes(raw) for raw in BLOCK.decode(sample.block).transactions]
    rate = len(raws) / best_s(lambda: decode_block(JsonTransactions(raws)))
    block_ms = best_s(lambda: swaps_of_block(sample.block)) * 1000
    peer_rate = len(raws) / peer_s(sample.transactions)
    peer_ms = peer_s(in_block) * 1000
    what = f"decode DEX transactions ({sample.data})"
    whole = f"decode a block of {len(in_block):,} ({sample.data})"
    return [
        Figure(what=what, who="mintscope", value=rate, unit="tx/s per core", goal="60,000"),
        Figure(
            what=what, who=PEER_NAME, value=peer_rate, unit="tx/s per core", ratio=rate / peer_rate
        ),
        Figure(what=whole, who="mintscope", value=block_ms, unit="ms", goal="<= 9 ms"),
        Figure(what=whole, who=PEER_NAME, value=peer_ms, unit="ms", ratio=peer_ms / block_ms),
    ]


if __name__ == "__main__":
    for figure in run():
        tell(figure)
