"""Prices in USD become atoms, rounded up by less than one; the prices of a list are consistent."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.kit.errors import InvalidBundle
from mintscope.kit.primitives import UnixMs
from mintscope.payments.pricing import BUNDLES, PriceList, Quote, atoms_for_usd, parse_bundle

prices = st.decimals(
    min_value=Decimal("0.000000001"), max_value=Decimal(200_000), allow_nan=False, places=12
).filter(lambda price: price > 0)


def at(usd: str | Decimal) -> Quote:
    return Quote(usd=Decimal(usd), observed_at=UnixMs(0))


@pytest.mark.parametrize(
    ("usd", "price", "decimals", "atoms"),
    [
        ("0.0025", "1", 6, 2_500),
        ("0.0025", "0.01", 6, 250_000),
        ("0.0025", "3", 6, 834),  # 833.33 up
        ("0.0025", "1", 0, 1),
        ("0.0025", "200000", 6, 1),
        ("0", "1", 6, 0),
    ],
)
def test_atoms_equal_the_amounts_calculated_by_hand(
    usd: str, price: str, decimals: int, atoms: int
) -> None:
    assert atoms_for_usd(Decimal(usd), at(price), decimals=decimals) == atoms


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.decimals(min_value=0, max_value=10**6, places=6), prices, st.integers(0, 12))
def test_atoms_are_rounded_up_by_less_than_one(usd: Decimal, price: Decimal, decimals: int) -> None:
    atoms = atoms_for_usd(usd, at(price), decimals=decimals)
    worth = Fraction(atoms) * Fraction(price) / 10**decimals

    assert worth >= Fraction(usd)
    assert worth - Fraction(usd) < Fraction(price) / 10**decimals


@settings(max_examples=200, deadline=None, derandomize=True)
@given(prices, st.integers(0, 9))
def test_larger_bundles_are_cheaper_per_credit_and_totals_are_multiples(
    price: Decimal, decimals: int
) -> None:
    price_list = PriceList(quote=at(price), decimals=decimals)
    listed = [price_list.price(bundle) for bundle in BUNDLES]

    assert [each.price for each in listed] == [
        each.per_credit * bundle.credits for each, bundle in zip(listed, BUNDLES, strict=True)
    ]
    per_credit = [each.per_credit for each in listed]
    assert per_credit == sorted(per_credit, reverse=True)
    assert per_credit[0] == price_list.request
    assert all(each.price >= 1 for each in listed)


def test_the_bundles_have_these_sizes_and_prices_in_usd() -> None:
    assert [(str(each.credits), str(each.usd.normalize())) for each in BUNDLES] == [
        ("10", "0.025"),
        ("50", "0.1125"),
        ("100", "0.2"),
        ("500", "0.75"),
    ]


def test_bundles_are_found_by_size() -> None:
    assert [parse_bundle(str(each.credits)) for each in BUNDLES] == list(BUNDLES)


@pytest.mark.parametrize(
    "text", [None, "", "0", "11", "-10", "10.0", "1e1", "010", " 10", "\u0661\u0660"]
)
def test_a_bundle_of_another_size_is_refused(text: str | None) -> None:
    with pytest.raises(InvalidBundle, match="10, 50, 100 or 500"):
        parse_bundle(text)


@pytest.mark.parametrize("usd", ["0", "-1", "NaN", "Infinity"])
def test_a_quote_with_an_unusable_price_is_refused(usd: str) -> None:
    with pytest.raises(ValueError, match="above 0"):
        Quote(usd=Decimal(usd), observed_at=UnixMs(0))


def test_the_fee_limit_of_a_request_follows_the_sol_price_and_the_share() -> None:
    """At 250 USD for a SOL the usual 10,000 lamports cost the whole price of a request."""
    quote = Quote(usd=Decimal(1), observed_at=UnixMs(0))

    def at(sol_usd: int | None, share: str = "1") -> int | None:
        sol = None if sol_usd is None else Decimal(sol_usd)
        price_list = PriceList(quote=quote, decimals=6, sol_usd=sol, fee_share_max=Decimal(share))
        return price_list.request_fee_lamports_max

    assert [at(250), at(150), at(125, "0.5"), at(None)] == [10_000, 16_666, 10_000, None]
