"""The input of the decoder's benchmark: transactions of the project's own chain, and recorded ones.

Those of our own chain are the same in every clone: a seeded market trades in the transaction
shapes of six programs and a router.  They are shorter than mainnet's (7 kB against 12), so the
same figure on the recorded ones, if they are available, comes out higher in ms and lower in rate.
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
# A block of mainnet in September 2026: two thirds were votes, and of the rest every fourth failed,
# mostly in a DEX.
VOTES, DEX, FAILED, OTHERS = 1_000, 300, 131, 69
SLIPPAGE: Final = {"InstructionError": [2, {"Custom": 6001}]}


class Sample(NamedTuple):
    """Transactions in the JSON of getBlock, without whitespace, as a node sends them.

    data          "made" or "recorded", as printed in figures
    transactions  each with a DEX program among its accounts
    block         a getBlock result of 1,500 transactions, 300 of which are with a DEX program
    """

    data: str
    transactions: list[bytes]
    block: bytes


def samples() -> list[Sample]:
    """Return the samples: generated ones, then recorded ones if available."""
    found = recorded()
    return [made()] if found is None else [made(), found]


def recorded() -> Sample | None:
    """Return the sample of mainnet; None in a clone without the recorded data beside it."""
    folder = SHARED_DATA / "transactions"
    if not folder.is_dir():
        return None
    listed = (folder / "fixtures.jsonl").read_text().splitlines()
    files = [one["file"] for one in map(json.loads, listed) if "no_dex_program" not in one["tags"]]
    packed = SHARED_DATA / "blocks" / "synthetic_1500_transactions.json.gz"
    entries = [msgspec.json.format((folder / file).read_bytes(), indent=-1) for file in files]
    return Sample(RECORDED, entries, gzip.decompress(packed.read_bytes()))


def made(seed: int = 1, *, dex: int = DEX) -> Sample:
    """Return the sample of the project's own chain, with *dex* successful trades."""
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


@lru_cache(maxsize=1)  # one chain serves blocks of several sizes
def entries_by_kind(seed: int) -> dict[str, list[Any]]:
    """Return the transactions of the chain of *seed*: votes, those with a DEX, and others."""
    chain = Devchain(
        seed=seed,
        now=NOW,
        mints=MINTS,
        history_days=HISTORY_DAYS,
        # As mainnet was in September 2026: figures of then and of now are of the same bytes.
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
