"""Parts of a market by mint, each with its own ingest, log with `seq`, and fold.

Every ingest reads and prices every block, because the price of one mint may rest on that of
another one.  It logs the swaps of the mints of its part, the header of the slot with the rate of
SOL, and the price pool of all mints: so a part goes on from its own log alone.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, NamedTuple

from typing_extensions import override

from mintscope.kit.primitives import Mint
from mintscope.market.log import PricedSwap

SHARDS_MAX: Final = 64


class Shard(NamedTuple):
    """Part *number*, from 1 on, of *total*."""

    number: int
    total: int

    @override
    def __str__(self) -> str:
        """Return it as the text that `parse_shard` reads."""
        return f"{self.number}/{self.total}"

    def owns(self, mint: Mint) -> bool:
        """Return whether *mint* is in this part."""
        return self.total == 1 or shard_of(mint, self.total) == self.number

    def own(self, swaps: Iterable[PricedSwap]) -> list[PricedSwap]:
        """Return the *swaps* whose mints are in this part, in their order."""
        return [swap for swap in swaps if self.owns(swap.mint)]


WHOLE: Final = Shard(1, 1)


def shard_of(mint: Mint, total: int) -> int:
    """Return the number of the part of *mint*, from 1 to *total*."""
    return int.from_bytes(blake2b(mint.encode(), digest_size=8).digest()) % total + 1


def parse_shard(text: str) -> Shard:
    """Return the part that *text* names, as `1/2`.  Raises ValueError."""
    number, slash, total = text.partition("/")
    if slash and number.isdecimal() and total.isdecimal():
        shard = Shard(int(number), int(total))
        if 1 <= shard.number <= shard.total <= SHARDS_MAX:
            return shard
    raise ValueError(
        f"expected a part of the market as NUMBER/COUNT, from 1/1 to {SHARDS_MAX}/{SHARDS_MAX};"
        f" was {text!r}"
    )
