"""Folds what was read of a mint's past into candles that ingest can join."""

import asyncio
from typing import Final

from mintscope.base.primitives import Mint, Slot
from mintscope.core.market.history.past import Past
from mintscope.core.market.history.store import PastFolding

SLOTS_MAX: Final = 2_000
AT_ONCE: Final = 100


async def fold_past(store: PastFolding, mint: Mint) -> None:
    """Fold all slots that were read of *mint*, oldest first, and let ingest join them."""
    await store.restart(mint)
    past = Past(mint)
    after = Slot(-1)
    while slots := await store.slots(mint, after, SLOTS_MAX):
        for place, slot in enumerate(slots):
            past.apply(slot)
            if place % AT_ONCE == 0:
                await asyncio.sleep(0)  # ingest may read it beside its own work
        await store.candles(mint, past.changed())
        after = slots[-1].slot
    await store.finish(mint, past.folded())
