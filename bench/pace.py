"""The duration of a slot on generated chains, unless a benchmark has another one."""

from typing import Final

from mintscope.kit.primitives import UnixS

# The duration of a slot of mainnet since October 2026; only benchmarks use it as a default
SLOT_S: Final = 0.2
FINALITY_S: Final = 0.15  # the finality of mainnet since Alpenglow; before, it was 12.8 s


def time_of(slot: int, start: int) -> UnixS:
    """Return the block time of *slot* on a chain that began at *start*, in whole Unix seconds."""
    return UnixS(start + int(slot * SLOT_S))
