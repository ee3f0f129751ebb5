"""A devchain with a long history, created once, and short ones, which tests may change."""

import pytest

from mintscope_devchain.chain import Devchain
from support.oracles.devchain_blocks import NOW, Meant
from support.oracles.intended_swaps import intended


@pytest.fixture(scope="session")
def history() -> Devchain:
    """Return a chain with ten days of history and 100 live blocks; tests must not change it."""
    chain = Devchain(seed=7, now=NOW)
    for _ in range(100):
        chain.tick()
    return chain


@pytest.fixture(scope="session")
def meant(history: Devchain) -> Meant:
    """Return, by slot, the time and the intended swaps of each block of `history`."""
    found = {}
    for slot in history.blockstore.slots:
        block = history.blockstore.block(slot)
        assert block is not None
        found[slot] = (block.time, intended(history, slot))
    return found


@pytest.fixture
def young() -> Devchain:
    """Return a chain with a quarter of an hour of history, which the test may change."""
    return Devchain(seed=7, now=NOW, history_days=0.01)


@pytest.fixture
def tower() -> Devchain:
    """Return a short chain with slots of 400 ms, finality after 12.8 s, and votes."""
    return Devchain(seed=7, now=NOW, history_days=0.01, slot_ms=400, finality_ms=12_800)
