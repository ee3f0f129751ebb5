"""The pace of chains that loads make up, unless a run is given another."""

from typing import Final

from mintscope.kit.primitives import UnixS

SLOT_S: Final = 0.2  # mainnet's since October 2026: a default of loads, never an assumption
FINALITY_S: Final = 0.15  # since Alpenglow; 12.8 s before


def time_of(slot: int, start: int) -> UnixS:
    """Return the whole second in which *slot* of a chain that began at *start* was made."""
    return UnixS(start + int(slot * SLOT_S))
