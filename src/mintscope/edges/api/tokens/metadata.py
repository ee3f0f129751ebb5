"""Metadata of a mint, for people and programs: the facts, and their meaning for a holder."""

from collections.abc import Iterator
from typing import Final

from mintscope.base.primitives import Mint, UnixMs, UnixS
from mintscope.base.time import SECOND_MS, iso_time
from mintscope.core.market.listing.names import cleaned, hides
from mintscope.core.market.mint_facts import PROGRAM_NAMES, MintFacts
from mintscope.edges.api.tokens.wire import Metadata

BPS_PER_PERCENT: Final = 100


def metadata_of(
    mint: Mint, facts: MintFacts, now: UnixS, look_alike_of: Mint | None = None
) -> Metadata:
    """Return *facts* of *mint* as they are sent *now*; a larger token may look like it."""
    scaled = facts.scaled_ui_amount
    announced = None if scaled is None else scaled.announced(now)
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
        ui_multiplier=None if scaled is None else scaled.at(now),
        new_ui_multiplier=None if announced is None else announced[0],
        new_ui_multiplier_at=None if announced is None else announced[1],
        name_cleaned=hides(facts.name) or hides(facts.symbol),
        look_alike_of=look_alike_of,
        in_words=[*_names_in_words(facts, look_alike_of), *_in_words(facts, now)],
        slot=facts.slot,
        read_at=facts.read_at_ms // SECOND_MS,
    )


def _names_in_words(facts: MintFacts, look_alike_of: Mint | None) -> Iterator[str]:
    if hides(facts.name) or hides(facts.symbol):
        yield "Its name or symbol holds characters that are never shown; they are left out here."
    if look_alike_of is not None:
        yield f"Its symbol or name looks like that of {look_alike_of}, of which more is traded."


def _in_words(facts: MintFacts, now: UnixS) -> Iterator[str]:
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
    if facts.scaled_ui_amount is not None:
        shown = facts.scaled_ui_amount.at(now)
        yield (
            f"Wallets show {shown:.12g} tokens for each that the mint counts; prices and amounts"
            " here are of those that it counts."
        )
        if announced := facts.scaled_ui_amount.announced(now):
            multiplier, at = announced
            yield f"From {iso_time(UnixMs(at * SECOND_MS))} on they show {multiplier:.12g}."
