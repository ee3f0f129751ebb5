"""Holders on the token page: the list that was last asked for.  No view asks the node."""

from collections.abc import Sequence
from typing import NamedTuple

from mintscope.kit.primitives import Slot, UnixMs
from mintscope.market.series.holders import HolderKind, Holders


class HolderShown(NamedTuple):
    """A line of the table.

    address   the owner, or the account if its owner is not known
    kind      of the owner, with a name; empty: not known
    share     of the supply, 0 to 1; None: the supply is 0
    """

    address: str
    kind: str
    share: float | None


class HoldersShown(NamedTuple):
    """The table, the largest first, and the slot and time of its reading."""

    lines: Sequence[HolderShown]
    slot: Slot
    read_at_ms: UnixMs


def shown_holders(found: Holders | None) -> HoldersShown | None:
    """Return *found* as the page shows it; None if no list is kept."""
    if found is None:
        return None
    lines = [
        HolderShown(
            address=one.owner or one.account,
            kind="" if one.kind is HolderKind.OTHER else f"{one.kind.value} ({one.name})",
            share=one.amount / found.supply if found.supply else None,
        )
        for one in found.holders
    ]
    return HoldersShown(lines, found.slot, found.read_at_ms)
