"""The page of `make report`: every figure beside its peer, and nothing that names the machine."""

import importlib
import platform
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("prove.report.page")


@pytest.fixture
def bars(page: Any) -> Any:
    assert page
    return importlib.import_module("prove.report.bars").bars


def test_a_page_is_the_same_as_markdown_and_as_html(page: Any) -> None:
    section = page.Section(
        title="Benchmarks", text="Speed < size.", head=("what", "value"), rows=[("a|b", "<1>")]
    )

    assert page.write_markdown("Title", [section]) == (
        "# Title\n\n## Benchmarks\n\nSpeed < size.\n\n"
        "| what | value |\n| --- | --- |\n| a\\|b | <1> |\n"
    )
    html = page.write_html("Title", [section])
    assert "<h2>Benchmarks</h2><p>Speed &lt; size.</p>" in html
    assert "<td>a|b</td><td>&lt;1&gt;</td>" in html


def test_bars_go_right_if_mintscope_is_better_and_left_if_it_is_worse(bars: Any) -> None:
    svg = bars([("better", 10.0), ("worse", 0.1)])

    assert svg.count("<rect") == 2
    assert 'x="635.0" y="4" width="195.0"' in svg
    assert 'x="440.0" y="28" width="195.0"' in svg
    assert bars([]) == ""


@pytest.mark.process
def test_the_machine_is_described_without_its_name_or_a_path(page: Any) -> None:
    assert page
    reported = dict(importlib.import_module("prove.report.machine").rows())

    assert reported["Python"] == platform.python_version()
    assert reported["commit"]
    for text in reported.values():
        assert (platform.node() or "/") not in text
        assert str(ROOT) not in text
