"""The blockhashes that new transactions may name, and the messages processed with each."""

from itertools import takewhile
from typing import Final, Literal

from solders.hash import Hash

from mintscope_devchain.svm.message import AnyMessage

BLOCKHASH_AGE_MAX: Final = 150
FORK_DEPTH_MAX: Final = 64

Refusal = Literal["BlockhashNotFound", "AlreadyProcessed"]


class BlockhashQueue:
    """The blockhashes that transactions may name, each with the messages processed with it.

    LiteSVM accepts only its newest blockhash.  The chain accepts a blockhash for 150 blocks, and
    stores a message at least while its blockhash is valid: after that, the message is refused
    because of its blockhash.
    """

    def __init__(self) -> None:
        self._heights: dict[Hash, int] = {}
        self._processed: dict[Hash, set[Hash]] = {}

    def open(self, blockhash: Hash, *, height: int) -> None:
        """From now on, accept transactions with *blockhash*, the hash of the block at *height*."""
        self._heights[blockhash] = height
        self._processed[blockhash] = set()
        # A fork lowers the height, so older blockhashes become valid again and are kept for a
        # while. A fork closes the blockhashes above its height, so the first blockhashes here
        # are always the lowest.
        horizon = height - BLOCKHASH_AGE_MAX - FORK_DEPTH_MAX
        for old in list(takewhile(lambda known: self._heights[known] < horizon, self._heights)):
            self.close(old)

    def close(self, blockhash: Hash) -> None:
        """From now on, refuse *blockhash* in transactions: its block was undone or is too old."""
        del self._heights[blockhash], self._processed[blockhash]

    def last_valid_height(self, blockhash: Hash) -> int | None:
        """Return the last block height at which *blockhash* is valid; None if it is unknown."""
        height = self._heights.get(blockhash)
        return None if height is None else height + BLOCKHASH_AGE_MAX

    def refusal(self, message: AnyMessage, *, height: int) -> Refusal | None:
        """Return the reason to refuse *message* in the block at *height*; None: it is accepted."""
        last = self.last_valid_height(message.recent_blockhash)
        if last is None or not last - BLOCKHASH_AGE_MAX < height <= last:
            return "BlockhashNotFound"
        if message.hash() in self._processed[message.recent_blockhash]:
            return "AlreadyProcessed"
        return None

    def remember(self, message: AnyMessage) -> None:
        """Record that *message* was processed, so that the same message is refused from now on."""
        self._processed[message.recent_blockhash].add(message.hash())

    def forget(self, message: AnyMessage) -> None:
        """Accept *message* again, because a fork has removed the block that contained it."""
        self._processed.get(message.recent_blockhash, set()).discard(message.hash())
