"""Each condition in docs/operating/watch.md has an alert, and alerts use metrics that exist."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from deployed import metrics_of, services

from support.deployment import DEPLOY, ROOT, anchors, metric_names, read_yaml

OPERATING = ROOT / "docs" / "operating"
READ = read_yaml(DEPLOY / "prometheus" / "alerts.yaml")
RULES = [rule for group in READ["groups"] for rule in group["rules"]]
KEYS = {"alert", "expr", "for", "labels", "annotations"}


def conditions() -> Iterator[str]:
    """Yield each PromQL expression in the list of alerts of docs/operating/watch.md."""
    (paragraph,) = re.findall(
        r"^Configure an alert for each of these conditions:\s+(.*?)\n\n",
        (OPERATING / "watch.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    yield from re.findall(r"`([^`]*mintscope_[^`]+)`", re.sub(r"\s+", " ", paragraph))


def in_one_line(rule: Any) -> str:
    return re.sub(r"\s+", " ", rule["expr"])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_metric_exists(rule: Any) -> None:
    found = metrics_of(rule["expr"])

    assert found
    assert found <= metric_names()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_each_alert_has_a_severity_a_summary_an_action_and_a_runbook(rule: Any) -> None:
    assert set(rule) <= KEYS
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert set(rule["annotations"]) == {"summary", "do", "runbook"}
    for key in ("summary", "do"):
        assert rule["annotations"][key].endswith((".", "?")), rule["annotations"][key]
    page, _, section = rule["annotations"]["runbook"].partition("#")
    assert page == "docs/runbook.md" or (ROOT / page).parent == OPERATING
    assert section in anchors(ROOT / page)


@pytest.mark.parametrize("condition", [*conditions()])
def test_each_condition_of_the_page_has_an_alert(condition: str) -> None:
    assert [rule["alert"] for rule in RULES if condition in in_one_line(rule)]


def test_the_page_lists_at_least_11_conditions() -> None:
    assert len(list(conditions())) >= 11


def test_each_alert_has_a_unique_name() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names)


def test_each_alert_on_failures_also_matches_the_first_failure() -> None:
    """A counter with labels begins at 1, and the `increase` of a new counter is 0."""
    counted = re.compile(r"increase\((mintscope_\w+_total\{[^}]+\})\[(\w+)\]\) > (\d+)")
    found = set()
    for rule in RULES:
        for series, span, limit in counted.findall(rule["expr"]):
            found.add(rule["alert"])
            first = f"or {series} > {limit} unless {series} offset {span}"
            assert first in in_one_line(rule), rule["alert"]
    assert found == {
        "MintscopeUnknownVersion",
        "MintscopeDebitsFail",
        "MintscopeAuditsFail",
        "MintscopePaymentFrozen",
    }


def test_prometheus_scrapes_the_processes_that_compose_runs() -> None:
    read = read_yaml(DEPLOY / "prometheus" / "prometheus.yaml")
    jobs = {
        job["job_name"]: [target for each in job["static_configs"] for target in each["targets"]]
        for job in read["scrape_configs"]
    }
    assert jobs == {
        "mintscope-api": [f"{name}:9465" for name in services("api")],
        "mintscope-ingest": [f"{name}:9464" for name in services("ingest")],
    }
    assert read["rule_files"] == ["alerts.yaml"]
    assert all('job=~"mintscope-(api|ingest)"' in r["expr"] for r in RULES if "up{" in r["expr"])


def test_prometheus_and_the_processes_share_a_network() -> None:
    """The shared network is the one that the configuration of Prometheus names."""
    text = (DEPLOY / "prometheus" / "prometheus.yaml").read_text()
    for name in (*services("api"), *services("ingest")):
        assert "chain" in services()[name]["networks"]
    assert "`mintscope_chain`" in text
