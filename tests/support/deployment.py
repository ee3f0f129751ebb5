"""Reads the alerts and documents of an operator, and the metrics of the service."""

import re
from pathlib import Path
from typing import Any, Final

import yaml
from prometheus_client import Counter, Gauge

from mintscope.kit import metrics

ROOT: Final = Path(__file__).resolve().parents[2]
DEPLOY: Final = ROOT / "deploy"

# Prometheus itself creates `up`; its client library for Python creates the others in each process.
OTHERS_METRICS: Final = {
    "up",
    "process_resident_memory_bytes",
    "process_cpu_seconds_total",
    "process_open_fds",
}


class _OnceLoader(yaml.SafeLoader):
    """A YAML loader that refuses a duplicate key; others silently use the last value."""


def _mapping(loader: _OnceLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    names = [key.value for key, _ in node.value]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"expected each key once; twice: {twice}, {node.start_mark}")
    loader.flatten_mapping(node)
    return dict(loader.construct_pairs(node, deep=True))


_OnceLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def read_yaml(path: Path) -> Any:
    """Return the content of *path*, with anchors and merges resolved."""
    return yaml.load(path.read_text(), Loader=_OnceLoader)


def rule_of(alert: str) -> dict[str, Any]:
    read = read_yaml(DEPLOY / "prometheus" / "alerts.yaml")
    rules = [rule for group in read["groups"] for rule in group["rules"]]
    (rule,) = [each for each in rules if each["alert"] == alert]
    return dict(rule)


def metric_names() -> set[str]:
    """Return the names of all series that a mintscope process can expose."""
    found = set(OTHERS_METRICS)
    for value in vars(metrics).values():
        if isinstance(value, Counter | Gauge):
            (metric,) = value.describe()
            found.add(f"{metric.name}_total" if metric.type == "counter" else metric.name)
    for metric in metrics.REQUESTS.collect():
        ends = ("_bucket", "_count", "_sum") if metric.type == "histogram" else ("",)
        found |= {metric.name + end for end in ends}
    return found


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a Markdown *page*, as GitHub generates them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
