"""Prometheus alerts fire on samples of their fault, and not on samples of normal operation."""

from pathlib import Path
from typing import Any, Final

import pytest

from support.deployment import DEPLOY, read_yaml
from support.promtool import by_promtool, failures

RULES: Final = DEPLOY / "prometheus" / "alerts.yaml"
SERVER_ERRORS: Final = "MintscopeServerErrors"
SILENT: Final = "MintscopeProgramSilent"
VERSION: Final = "MintscopeUnknownVersion"

pytestmark = [pytest.mark.process, by_promtool]


def only(alert: str) -> dict[str, Any]:
    """Return the rules of *alert* alone, because evaluating all rules takes ten times as long."""
    groups = read_yaml(RULES)["groups"]
    rules = [rule for group in groups for rule in group["rules"] if rule["alert"] == alert]
    assert rules
    return {"groups": [{"name": "probed", "rules": rules}]}


def fires(tmp_path: Path, alert: str, at: str, series: dict[str, str]) -> bool:
    """Return whether *alert* fires at *at*, such as "1600m".

    series   the samples of each series, one a minute, in the notation of promtool
    """
    check = {"eval_time": at, "alertname": alert, "exp_alerts": []}
    return bool(failures(tmp_path, series, rules=only(alert), alert_rule_test=[check]))


def requests(route: str, status: str) -> str:
    return f'mintscope_request_s_count{{route="{route}",status="{status}"}}'


def test_failed_probes_of_a_balancer_do_not_count_as_server_errors(tmp_path: Path) -> None:
    well = "0+60x30"
    probes = "0+60x30"
    series = {requests("/v1/token/{mint}", "200"): well, requests("/readyz", "503"): probes}
    assert not fires(tmp_path, SERVER_ERRORS, "20m", series)
    failing = {requests("/v1/token/{mint}", "200"): well, requests("/v1/tokens", "503"): "0+6x30"}
    assert fires(tmp_path, SERVER_ERRORS, "20m", failing)


def test_the_alert_fires_at_the_first_transactions_of_an_unknown_version(tmp_path: Path) -> None:
    name = 'mintscope_quarantined_total{program="a",reason="unknown_version"}'
    burst = "_x9 3x50"
    assert fires(tmp_path, VERSION, "15m", {name: burst})
    assert not fires(tmp_path, VERSION, "180m", {name: "3x200"})


def test_the_alert_on_a_silent_program_fires_after_a_restart_of_ingest(tmp_path: Path) -> None:
    """After the restart of ingest, there are no more samples of the silent program."""
    day = "0+60x1440"
    gone = {
        'mintscope_swaps_total{program="a"}': f"{day} stale",
        'mintscope_swaps_total{program="b"}': "0+60x1700",
    }
    assert fires(tmp_path, SILENT, "1600m", gone)
    well = gone | {'mintscope_swaps_total{program="a"}': "0+60x1700"}
    assert not fires(tmp_path, SILENT, "1600m", well)
    none = {'mintscope_swaps_total{program="a"}': f"{day} stale"}
    assert not fires(tmp_path, SILENT, "1600m", none)
