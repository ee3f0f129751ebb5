"""Shards: equal parts into which the market is divided by mint, each with an own ingest and log.

Every ingest reads and prices every block, because the price of one mint may depend on the price of
another.  The ingest of a shard logs the swaps of the mints in the shard, the headers of slots with
the rate of SOL, and the price pools of all mints, so it can restart from its own log.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, NamedTuple

from typing_extensions import override

from mintscope.kit.primitives import Mint
from mintscope.market.log import PricedSwap

SHARDS_MAX: Final = 64


class Shard(NamedTuple):
    """One of the *total* equal parts of the market: part *number*, from 1 to *total*."""

    number: int
    total: int

    @override
    def __str__(self) -> str:
        """Return the shard as text, such as `1/2`, which `parse_shard` reads."""
        return f"{self.number}/{self.total}"

    def owns(self, mint: Mint) -> bool:
        """Return whether *mint* is in this shard, one of the equal parts of the market."""
        return self.total == 1 or shard_of(mint, self.total) == self.number

    def own(self, swaps: Iterable[PricedSwap]) -> list[PricedSwap]:
        """Return those of *swaps* whose mints are in this shard, in the same order."""
        return [swap for swap in swaps if self.owns(swap.mint)]


WHOLE: Final = Shard(1, 1)


def shard_of(mint: Mint, total: int) -> int:
    """Return the number of the shard that includes *mint*, from 1 to *total*."""
    # Not `hash`, which differs in each process.
    return int.from_bytes(blake2b(mint.encode(), digest_size=8).digest()) % total + 1


def parse_shard(text: str) -> Shard:
    """Return the shard written as *text*, such as `1/2`.  Raises ValueError if it is no shard."""
    number, slash, total = text.partition("/")
    if slash and number.isdecimal() and total.isdecimal():
        shard = Shard(int(number), int(total))
        if 1 <= shard.number <= shard.total <= SHARDS_MAX:
            return shard
    raise ValueError(
        f"expected a part of the market as NUMBER/COUNT, from 1/1 to {SHARDS_MAX}/{SHARDS_MAX};"
        f" was {text!r}"
    )
