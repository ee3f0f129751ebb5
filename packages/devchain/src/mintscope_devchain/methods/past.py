"""The past transactions of a devchain with a market, newest first or by signature."""

from collections.abc import Callable, Iterator
from itertools import chain as joined
from typing import NamedTuple

from mintscope_devchain.blockstore import ChainBlock
from mintscope_devchain.methods.blocks import Chain
from mintscope_devchain.svm.entry import memo
from mintscope_devchain.svm.vm import LandedTransaction
from mintscope_devchain.transaction import Json


class Done(NamedTuple):
    """A transaction in a block, with the data that lists of transactions show.

    names   returns whether the transaction names an account, also in a lookup table
    """

    signature: str
    slot: int
    time: int
    error: object
    memo: str | None
    names: Callable[[str], bool]


def done(landed: LandedTransaction) -> Done:
    """Return the data of *landed* that lists of transactions show."""
    keys = frozenset(map(str, landed.outcome.keys.all))
    at = landed.block
    shown = memo(landed.transaction)
    time = at.at_ms // 1_000
    return Done(landed.signature, at.slot, time, landed.outcome.error, shown, keys.__contains__)


class ChainPast:
    """The transactions of a devchain, in a form for lists; each stored block is converted once."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._blocks: dict[str, tuple[Done, ...]] = {}
        self._slots: dict[str, int] = {}

    def newest_first(self) -> Iterator[Done]:
        """Yield all known transactions, newest first; from older blocks, only sent ones."""
        blockstore = self._chain.blockstore
        vm = self._chain.vm
        slots = list(blockstore.slots)
        older = (done(each) for each in vm.history() if each.block.slot < slots[0])
        return joined(joined.from_iterable(map(self._of, reversed(slots))), older)

    def entry(self, signature: str) -> tuple[ChainBlock, Json] | None:
        """Return the block of the transaction *signature*, and the transaction as in getBlock.

        Return None if the chain no longer stores the transaction.
        """
        if signature not in self._slots:
            # Reads blocks until one has *signature*: `_of` stores the slot of each signature.
            all(each.signature != signature for each in self.newest_first())
        block = self._chain.blockstore.block(self._slots.get(signature, -1))
        if block is None:
            return None
        signatures = self._chain.signatures(block)
        if signature not in signatures:  # the vm no longer stores it
            return None
        at = [str(each) for each in signatures].index(signature)
        return block, self._chain.entry(block, at)

    def _of(self, slot: int) -> tuple[Done, ...]:
        """Return the transactions in the block of *slot*, newest first."""
        block = self._chain.blockstore.block(slot)
        if block is None:
            return ()
        known = self._blocks.get(block.blockhash)
        if known is None:
            self._forget()
            named = self._chain.named(block)
            # The transactions of the market come first; the others are added below by `done`.
            signatures = self._chain.signatures(block)[: len(named)]
            made = [
                Done(signature, block.slot, block.time, each.error, None, each.names)
                for signature, each in zip(signatures, named, strict=True)
            ]
            known = (*made, *map(done, self._chain.vm.held(slot)))[::-1]
            self._blocks[block.blockhash] = known
            self._slots |= {each.signature: slot for each in known}
        return known

    def _forget(self) -> None:
        """Forget the blocks that the chain no longer stores, if most remembered blocks are such."""
        blockstore = self._chain.blockstore
        if len(self._blocks) <= 2 * len(blockstore.slots):
            return
        kept = {block.blockhash for slot in blockstore.slots if (block := blockstore.block(slot))}
        self._blocks = {name: each for name, each in self._blocks.items() if name in kept}
        self._slots = {one.signature: one.slot for each in self._blocks.values() for one in each}
