"""Each check of a process has a section of the runbook, an alert, and a text on the status page."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from mintscope.kit.checks import RUNBOOK
from mintscope.site.status import TEXTS
from support.deployment import DEPLOY, ROOT, anchors, read_yaml
from support.promtool import by_promtool, values_at

PAGE: Final = ROOT / RUNBOOK
ROWS: Final = re.findall(r"^\| \[`(\w+)`\]\(#(\w+)\) \| (\w+) \|", PAGE.read_text(), re.MULTILINE)
RULES: Final = [
    rule
    for group in read_yaml(DEPLOY / "prometheus" / "alerts.yaml")["groups"]
    for rule in group["rules"]
]
# An alert on another metric reports the same; a process that is stopping has no fault.
ALERTED_OTHERWISE: Final = {
    "data": "MintscopeDataOld",
    "gaps": "MintscopeGap",
    "rate": "MintscopeNoSolRate",
    "coverage": "MintscopeProgramMissed",
    "lists": "MintscopeNotReady",
    "ingest": "MintscopeNode",
    "sales": "MintscopeSalesClosed",
    "stopping": None,
}


def checks() -> Iterator[str]:
    """Yield the name of every readiness `Check` that the sources of the service create."""
    sources = (path.read_text() for path in (ROOT / "src").rglob("*.py"))
    for source in sources:
        if "Check(" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Check":
                name = node.args[0]
                yield str(name.value) if isinstance(name, ast.Constant) else "processes"


NAMED: Final = sorted(set(checks()))


def test_at_least_20_checks_are_found() -> None:
    assert len(NAMED) >= 20


def test_the_table_has_every_check_and_no_other() -> None:
    assert sorted(name for name, _, _ in ROWS) == NAMED
    assert [name for name, anchor, _ in ROWS if name != anchor] == []


@pytest.mark.parametrize("name", NAMED)
def test_each_check_has_a_section_in_the_runbook(name: str) -> None:
    assert name in anchors(PAGE)
    assert len(PAGE.read_text().partition(f"\n## {name}\n")[2].partition("\n## ")[0]) > 50


@pytest.mark.parametrize("name", NAMED)
def test_each_check_has_an_alert(name: str) -> None:
    alerts: list[Any] = [rule for rule in RULES if f'check="{name}"' in rule["expr"]]
    if name in ALERTED_OTHERWISE:
        assert alerts == []
        assert ALERTED_OTHERWISE[name] in {None, *(rule["alert"] for rule in RULES)}
    else:
        assert [each["annotations"]["runbook"] for each in alerts] == [f"{RUNBOOK}#{name}"]


def test_the_status_page_has_a_text_for_each_check_of_an_api() -> None:
    of_apis = {name for name, _, process in ROWS if process in {"api", "all"}}
    assert of_apis <= TEXTS.checks.keys()


@pytest.mark.process
@by_promtool
def test_the_alert_of_a_check_fires_while_it_fails(tmp_path: Path) -> None:
    for name in [name for name in NAMED if name not in ALERTED_OTHERWISE]:
        (rule,) = [rule for rule in RULES if f'check="{name}"' in rule["expr"]]
        series = {f'mintscope_check_ok{{check="{check}"}}': "1x3" for check in NAMED}
        series[f'mintscope_check_ok{{check="{name}"}}'] = "1 0 0 1"
        found = values_at(tmp_path, rule["expr"], series, [0, 15, 30, 45], step_s=15)
        assert [*found] == [15, 30], name
