"""The decoder finds exactly the swaps that the market intended, and quarantines nothing."""

import msgspec
import pytest

from mintscope_devchain.chain import Devchain
from mintscope_devchain.market.pool import Venue
from support.oracles.devchain_blocks import NOW
from support.oracles.intended_swaps import intended
from support.scenes.json_transactions import decode_block


@pytest.mark.storm
@pytest.mark.parametrize("seed", [0, 1])
def test_the_decoder_finds_exactly_the_intended_swaps_of_every_block(seed: int) -> None:
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

        # An intended swap has no reserves: the decoder takes them from the balances.
        found = [swap._replace(in_left=None, out_left=None) for swap in decoded.swaps]
        assert found == list(intended(chain, slot))
        assert not decoded.quarantined
        venues |= {swap.program for swap in decoded.swaps}
    assert venues == set(Venue)
