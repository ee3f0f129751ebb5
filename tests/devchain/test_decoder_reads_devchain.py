"""Our decoder finds exactly the swaps the market meant, and understands everything else."""

import msgspec
import pytest

from mintscope_devchain.chain import Devchain
from mintscope_devchain.market.pool import Venue
from support.oracles.devchain_blocks import NOW
from support.oracles.intended_swaps import intended
from support.scenes.json_transactions import decode_block


@pytest.mark.storm
@pytest.mark.parametrize("seed", [0, 1])
def test_every_intended_swap_is_decoded_and_nothing_else(seed: int) -> None:
    chain = Devchain(seed=seed, now=NOW, mints=40, history_days=0.1)
    for _ in range(120):
        chain.tick()
    venues = set()
    for slot in chain.blockstore.slots:
        block = chain.blockstore.block(slot)
        assert block is not None
        decoded = decode_block(
            [msgspec.Raw(msgspec.json.encode(entry)) for entry in chain.entries(block)]
        )

        # The reserves after a swap are known from balances alone, which no intention names.
        found = [swap._replace(in_left=None, out_left=None) for swap in decoded.swaps]
        assert found == list(intended(chain, slot))
        assert not decoded.quarantined
        venues |= {swap.program for swap in decoded.swaps}
    assert venues == set(Venue)
