"""A simulated chain with one block every slot, of the size and mix of mainnet, without votes.

The transactions of a calm and of a busy block are created once; each block contains them with other
hashes and its slot.  About every ninth block also has a trade of a new mint.  Blocks are busy in a
burst of two seconds in each minute, with 5,000 swaps a second.
"""

import json
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from random import Random
from typing import Any, Final, TypeAlias

import msgspec
from based58 import b58encode

from bench.pace import FINALITY_S, SLOT_S
from bench.transactions import made
from mintscope.dex.decode import decode_block
from mintscope.dex.outcome import Swap
from mintscope.kit.clock import SystemClock
from mintscope.kit.primitives import Slot
from mintscope.kit.time import DAY_S, MINUTE_S
from mintscope.solana.blocks import WSOL
from mintscope.solana.wire import JsonTransactions
from mintscope_devchain.addresses import VOTE

FIRST: Final = Slot(400_000_000)
HISTORY: Final = 50  # the number of blocks before the start, a minute apart
GENESIS: Final = "BenchMainnet1111111111111111111111111111111"
TRANSACTION_BYTES: Final = 12_000  # as on mainnet; the transactions here are padded to this size
SWAPS_A_SECOND: Final = 5_000  # swaps a second during a burst
CALM: Final = 0.2  # the trades of a calm block, divided by those of a busy block
BURST_EVERY_S: Final = 60.0
BURST_S: Final = 2.0
SWAPS_OF_A_TRADE: Final = 1.15  # the average number of swaps in a trade; some trades have two
NEW_MINTS_A_DAY: Final = 50_000

Entry: TypeAlias = dict[str, Any]


class Chain:
    """A simulated chain of mainnet blocks, whose newest slot follows from the time alone.

    slot_s       the duration of a slot
    finality_s   the seconds from a block until it is final
    calm, busy   the transactions of a block, as getBlock shows them
    sent_at_s    when the block of each slot was sent, in seconds of the monotonic clock
    """

    def __init__(
        self, slot_s: float = SLOT_S, finality_s: float = FINALITY_S, *, age_s: float = 0.0
    ) -> None:
        """Create a chain that began producing blocks *age_s* seconds ago."""
        self.slot_s = slot_s
        self.finality_s = finality_s
        trades = int(SWAPS_A_SECOND * slot_s / SWAPS_OF_A_TRADE)
        self.busy = _without_votes(made(dex=trades).block)
        self.calm = _without_votes(made(dex=int(trades * CALM)).block)
        self.sent_at_s: dict[int, float] = {}
        self._newcomer, self._mint = _trade_of_one_mint(self.calm)
        for transactions in (self.calm, self.busy):
            _fill(transactions)
        self._start_s = time.monotonic() - age_s

    def swaps(self, transactions: Sequence[Entry]) -> int:
        """Return the number of swaps in *transactions*."""
        return len(_swaps(map(json.dumps, transactions)))

    def is_busy(self, slot: Slot) -> bool:
        """Return whether *slot* is in one of the bursts, in which blocks have more swaps."""
        return ((slot - FIRST) * self.slot_s) % BURST_EVERY_S < BURST_S

    def transactions(self, slot: Slot) -> Sequence[Entry]:
        """Return the transactions that *slot* has, except the trade of a new mint."""
        return self.busy if self.is_busy(slot) else self.calm

    def head(self) -> Slot:
        """Return the newest slot."""
        return self._newest(0.0)

    def final_head(self) -> Slot:
        """Return the newest slot that is final."""
        return self._newest(self.finality_s)

    def _newest(self, age_s: float) -> Slot:
        """Return the newest slot that began at least *age_s* seconds ago."""
        since_s = time.monotonic() - self._start_s - age_s
        return Slot(FIRST + HISTORY + math.floor(since_s / self.slot_s))

    def wait_s(self, slot: Slot) -> float:
        """Return the seconds until the block of *slot* is due."""
        return self._start_s + (slot - FIRST - HISTORY) * self.slot_s - time.monotonic()

    def block_time(self, slot: Slot) -> int:
        """Return the block time of *slot*, in Unix seconds."""
        age_s = -self.wait_s(slot)
        since_s = max(0, FIRST + HISTORY - slot) * (MINUTE_S - self.slot_s)
        return int(SystemClock().now() / 1_000 - age_s - since_s)

    def newcomer(self, slot: Slot) -> str:
        """Return the trade of a mint that is new in *slot*, as JSON; "" if *slot* has none."""
        before, after = (
            int(each * NEW_MINTS_A_DAY * self.slot_s / DAY_S) for each in (slot - 1, slot)
        )
        if before == after:
            return ""
        return self._newcomer.replace(
            self._mint, b58encode(sha256(b"%d" % after).digest()).decode()
        )

    def note_sent(self, slot: int) -> None:
        """Record the current time as that at which *slot* was sent, unless it was sent before."""
        self.sent_at_s.setdefault(slot, time.monotonic())


def _trade_of_one_mint(transactions: list[Entry]) -> tuple[str, str]:
    """Return a trade as JSON, and the address of its mint, which can be replaced in the JSON."""
    new = b58encode(sha256(b"a new mint").digest()).decode()
    for entry in transactions:
        text = json.dumps(entry, separators=(",", ":"))
        for mint in _mints(entry):
            if any(
                new in (swap.in_mint, swap.out_mint) for swap in _swaps([text.replace(mint, new)])
            ):
                return text, mint
    raise AssertionError("expected a swap whose mint can be replaced")


def _mints(entry: Entry) -> Iterator[str]:
    for balance in entry["meta"]["postTokenBalances"] or ():
        if balance["mint"] != WSOL:
            yield balance["mint"]


def _swaps(entries: Iterable[str]) -> list[Swap]:
    raw = [msgspec.Raw(entry.encode()) for entry in entries]
    return decode_block(JsonTransactions(raw)).swaps


def _without_votes(block: bytes) -> list[Entry]:
    """Return the transactions of *block*, a getBlock result, without votes: Alpenglow has none."""
    return [
        entry
        for entry in json.loads(block)["transactions"]
        if VOTE not in entry["transaction"]["message"]["accountKeys"]
    ]


def _fill(transactions: list[Entry]) -> None:
    """Add log lines to *transactions* until their average size is that on mainnet."""
    random, size = Random(1), len(json.dumps(transactions, separators=(",", ":")))
    lines = max(0, TRANSACTION_BYTES - size // len(transactions)) // 100
    for entry in transactions:
        program = entry["transaction"]["message"]["accountKeys"][-1]
        for _ in range(lines):
            left, used = random.randrange(1_400_000), random.randrange(200_000)
            line = f"Program {program:<44} consumed {used:>6} of {left:>7} compute units"
            entry["meta"]["logMessages"] = [*(entry["meta"]["logMessages"] or ()), line]
