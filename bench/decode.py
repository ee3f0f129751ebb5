"""Transactions to swaps, on one core, beside solana-dex-parser on the same JSON."""

import gzip
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from bench.figure import Figure, line
from mintscope.core.dex.decode import decode_block
from mintscope.core.market.swap import Swap
from mintscope.edges.sources.json_transactions import JsonTransactions

ROOT = Path(__file__).resolve().parents[1]
SHARED_DATA = ROOT.parent / "shared" / "data"
NODE = Path(sys.executable).with_name("node")
PEER = ROOT / "bench" / "peers" / "decode.mjs"
PEER_NAME = "solana-dex-parser 2.6.7 (npm)"
ROUNDS = 15
PEER_CALLS = 3000  # enough for its compiler to have seen everything
PEER_TIMEOUT_S = 120
BLOCK_SIZE = 1500


class Block(msgspec.Struct):
    """As much of a getBlock result as it takes to find its transactions."""

    transactions: list[msgspec.Raw]


BLOCK = msgspec.json.Decoder(Block)


def recorded() -> tuple[list[bytes], bytes] | None:
    """Return the recorded DEX transactions and the block made of such, if they are here."""
    folder = SHARED_DATA / "transactions"
    if not folder.is_dir():
        return None
    listed = (folder / "fixtures.jsonl").read_text().splitlines()
    files = [one["file"] for one in map(json.loads, listed) if "no_dex_program" not in one["tags"]]
    packed = SHARED_DATA / "blocks" / "synthetic_1500_transactions.json.gz"
    # Without whitespace, as an RPC sends them.
    entries = [msgspec.json.format((folder / file).read_bytes(), indent=-1) for file in files]
    return entries, gzip.decompress(packed.read_bytes())


def made() -> tuple[list[bytes], bytes]:
    """Return transactions of the project's own making: a swap of Raydium v4 under Jupiter."""
    sys.path.insert(0, str(ROOT / "tests" / "core" / "dex"))
    from support.scenes import made_transactions as made  # noqa: PLC0415 - needed only here

    authority = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"
    accounts = ["spl", "amm", authority, *(f"other {i}" for i in range(14))]
    moved = [made.transfer("user a", "vault a", 100), made.transfer("vault b", "user b", 70)]
    swap = made.Ix(
        "675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8", accounts, b"\x09" + bytes(16), moved
    )
    tx = made.Tx(made.Ix(made.JUPITER, ["x"], bytes(8), [swap]))
    tx.holds("user a", "A", "user").holds("user b", "B", "user")
    raw = tx.holds("vault a", "A", authority).holds("vault b", "B", authority).raw()
    return [raw] * 77, b'{"transactions":[' + b",".join([raw] * BLOCK_SIZE) + b"]}"


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
    """Measure; say where the transactions came from."""
    data = recorded()
    source = "recorded" if data is not None else "made by the project: the recorded are not here"
    entries, block = data or made()
    raws = [msgspec.Raw(entry) for entry in entries]
    in_block = [bytes(raw) for raw in BLOCK.decode(block).transactions]
    rate = len(raws) / best_s(lambda: decode_block(JsonTransactions(raws)))
    block_ms = best_s(lambda: swaps_of_block(block)) * 1000
    peer_rate = len(entries) / peer_s(entries)
    peer_ms = peer_s(in_block) * 1000
    what, whole = f"decode DEX transactions ({source})", f"decode a block of {len(in_block):,}"
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
        print(line(figure))
