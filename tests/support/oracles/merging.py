"""Merges updates into a report as a client does, by the rule in docs/api/streams.md."""

from typing import Any


def merged(report: dict[str, Any], update: dict[str, Any]) -> dict[str, Any]:
    reported = report | update
    reported["dataSpan"] = report["dataSpan"] | update["dataSpan"]
    reported["indicators"] = report["indicators"] | {
        name: value if name == "buySellPressure" else report["indicators"][name] | value
        for name, value in update["indicators"].items()
    }
    return reported
