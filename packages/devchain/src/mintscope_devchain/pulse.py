"""Adds blocks to a chain without a market, at even intervals."""

import asyncio
from typing import Final

from mintscope_devchain.blockstore import SLOT_MS
from mintscope_devchain.svm.vm import Closed, Vm

FIRST_SLOT: Final = 1


class Pulse:
    """Adds a block to the chain of *vm* for every *slot_ms* milliseconds, when `tick` is called."""

    def __init__(self, vm: Vm, *, slot_ms: int = SLOT_MS) -> None:
        self._vm = vm
        self._slot_ms = slot_ms
        self._start_ms = int(vm.clock.now())
        self._height = -1
        self._slot = FIRST_SLOT - 1
        self._close()

    def tick(self) -> None:
        """Add all blocks that are due; before each, undo the blocks that a fork must replace."""
        behind = (self._vm.clock.now() - self._start_ms) // self._slot_ms
        while self._slot - FIRST_SLOT < behind:
            depth = self._vm.fork_depth()
            if depth:
                self._vm.rewind(depth)
                self._height -= depth
            self._close()

    async def run(self) -> None:
        """Add the blocks that are due, once per slot, until cancelled."""
        while True:
            await asyncio.sleep(self._slot_ms / 1_000)
            self.tick()

    def _close(self) -> None:
        self._slot += 1
        self._height += 1
        at_ms = self._start_ms + (self._slot - FIRST_SLOT) * self._slot_ms
        blockhash = self._vm.genesis.blockhash(self._slot)
        self._vm.close_block(Closed(self._slot, self._height, blockhash, at_ms))
