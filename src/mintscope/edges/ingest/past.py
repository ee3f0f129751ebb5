"""Folds what was read of a mint's past into candles that ingest can join."""

from typing import Final

from mintscope.base.primitives import Mint, Slot
from mintscope.core.market.history.past import Past
from mintscope.core.market.history.store import PastFolding

SLOTS_MAX: Final = 2_000


async def fold_past(store: PastFolding, mint: Mint) -> None:
    """Fold all slots that were read of *mint*, oldest first, and let ingest join them."""
    await store.restart(mint)
    past, after = Past(mint), Slot(-1)
    while slots := await store.slots(mint, after, SLOTS_MAX):
        for slot in slots:
            past.apply(slot)
        await store.candles(mint, past.changed())
        after = slots[-1].slot
    await store.finish(mint, past.folded())
