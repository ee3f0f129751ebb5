"""docs/api/series.md lists every indicator, with its parameters as the code defines them."""

from pathlib import Path
from typing import Final

import pytest

from mintscope.market.indicators import INDICATORS
from mintscope.market.indicators.registry import Indicator
from mintscope.market.report import REPORTED

PAGE: Final = (Path(__file__).parents[2] / "docs/api/series.md").read_text()


@pytest.mark.parametrize("each", INDICATORS.values(), ids=INDICATORS)
def test_the_row_of_each_indicator_equals_its_definition(each: Indicator) -> None:
    ranges = [f"`{p.name}`: {p.least:g} to {p.most:.12g}" for p in each.parameters]
    numbers = [f"`{name}`" for name in each.outputs]
    row = [f"`{each.usual}`", "; ".join(ranges), ", ".join(numbers), each.description]

    assert f"| {' | '.join(row)} |" in PAGE


def test_each_indicator_of_the_report_is_in_the_table() -> None:
    named = {name for row in PAGE.splitlines() if row.startswith("| `") for name in row.split("`")}

    assert set(REPORTED) - named == set()
