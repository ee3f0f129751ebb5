"""The input of the benchmark of the decoder: transactions of the devchain, and recorded ones.

The transactions of the devchain are the same in every clone: a seeded market trades in the forms of
six programs and a router.  They are shorter than those of mainnet (7 kB against 12), so recorded
transactions, if they are available, take more time.
"""

import gzip
import json
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import msgspec

from mintscope.dex.programs import BY_ADDRESS
from mintscope.kit.primitives import UnixMs
from mintscope_devchain.addresses import VOTE
from mintscope_devchain.chain import Devchain

SHARED_DATA: Final = Path(__file__).resolve().parents[2] / "shared" / "data"
MADE, RECORDED = "made", "recorded"
NOW: Final = UnixMs(1_700_000_000_000)
HISTORY_DAYS: Final = 0.1
MINTS: Final = 60
# The mix of a block of mainnet in September 2026: two thirds were votes, and a fourth of the others
# had failed, mostly in a DEX.
VOTES, DEX, FAILED, OTHERS = 1_000, 300, 131, 69
SLIPPAGE: Final = {"InstructionError": [2, {"Custom": 6001}]}


class Sample(NamedTuple):
    """Transactions in the JSON of getBlock, without whitespace, as a node sends them.

    data          "made" or "recorded", as in the names of figures
    transactions  transactions that each have a DEX program among their accounts
    block         a getBlock result with 1,500 transactions, of which 300 have a DEX program
    """

    data: str
    transactions: list[bytes]
    block: bytes


def samples() -> list[Sample]:
    """Return the samples: generated ones, then recorded ones if available."""
    found = recorded()
    return [made()] if found is None else [made(), found]


def recorded() -> Sample | None:
    """Return the sample of mainnet; None if the recorded data is not next to the clone."""
    folder = SHARED_DATA / "transactions"
    if not folder.is_dir():
        return None
    listed = (folder / "fixtures.jsonl").read_text().splitlines()
    files = [one["file"] for one in map(json.loads, listed) if "no_dex_program" not in one["tags"]]
    packed = SHARED_DATA / "blocks" / "synthetic_1500_transactions.json.gz"
    entries = [msgspec.json.format((folder / file).read_bytes(), indent=-1) for file in files]
    return Sample(RECORDED, entries, gzip.decompress(packed.read_bytes()))


def made(seed: int = 1, *, dex: int = DEX) -> Sample:
    """Return the sample of the devchain with *seed*, with *dex* successful trades."""
    kinds = entries_by_kind(seed)
    random = Random(seed)
    trades = random.sample(kinds["dex"], dex)
    mixed = [
        *random.choices(kinds["vote"], k=VOTES + DEX - dex),
        *trades,
        *(_failed(entry) for entry in random.sample(kinds["dex"], FAILED)),
        *random.choices(kinds["other"], k=OTHERS),
    ]
    random.shuffle(mixed)
    block_text = msgspec.json.encode({"transactions": mixed})
    return Sample(MADE, [msgspec.json.encode(entry) for entry in trades], block_text)


@lru_cache(maxsize=1)  # blocks of several sizes use the same chain
def entries_by_kind(seed: int) -> dict[str, list[Any]]:
    """Return the transactions of the devchain with *seed* by kind: "vote", "dex" and "other"."""
    chain = Devchain(
        seed=seed,
        now=NOW,
        mints=MINTS,
        history_days=HISTORY_DAYS,
        # The pace of mainnet in September 2026, so that older and newer figures are of the same
        # bytes.
        slot_ms=400,
        finality_ms=12_800,
    )
    kinds: dict[str, list[Any]] = {"vote": [], "dex": [], "other": []}
    for slot in chain.blockstore.slots:
        block = chain.blockstore.block(slot)
        assert block is not None
        for entry in chain.entries(block):
            kinds[_kind(entry)].append(entry)
    return kinds


def _kind(entry: dict[str, Any]) -> str:
    loaded = entry["meta"].get("loadedAddresses") or {"writable": [], "readonly": []}
    keys = {*entry["transaction"]["message"]["accountKeys"], *loaded["writable"]}
    if VOTE in keys:
        return "vote"
    return "dex" if BY_ADDRESS.keys() & (keys | {*loaded["readonly"]}) else "other"


def _failed(entry: dict[str, Any]) -> dict[str, Any]:
    """Return *entry* as a swap that failed because it would receive too little."""
    meta = {**entry["meta"], "err": SLIPPAGE, "status": {"Err": SLIPPAGE}}
    return {**entry, "meta": meta}
