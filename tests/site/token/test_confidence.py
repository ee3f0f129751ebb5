"""The confidence of a price, as its page shows it."""

import re

import pytest

from mintscope.kit.primitives import UnixS
from mintscope.market.report import Price
from mintscope.market.standing import HourFlow
from mintscope.market.standings import PriceBasis
from mintscope.site.token.shown import confidence_of

NOW = UnixS(1_750_000_000)
SET = "set in po&lt;ol; 7 s before the newest final block"


def shown(pools: int, *, rejected: int = 0, depth: int | None = 10**12) -> tuple[str, str, str]:
    """Return the CSS class, the title and the text that pages show for a price's confidence.

    pools   the number of the price pools
    """
    flow = HourFlow(NOW // 3_600, 3, rejected, 0, 0)
    since = UnixS(NOW - 9_000)
    basis = PriceBasis("po<ol", UnixS(NOW - 7), since, depth, pools, is_agreed=True, flow=flow)
    html = confidence_of(Price.of(2.0, 0.01, basis, NOW))
    found = re.fullmatch(r'<span class="(\w+)" title="([^"]*)">(\w+)</span>', html)
    assert found
    return found[1], found[2], found[3]


@pytest.mark.parametrize(
    ("pools", "rejected", "title"),
    [
        (1, 0, f"1 pool agrees; {SET}"),
        (3, 1, f"3 pools agree; {SET}; 25% of the hour&#39;s volume was at rejected prices"),
    ],
)
def test_the_title_of_a_confidence_states_the_evidence_of_the_price(
    pools: int, rejected: int, title: str
) -> None:
    assert shown(pools, rejected=rejected) == ("number", title, "high")


def test_a_low_confidence_is_marked() -> None:
    assert shown(1, depth=None)[0] == "unsure"


def test_the_confidence_is_unknown_without_a_price() -> None:
    assert "not known yet" in confidence_of(None)
