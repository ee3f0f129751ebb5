"""Facts of a mint from memory, without a node."""

from typing import Final

from mintscope.kit.primitives import Slot, UnixMs
from mintscope.market.mint_facts import MintFacts, TokenProgram

FACTS: Final = MintFacts(
    slot=Slot(10),
    read_at_ms=UnixMs(1_000),
    program=TokenProgram.SPL,
    decimals=6,
    supply=2**64 - 1,
    mint_authority=None,
    freeze_authority=None,
    name="a name",
    symbol="A",
    transfer_fee_bps=None,
    transfer_hook=None,
    permanent_delegate=None,
)
