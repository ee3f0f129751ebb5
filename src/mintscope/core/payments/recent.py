"""The blockhashes that 402 responses carry: each until which height a payment may name it.

A buyer that signs with one needs no Solana node.  A blockhash is known for BLOCKHASH_BLOCKS
blocks, so an old one leaves its buyer too little time: only a young one is offered.
"""

from math import ceil
from typing import Final

from msgspec.structs import replace

from mintscope.base.pace import BLOCKHASH_BLOCKS
from mintscope.core.payments.protocol.requirement import RecentBlockhash

YOUNG_BLOCKS: Final = BLOCKHASH_BLOCKS // 5  # how old a blockhash may be that is offered
REFRESH_SLOTS: Final = 20  # between two questions, so that one may fail
KEPT: Final = 64  # the newest, of some lives of a blockhash


class RecentBlockhashes:
    """Those that a node has named lately; asks nothing, and takes the time from its caller."""

    def __init__(self) -> None:
        self._last_heights: dict[str, int] = {}
        self._newest: RecentBlockhash | None = None
        self._newest_since_s = 0.0

    def note(self, recent: RecentBlockhash, *, now_s: float, slot_s: float) -> None:
        """Remember *recent*; a node behind the others does not replace what they named.

        now_s     on a monotonic clock
        slot_s    the measured length of a slot
        """
        self._last_heights.pop(recent.blockhash, None)
        self._last_heights[recent.blockhash] = recent.last_valid_height
        if len(self._last_heights) > KEPT:
            del self._last_heights[next(iter(self._last_heights))]
        newest = self._newest
        if (
            newest is None
            or recent.last_valid_height > newest.last_valid_height
            or (recent.blockhash != newest.blockhash and not self._is_young(now_s, slot_s))
        ):
            self._newest = recent
            self._newest_since_s = now_s

    def last_valid_height(self, blockhash: str) -> int | None:
        """Return the last height that *blockhash* is good for; None if it is not remembered."""
        return self._last_heights.get(blockhash)

    def young(self, *, now_s: float, slot_s: float, height: int = 0) -> RecentBlockhash | None:
        """Return the newest blockhash if it is at most YOUNG_BLOCKS old, else None.

        Its age is that by *height* or that by the time since it was named, whichever is more.

        height    of the newest confirmed block that is known of; 0: unknown
        """
        newest = self._newest
        if newest is None or not self._is_young(now_s, slot_s):
            return None
        age = max(
            height - (newest.last_valid_height - BLOCKHASH_BLOCKS),
            min(ceil((now_s - self._newest_since_s) / slot_s), YOUNG_BLOCKS),
        )
        return None if age > YOUNG_BLOCKS else replace(newest, blocks_left=BLOCKHASH_BLOCKS - age)

    def _is_young(self, now_s: float, slot_s: float) -> bool:
        """Say whether the newest was first named so lately: a node that stands still repeats it."""
        return now_s - self._newest_since_s <= YOUNG_BLOCKS * slot_s
