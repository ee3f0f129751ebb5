"""What a mint is, for people and programs: the facts, and what they mean for a holder."""

from collections.abc import Iterator
from typing import Final

from mintscope.base.primitives import Mint
from mintscope.base.time import SECOND_MS
from mintscope.core.market.listing.names import cleaned
from mintscope.core.market.mint_facts import PROGRAM_NAMES, MintFacts
from mintscope.edges.api.tokens.wire import Metadata

BPS_PER_PERCENT: Final = 100


def metadata_of(mint: Mint, facts: MintFacts) -> Metadata:
    """Return *facts* of *mint* as they are sent."""
    return Metadata(
        mint=mint,
        name=cleaned(facts.name),
        symbol=cleaned(facts.symbol),
        decimals=facts.decimals,
        supply=str(facts.supply),
        program=facts.program,
        mint_authority=facts.mint_authority,
        freeze_authority=facts.freeze_authority,
        transfer_fee_bps=facts.transfer_fee_bps,
        transfer_hook=facts.transfer_hook,
        permanent_delegate=facts.permanent_delegate,
        in_words=list(_in_words(facts)),
        slot=facts.slot,
        read_at=facts.read_at_ms // SECOND_MS,
    )


def _in_words(facts: MintFacts) -> Iterator[str]:
    yield f"It is a mint of the program {PROGRAM_NAMES[facts.program]}."
    if facts.mint_authority is None:
        yield "No more can be made: it has no mint authority."
    else:
        yield f"More can be made at any time, by {facts.mint_authority}."
    if facts.freeze_authority is None:
        yield "Accounts cannot be frozen."
    else:
        yield f"{facts.freeze_authority} can freeze accounts, so that nothing leaves them."
    if facts.transfer_fee_bps is not None:
        yield f"A transfer costs {facts.transfer_fee_bps / BPS_PER_PERCENT:g} % of its amount."
    if facts.transfer_hook is not None:
        yield f"The program {facts.transfer_hook} runs at every transfer, and can refuse it."
    if facts.permanent_delegate is not None:
        yield f"{facts.permanent_delegate} can move or burn the tokens of every holder."
