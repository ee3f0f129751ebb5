"""A chain with blocks of mainnet's size and mix, one every SLOT_S.

The transactions of a block are made once; each block holds them with a slot and hashes of its
own, and every sixth or seventh a trade of a mint that was never seen before.
"""

import json
import time
from collections.abc import Iterable, Iterator
from hashlib import sha256
from random import Random
from typing import Any, Final

import msgspec
from based58 import b58encode

from bench.pace import SLOT_S
from bench.transactions import made
from mintscope.base.clock import SystemClock
from mintscope.base.primitives import Slot
from mintscope.base.solana import WSOL
from mintscope.base.time import DAY_S, MINUTE_S
from mintscope.core.dex.decode import decode_block
from mintscope.core.market.swap import Swap
from mintscope.edges.sources.json_transactions import JsonTransactions

FIRST: Final = Slot(400_000_000)
FINAL_LAG: Final = 32
HISTORY: Final = 50  # blocks before the first moment, a minute apart
GENESIS: Final = "BenchMainnet1111111111111111111111111111111"
BLOCK_BYTES: Final = 7_000_000
TRADES: Final = 370  # some of two swaps
NEW_MINTS_A_DAY: Final = 50_000


class Chain:
    """What there is of it is a function of the time.

    transactions   of every block, as getBlock shows them
    sent_at_s      when a block had left for its reader, in seconds of the machine's own clock
    """

    def __init__(self) -> None:
        self.transactions: list[dict[str, Any]] = json.loads(made(dex=TRADES).block)["transactions"]
        self.sent_at_s: dict[int, float] = {}
        self._newcomer, self._mint = _trade_of_one_mint(self.transactions)
        _fill(self.transactions)
        self._start_s = time.monotonic()

    @property
    def swaps(self) -> int:
        """How many swaps a block holds."""
        return len(_swaps(map(json.dumps, self.transactions)))

    def head(self) -> Slot:
        """Return the newest slot."""
        return Slot(FIRST + HISTORY + int((time.monotonic() - self._start_s) / SLOT_S))

    def wait_s(self, slot: Slot) -> float:
        """Return for how long *slot* is not there yet."""
        return self._start_s + (slot - FIRST - HISTORY) * SLOT_S - time.monotonic()

    def block_time(self, slot: Slot) -> int:
        """Return when *slot* was made, in Unix seconds."""
        age_s = -self.wait_s(slot)
        since_s = max(0, FIRST + HISTORY - slot) * (MINUTE_S - SLOT_S)
        return int(SystemClock().now() / 1_000 - age_s - since_s)

    def newcomer(self, slot: Slot) -> str:
        """Return the trade of a new mint in *slot* as JSON, "" if there is none."""
        before, after = (int(each * NEW_MINTS_A_DAY * SLOT_S / DAY_S) for each in (slot - 1, slot))
        if before == after:
            return ""
        return self._newcomer.replace(
            self._mint, b58encode(sha256(b"%d" % after).digest()).decode()
        )

    def note_sent(self, slot: int) -> None:
        """Remember that *slot* has left, the first time."""
        self.sent_at_s.setdefault(slot, time.monotonic())


def _trade_of_one_mint(transactions: list[dict[str, Any]]) -> tuple[str, str]:
    """Return a trade that is read as one of another mint where its mint's name is replaced."""
    new = b58encode(sha256(b"a new mint").digest()).decode()
    for entry in transactions:
        text = json.dumps(entry, separators=(",", ":"))
        for mint in _mints(entry):
            if any(
                new in (swap.in_mint, swap.out_mint) for swap in _swaps([text.replace(mint, new)])
            ):
                return text, mint
    raise AssertionError("expected a swap whose mint can be replaced")


def _mints(entry: dict[str, Any]) -> Iterator[str]:
    for balance in entry["meta"]["postTokenBalances"] or ():
        if balance["mint"] != WSOL:
            yield balance["mint"]


def _swaps(entries: Iterable[str]) -> list[Swap]:
    raw = [msgspec.Raw(entry.encode()) for entry in entries]
    return decode_block(JsonTransactions(raw)).swaps


def _fill(transactions: list[dict[str, Any]]) -> None:
    """Give each transaction log lines until a block has its size."""
    random, size = Random(1), len(json.dumps(transactions, separators=(",", ":")))
    lines = (BLOCK_BYTES - size) // 100 // len(transactions)
    for entry in transactions:
        program = entry["transaction"]["message"]["accountKeys"][-1]
        for _ in range(lines):
            left, used = random.randrange(1_400_000), random.randrange(200_000)
            line = f"Program {program:<44} consumed {used:>6} of {left:>7} compute units"
            entry["meta"]["logMessages"] = [*(entry["meta"]["logMessages"] or ()), line]
