"""Limits on the fees at risk of one payer, one client address and all together, to the lamport."""

from typing import Any, Final

import pytest
from msgspec.structs import replace

from mintscope.payments.audit import Closure, find_closure
from mintscope.payments.ports import Budget, Conduct, FeesAtRisk
from mintscope.payments.protocol.envelope import RefusalReason

BUDGET: Final = Budget()
NEW: Final = Conduct(reverted=0, pending=0, sold=0, fee_lamports=0, sold_today=0, reverted_today=0)
BUYER: Final = replace(NEW, sold_today=1)
NOTHING: Final = FeesAtRisk(reverted=0, uncovered=0, pending=0, new_payers=0, fund=None)
FEE: Final = 10_001  # of the usual payment


def excess(conduct: Conduct, fee: int = FEE, *, is_address: bool = False) -> RefusalReason | None:
    return conduct.find_excess(BUDGET, fee_lamports=fee, is_address=is_address)


def test_the_default_budget_equals_the_documented_limits() -> None:
    """The numbers are those of docs/operating/sell.md."""
    assert Budget() == Budget(
        failures=3,
        in_flight_new_payer=2,
        in_flight_payer=8,
        in_flight_address=64,
        fee_lamports=20_000_000,
        in_flight_fee_lamports=100_000_000,
        fund_lamports_min=2_890_880,
    )
    assert Budget().fee_lamports_each == 2_000_000


@pytest.mark.parametrize(
    ("did", "found"),
    [
        ({"reverted": 2}, None),
        ({"reverted": 3}, RefusalReason.TOO_MANY_FAILURES),
        ({"pending": 7}, None),
        ({"pending": 8}, RefusalReason.TOO_MANY_PENDING),
        ({"pending": 6, "reverted": 2}, RefusalReason.TOO_MANY_PENDING),
        ({"pending": 9, "sold": 2}, None),
        ({"pending": 10, "sold": 2}, RefusalReason.TOO_MANY_PENDING),
        ({"fee_lamports": 2_000_000 - FEE}, None),
        ({"fee_lamports": 2_000_000 - FEE + 1}, RefusalReason.TOO_MANY_PENDING),
    ],
)
def test_a_payer_is_refused_beyond_its_limits(
    did: dict[str, Any], found: RefusalReason | None
) -> None:
    assert excess(replace(BUYER, **did)) is found


@pytest.mark.parametrize(
    ("did", "found"),
    [
        ({"pending": 1}, None),
        ({"pending": 2}, RefusalReason.TOO_MANY_PENDING),
        ({"pending": 2, "sold_today": 1}, None),
    ],
)
def test_a_payer_without_a_sale_today_is_refused_at_two_pending_payments(
    did: dict[str, Any], found: RefusalReason | None
) -> None:
    assert excess(replace(NEW, **did)) is found


@pytest.mark.parametrize(
    ("did", "found"),
    [
        ({"reverted": 3}, None),
        ({"reverted": 4}, RefusalReason.TOO_MANY_FAILURES),
        ({"reverted": 6, "sold": 3}, None),
        ({"reverted": 7, "sold": 3}, RefusalReason.TOO_MANY_FAILURES),
        ({"pending": 63}, None),
        ({"pending": 64}, RefusalReason.TOO_MANY_PENDING),
    ],
)
def test_an_address_is_refused_beyond_its_limits(
    did: dict[str, Any], found: RefusalReason | None
) -> None:
    """The limits leave room for many payers, also new ones, who share a client address."""
    assert excess(replace(NEW, **did), is_address=True) is found


@pytest.mark.parametrize(
    ("did", "is_covered"),
    [
        ({"sold_today": 1}, True),
        ({"sold_today": 1, "pending": 1}, False),
        ({"sold_today": 2, "reverted_today": 1}, True),
        ({"sold_today": 2, "reverted_today": 1, "pending": 1}, False),
    ],
)
def test_a_payer_is_covered_while_sales_outnumber_reverted_and_pending(
    did: dict[str, Any], *, is_covered: bool
) -> None:
    """Half of the fee budget is reserved for covered payers."""
    at_risk = replace(NOTHING, reverted=10_000_000, uncovered=10_000_000)
    conduct = replace(NEW, **did)

    assert conduct.is_one_more_covered is is_covered
    assert at_risk.allow(BUDGET, conduct, fee_lamports=FEE) is is_covered


@pytest.mark.parametrize(
    ("at_risk", "may_buyer", "may_new"),
    [
        ({}, True, True),
        ({"reverted": 20_000_000 - FEE}, True, True),
        ({"reverted": 20_000_001 - FEE}, False, False),
        ({"reverted": 10_000_000 - FEE, "uncovered": 10_000_000 - FEE}, True, True),
        ({"reverted": 10_000_001 - FEE, "uncovered": 10_000_001 - FEE}, True, False),
        # Uncovered fees can exceed half of the budget; they then count as that half.
        ({"reverted": 30_000_000, "uncovered": 30_000_000}, True, False),
        ({"reverted": 40_000_000 - FEE, "uncovered": 30_000_000}, True, False),
        ({"reverted": 40_000_001 - FEE, "uncovered": 30_000_000}, False, False),
        ({"pending": 100_000_000 - FEE}, True, True),
        ({"pending": 100_000_001 - FEE}, False, False),
        ({"pending": 50_000_000 - FEE, "new_payers": 50_000_000 - FEE}, True, True),
        ({"pending": 50_000_001 - FEE, "new_payers": 50_000_001 - FEE}, True, False),
        ({"fund": 890_880 + FEE}, True, False),
        ({"fund": 890_879 + FEE}, False, False),
        ({"fund": 890_880 + 2 * FEE}, True, True),
        ({"fund": 890_879 + 2 * FEE}, True, False),
        ({"fund": 890_880 + FEE, "pending": FEE}, True, True),
        ({"fund": 890_880 + FEE, "pending": FEE, "new_payers": 1}, True, False),
    ],
)
def test_the_fee_budget_limits_all_payers_together(
    at_risk: dict[str, int], *, may_buyer: bool, may_new: bool
) -> None:
    found = replace(NOTHING, **at_risk)

    assert found.allow(BUDGET, BUYER, fee_lamports=FEE) is may_buyer
    assert found.allow(BUDGET, NEW, fee_lamports=FEE) is may_new


def test_open_sales_have_no_closure() -> None:
    full = replace(NOTHING, fund=BUDGET.fund_lamports_min)

    assert find_closure(NOTHING, BUDGET, is_stopped=False) is None
    assert find_closure(full, BUDGET, is_stopped=False) is None


@pytest.mark.parametrize(
    ("at_risk", "is_stopped", "closure"),
    [
        (
            {},
            True,
            Closure(
                why="stopped by an audit or an administrator: existing credits keep working",
                is_for_all=True,
            ),
        ),
        (
            {"fund": 2_890_879},
            False,
            Closure(
                why="the fee payer has 2890879 lamports left for fees, which is too little",
                is_for_all=True,
            ),
        ),
        (
            {"reverted": 20_000_001 - FEE},
            False,
            Closure(
                why="the budget for network fees of this hour, or of pending payments, is used up",
                is_for_all=True,
            ),
        ),
        (
            {"reverted": 10_000_001 - FEE, "uncovered": 10_000_001 - FEE},
            False,
            Closure(
                why="to payers that bought nothing within 24 hours, because their share of the fee"
                " budget is used up",
                is_for_all=False,
            ),
        ),
        (
            {"pending": 50_000_001 - FEE, "new_payers": 50_000_001 - FEE},
            False,
            Closure(
                why="to payers that bought nothing within 24 hours, because their share of the fee"
                " budget is used up",
                is_for_all=False,
            ),
        ),
    ],
)
def test_a_closure_has_a_reason_and_states_whether_it_is_for_all(
    at_risk: dict[str, int], closure: Closure, *, is_stopped: bool
) -> None:
    assert find_closure(replace(NOTHING, **at_risk), BUDGET, is_stopped=is_stopped) == closure


def test_sales_are_open_until_the_last_lamport_of_the_budget() -> None:
    for at_risk in (
        {"reverted": 20_000_000 - FEE},
        {"reverted": 10_000_000 - FEE, "uncovered": 10_000_000 - FEE},
        {"pending": 50_000_000 - FEE, "new_payers": 50_000_000 - FEE},
    ):
        assert find_closure(replace(NOTHING, **at_risk), BUDGET, is_stopped=False) is None
