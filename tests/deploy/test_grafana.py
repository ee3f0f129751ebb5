"""The dashboard uses existing metrics, and describes each panel."""

import json
import re
from itertools import combinations

import pytest
from deployed import metrics_of

from support.deployment import DEPLOY, ROOT, metric_names

DASHBOARD = json.loads((DEPLOY / "grafana" / "mintscope.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
# Prometheus itself adds this metric for each process.
NOT_SHOWN = {"up"}


def expressions() -> list[str]:
    return [target["expr"] for panel in PANELS for target in panel["targets"]]


def test_every_metric_exists() -> None:
    asked = {expression: metrics_of(expression) for expression in expressions()}

    assert {text: metrics for text, metrics in asked.items() if metrics - metric_names()} == {}
    assert asked


def test_an_unknown_metric_and_an_invalid_expression_are_found() -> None:
    assert metrics_of("rate(mintscope_no_such_total[5m])") - metric_names()
    with pytest.raises(ValueError, match="brackets"):
        metrics_of("rate(mintscope_swaps_total[5m)")


def test_every_metric_is_shown() -> None:
    shown = {metric for expression in expressions() for metric in metrics_of(expression)}
    left_out = metric_names() - shown - NOT_SHOWN

    assert left_out == {"mintscope_request_s_sum"}, "its buckets are shown"


def test_each_panel_has_a_unique_number_and_title() -> None:
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    titles = [panel["title"] for panel in PANELS]

    assert len(set(numbers)) == len(numbers)
    assert len(set(titles)) == len(titles)


def test_each_panel_has_a_description_and_a_unit() -> None:
    for panel in PANELS:
        title = panel["title"]
        assert panel["description"].endswith("."), title
        assert panel["fieldConfig"]["defaults"]["unit"], title
        assert panel["datasource"]["uid"] == "${source}", title
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references), title


def test_no_panel_covers_another() -> None:
    for one, other in combinations([panel["gridPos"] for panel in DASHBOARD["panels"]], 2):
        is_apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert is_apart, (one, other)
        assert one["x"] + one["w"] <= 24


def test_the_source_of_the_dashboard_can_be_chosen() -> None:
    assert [each["name"] for each in DASHBOARD["templating"]["list"]] == ["source"]


def test_routes_that_the_dashboard_names_exist() -> None:
    named = set(re.findall(r'route="([^"]+)"', " ".join(expressions())))
    page = (ROOT / "docs" / "api.md").read_text()

    assert named
    assert [route for route in named if route not in page] == []
