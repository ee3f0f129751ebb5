"""The choice of a buyer: a bundle, the token to pay in, and where the credits go."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlencode

from mintscope.base.errors import InvalidBundle, NotFound
from mintscope.core.payments.pricing.price_list import BUNDLES, Bundle, parse_bundle
from mintscope.core.payments.protocol.requirement import MAINNET, TOKEN_PROGRAM
from mintscope.edges.web.routes import PageRequest
from mintscope.edges.web.sales.pricing import usd_text
from mintscope.edges.web.sales.selling import PricedToken
from mintscope.edges.web.sales.words import tokens_text

DECIMALS_USUAL: Final = 6  # of the command line
# The chain's name among wallets: theirs are not those of CAIP-2.
CHAINS: Final = {
    MAINNET: "solana:mainnet",
    "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1": "solana:devnet",
    "solana:4uhcVJyU9pJkvQyS88uRDiswHScCeY3Z": "solana:testnet",
}


class Into(StrEnum):
    """Where the credits go."""

    ACCOUNT = "account"  # of who is signed in
    TOKEN = "token"  # noqa: S105  a credit token of their own, not a password
    TOP_UP = "top-up"  # the credit token of the Authorization header


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleChoice:
    """A purchase as its address names it.

    asset    the mint that was asked for, "" where none was
    usual    where the credits go unless something else is asked for
    """

    bundle: Bundle
    asset: str
    into: Into
    usual: Into

    @property
    def address(self) -> str:
        """Where it is bought."""
        asked = {"asset": self.asset} if self.asset else {}
        asked |= {"into": self.into.value} if self.into is not self.usual else {}
        path = f"/buy/{self.bundle.credits}"
        return f"{path}?{urlencode(asked)}" if asked else path


def choice_of(request: PageRequest) -> BundleChoice:
    """Return what *request* asks for.  Raises NotFound where the path names no bundle."""
    try:
        bundle = parse_bundle(request.path_params["bundle"])
    except InvalidBundle:
        raise NotFound from None
    usual = Into.TOKEN if request.session is None else Into.ACCOUNT
    asked = _text(request, "into")
    is_possible = asked in set(Into) and (asked != Into.ACCOUNT or usual is Into.ACCOUNT)
    return BundleChoice(
        bundle=bundle,
        asset=_text(request, "asset"),
        into=Into(asked) if is_possible else usual,
        usual=usual,
    )


def token_of(choice: BundleChoice, priced: Sequence[PricedToken]) -> PricedToken:
    """Return the token that is asked for; else the first that has a price, or the first."""
    for each in priced:
        if each.token.terms.asset == choice.asset:
            return each
    return next((each for each in priced if each.price_list is not None), priced[0])


def facts_of(choice: BundleChoice, priced: Sequence[PricedToken]) -> dict[str, Any]:
    """Return the values of every page about *choice*; *amount* is None without a price."""
    bundle = choice.bundle
    chosen = token_of(choice, priced)
    terms = chosen.token.terms
    atoms = _atoms(bundle, chosen)
    most = None if atoms is None else tokens_text(-(-atoms * 11 // 10), terms.decimals)
    return {
        "bundle": bundle,
        "here": choice.address,
        "sizes": [(each.credits, replace(choice, bundle=each).address) for each in BUNDLES],
        "usd": usd_text(bundle),
        "usd_per_credit": f"{bundle.usd_per_credit.normalize():f}",
        "amount": _amount(bundle, chosen),
        "most": None if most is None else most.replace(",", ""),
        "into": choice.into.value,
        "into_token": replace(choice, into=Into.TOKEN).address,
        "into_account": replace(choice, into=Into.ACCOUNT).address,
        "symbol": chosen.token.symbol,
        "ways": [
            (
                each.token.symbol,
                _amount(bundle, each),
                replace(choice, asset=each.token.terms.asset).address,
                each is chosen,
            )
            for each in priced
        ],
        "terms": terms,
        "chain": CHAINS.get(terms.network, terms.network),
        "has_usual_terms": (terms.decimals, terms.token_program, terms.network)
        == (DECIMALS_USUAL, TOKEN_PROGRAM, MAINNET),
    }


def _text(request: PageRequest, name: str) -> str:
    return request.form.text(name) or request.query_params.text(name)


def _atoms(bundle: Bundle, priced: PricedToken) -> int | None:
    return None if priced.price_list is None else priced.price_list.price(bundle).price


def _amount(bundle: Bundle, priced: PricedToken) -> str | None:
    """Return what *bundle* costs in whole tokens; None without a price."""
    atoms = _atoms(bundle, priced)
    return None if atoms is None else tokens_text(atoms, priced.token.terms.decimals)
