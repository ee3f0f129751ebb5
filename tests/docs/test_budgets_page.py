"""`docs/budgets.md` names settings, metrics and tests that exist, and a bound for each."""

import re
from pathlib import Path
from typing import Final

import pytest

from mintscope.app.config.groups import Config
from support.deployment import metric_names

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "budgets.md"
CELLS: Final = ("work", "who", "bound", "setting", "metric", "test")
COUNTS: Final = {"a": 1, "an": 1, "one": 1, "two": 2}
SECONDS: Final = {"s": 1, "minute": 60, "hour": 3_600, "day": 86_400}


def rows() -> list[dict[str, str]]:
    lines = [line for line in PAGE.read_text().splitlines() if re.match(r"\| [^-]", line)]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [dict(zip(CELLS, row, strict=True)) for row in cells[1:]]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def seconds(text: str) -> list[int]:
    """Return each length of time that *text* names, such as "for a day", in seconds."""
    found = re.findall(r"\b(an?|one|two|\d+) (s|minute|hour|day)s?\b", text)
    return [(COUNTS.get(count) or int(count)) * SECONDS[unit] for count, unit in found]


def value_of(setting: str) -> object:
    section, _, name = setting.partition(".")
    return getattr(getattr(Config(), section), name)


def test_each_work_is_listed_once() -> None:
    assert len(rows()) >= 25
    assert len({row["work"] for row in rows()}) == len(rows())


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["work"])
def test_each_row_has_a_bound_and_an_existing_metric_and_test(row: dict[str, str]) -> None:
    assert re.search(r"\d|one|five", row["bound"]), "expected a bound"
    assert names(row["setting"]) or row["setting"] == "none"
    (metric,) = names(row["metric"])
    assert {metric, f"{metric}_count"} & metric_names(), metric
    (test,) = names(row["test"])
    path, _, name = test.partition("::")
    assert f"def {name}(" in (ROOT / "tests" / path).read_text(), test


@pytest.mark.parametrize(
    ("setting", "row"), [(setting, row) for row in rows() for setting in names(row["setting"])]
)
def test_each_bound_contains_the_default_of_its_setting(setting: str, row: dict[str, str]) -> None:
    value = value_of(setting)
    if setting.endswith("_s") and not setting.endswith("_per_s"):
        assert value in seconds(row["bound"]), f"{setting} is {value}"
        return
    numbers = [int(each.replace(",", "")) for each in re.findall(r"\d[\d,]*", row["bound"])]
    assert value in numbers, f"{setting} is {value}"
