"""The alerts are those of the page for operators, ask for metrics that there are, and help."""

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
    """Yield each expression of the page's list of alerts."""
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
def test_each_alert_says_how_bad_it_is_and_what_to_do(rule: Any) -> None:
    assert set(rule) <= KEYS
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert set(rule["annotations"]) == {"summary", "do", "runbook"}
    for key in ("summary", "do"):
        assert rule["annotations"][key].endswith((".", "?")), rule["annotations"][key]
    page, _, section = rule["annotations"]["runbook"].partition("#")
    assert page == "docs/runbook.md" or (ROOT / page).parent == OPERATING
    assert section in anchors(ROOT / page)


@pytest.mark.parametrize("condition", [*conditions()])
def test_what_the_page_says_to_alert_on_is_alerted_on(condition: str) -> None:
    assert [rule["alert"] for rule in RULES if condition in in_one_line(rule)]


def test_the_list_of_the_page_is_known_here() -> None:
    assert len(list(conditions())) >= 11


def test_no_two_alerts_have_one_name() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names)


def test_a_first_failure_is_noticed() -> None:
    """A counter with labels begins at 1: `increase` of one that has just begun is 0."""
    for rule in RULES:
        for name in re.findall(r'(mintscope_\w+_total)\{\w+="(?:frozen|failed)"\}', rule["expr"]):
            assert re.search(rf"unless {name}\{{[^}}]+\}} offset", rule["expr"])


def test_what_is_scraped_is_what_compose_runs() -> None:
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
    """The network that the file names."""
    text = (DEPLOY / "prometheus" / "prometheus.yaml").read_text()
    for name in (*services("api"), *services("ingest")):
        assert "chain" in services()[name]["networks"]
    assert "`mintscope_chain`" in text
