"""Measures the decoding of transactions to swaps, on one core, beside solana-dex-parser.

All decoders read the same JSON.  The floor is the work that every decoder of this JSON must do:
parse the fields of each transaction from which a swap is decoded; in a block, also find the
transactions that can have a swap.  mintscope and the floor alternate.  The peer runs in node, once
before them.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median

import msgspec

from bench.figure import Figure, tell
from bench.transactions import Sample, samples
from bench.turns import spread, take_turns
from mintscope.dex.decode import decode_block
from mintscope.dex.outcome import Swap
from mintscope.solana.wire import SEARCH_MAX, JsonTransaction, JsonTransactions, may_hold_swap

ROOT = Path(__file__).resolve().parents[1]
NODE = Path(sys.executable).with_name("node")
PEER = ROOT / "bench" / "peers" / "decode.mjs"
PEER_NAME = "solana-dex-parser 2.6.7 (npm)"
PEER_CALLS = 3000  # enough calls for the compiler of the peer to optimise all code
PEER_TIMEOUT_S = 120
OURS, FLOOR = "mintscope", "floor: parse the same JSON"
GOALS = {"transactions": ">= 0.40x: 2.5 floors", "block": ">= 0.56x: 1.8 floors"}


class Block(msgspec.Struct):
    """The list of transactions in a getBlock result, not yet parsed."""

    transactions: list[msgspec.Raw]


BLOCK = msgspec.json.Decoder(Block)
TRANSACTION = msgspec.json.Decoder(JsonTransaction)


def peer_s(entries: Sequence[bytes]) -> float:
    """Decode *entries* in several rounds with the peer; return the least seconds of a round."""
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
    """Decode *block*, the bytes of a getBlock result, and return its swaps."""
    return decode_block(JsonTransactions(BLOCK.decode(block).transactions)).swaps


def parse(raws: Sequence[msgspec.Raw]) -> None:
    """Parse all transactions as the decoder does, without decoding swaps; ignore malformed ones."""
    for raw in raws:
        with suppress(msgspec.DecodeError):
            TRANSACTION.decode(raw)


def parse_block(block: bytes) -> None:
    """Find the transactions of *block* that can have a swap, and parse only these."""
    raws = BLOCK.decode(block).transactions
    parse([raw for raw in raws if len(raw) > SEARCH_MAX or may_hold_swap(bytes(raw))])


def run() -> list[Figure]:
    """Measure the decoders with each sample of transactions that is available."""
    return [figure for sample in samples() for figure in _figures(sample)]


def _figures(sample: Sample) -> list[Figure]:
    raws = [msgspec.Raw(entry) for entry in sample.transactions]
    in_block = [bytes(raw) for raw in BLOCK.decode(sample.block).transactions]
    peer_us, peer_block_us = (peer_s(each) * 1e6 for each in (sample.transactions, in_block))
    took = take_turns(
        {
            "transactions": lambda: decode_block(JsonTransactions(raws)),
            "transactions, floor": partial(parse, raws),
            "block": partial(swaps_of_block, sample.block),
            "block, floor": partial(parse_block, sample.block),
        }
    )
    rows = []
    for name, count, peer in (
        ("transactions", len(raws), peer_us),
        ("block", len(in_block), peer_block_us),
    ):
        is_block = name == "block"
        what = f"decode a block of {count:,}" if is_block else "decode DEX transactions"
        ours, floor = took[name], took[f"{name}, floor"]
        slowness = ours.times_as_long(floor)
        for who, turns, ratio, goal in (
            (OURS, ours, None, ""),
            (FLOOR, floor, 1 / slowness, GOALS[name]),
        ):
            us = median(turns.cpu_s) * 1e6
            rows.append(
                Figure(
                    what=f"{what} ({sample.data})",
                    who=who,
                    value=us / 1000 if is_block else count / us * 1e6,
                    unit="ms" if is_block else "tx/s per core",
                    ratio=ratio,
                    goal=goal,
                    spread=spread(turns.cpu_s),
                    cpu_us=us / count,
                    wall_us=median(turns.wall_s) * 1e6 / count,
                )
            )
        rows.append(
            Figure(
                what=f"{what} ({sample.data})",
                who=PEER_NAME,
                value=peer / 1000 if is_block else count / peer * 1e6,
                unit="ms" if is_block else "tx/s per core",
                ratio=peer / (median(ours.cpu_s) * 1e6),
                cpu_us=peer / count,
            )
        )
    return rows


if __name__ == "__main__":
    for figure in run():
        tell(figure)
