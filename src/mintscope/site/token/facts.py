"""The facts of a token on its page, as sentences for holders."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Final, Literal, NamedTuple

from mintscope.kit.primitives import Mint, UnixMs, UnixS
from mintscope.kit.time import SECOND_MS, iso_time
from mintscope.market.mint_facts import PROGRAM_NAMES, MintFacts, ScaledUiAmount
from mintscope.market.screening.look_alikes import hides

PERCENT: Final = 100  # basis points in one percent
DECIMALS_SHOWN: Final = 2


class MintFact(NamedTuple):
    """A fact about a token, as text for its holders.

    kind      good: it protects holders; risk: it gives someone power over holders' tokens; plain:
              any other fact
    address   base58 address that the fact is about; "" if there is none
    """

    kind: Literal["good", "risk", "plain"]
    title: str
    text: str
    address: str = ""


def names_in_words(
    facts: MintFacts, look_alike_of: Mint | None, namesakes: int
) -> Iterator[MintFact]:
    """Yield facts about problems with a token's name or symbol.

    look_alike_of   a token that is traded more, and whose symbol or name looks the same; None if
                    there is none
    namesakes       number of tokens with the same symbol or name, including this token
    """
    if look_alike_of is not None:
        yield MintFact(
            "risk",
            "Another token looks the same",
            "Another token with a symbol or name that looks the same is traded more.",
            look_alike_of,
        )
    if namesakes > 1:
        yield MintFact(
            "plain",
            f"{namesakes} tokens have this name or symbol",
            "Compare the mint before you trade: names are not unique.",
        )
    if hides(facts.name) or hides(facts.symbol):
        yield MintFact(
            "risk",
            "Its name hides characters",
            "The name or symbol has control characters, zero-width characters or stacked marks,"
            " which are not shown here.",
        )


def tracked_look_alike(mint: Mint) -> MintFact:
    """Return the fact that *mint*, a tracked token, looks the same as a token that is not tracked.

    Their volumes are not compared, because only that of *mint* is known.
    """
    return MintFact(
        "risk",
        "A tracked token looks the same",
        "Its symbol or name looks like that of a tracked token. Compare the mints.",
        mint,
    )


def facts_in_words(facts: MintFacts, now: UnixS) -> Iterator[MintFact]:
    """Yield the meaning of *facts* for holders at the time *now*."""
    yield _supply(facts)
    yield _making(facts)
    yield _freezing(facts)
    if facts.transfer_fee_bps is not None:
        fee = f"{facts.transfer_fee_bps / PERCENT:g} %"
        kind: Literal["risk", "plain"] = "risk" if facts.transfer_fee_bps else "plain"
        yield MintFact(
            kind, f"A transfer costs {fee}", "The issuer takes this fee from every transfer."
        )
    if facts.transfer_hook is not None:
        yield MintFact(
            "risk",
            "A program runs at every transfer",
            "This program can refuse the transfer.",
            facts.transfer_hook,
        )
    if facts.pause_authority is not None:
        yield MintFact(
            "risk",
            "All transfers can be stopped",
            "The pause authority can stop you, and everyone else, from selling.",
            facts.pause_authority,
        )
    if facts.permanent_delegate is not None:
        yield MintFact(
            "risk",
            "Your tokens can be taken from you",
            "A permanent delegate can move or burn the tokens of every holder.",
            facts.permanent_delegate,
        )
    if facts.scaled_ui_amount is not None:
        yield _scaling(facts.scaled_ui_amount, now)
    yield MintFact(
        "plain", PROGRAM_NAMES[facts.program], f"The token program. {facts.decimals} decimals."
    )


def multiplier_shown(multiplier: float) -> str:
    """Return *multiplier* as text with up to 12 digits."""
    return f"{multiplier:.12g}"


def _scaling(scaled: ScaledUiAmount, now: UnixS) -> MintFact:
    shown = multiplier_shown(scaled.at(now))
    text = "Its issuer scales what wallets show. Prices and amounts here are of unscaled tokens."
    if announced := scaled.announced(now):
        newer, at = announced
        begins = iso_time(UnixMs(at * SECOND_MS))
        text += f" From {begins} on they show {multiplier_shown(newer)}."
    return MintFact("plain", f"Wallets show {shown} for each token", text)


def supply_of(facts: MintFacts) -> float:
    """Return the supply in whole tokens."""
    return float(facts.supply) / 10.0**facts.decimals


def _supply(facts: MintFacts) -> MintFact:
    if not facts.supply:
        return MintFact(
            "plain",
            "Supply unknown",
            "The mint reports 0, as that of wrapped SOL does.",
        )
    whole = facts.supply / 10**facts.decimals
    shown = f"{whole:,.0f}" if whole >= 1 else f"{Decimal(f'{whole:.{DECIMALS_SHOWN}g}'):f}"
    return MintFact("plain", f"{shown} tokens", "Total supply at the last check.")


def _making(facts: MintFacts) -> MintFact:
    if facts.mint_authority is None:
        return MintFact("good", "No more can be made", "There is no mint authority.")
    return MintFact(
        "risk",
        "More can be made at any time",
        "Mintable: the mint authority can create more and dilute holders.",
        facts.mint_authority,
    )


def _freezing(facts: MintFacts) -> MintFact:
    if facts.freeze_authority is None:
        return MintFact("good", "Cannot be frozen", "There is no freeze authority.")
    return MintFact(
        "risk",
        "Accounts can be frozen",
        "The freeze authority can stop you from selling.",
        facts.freeze_authority,
    )
