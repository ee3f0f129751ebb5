"""Reads the files of deploy/ in the way in which the programs that use them read them."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import promql_parser
import typer
import yaml
from prometheus_client import Counter, Gauge, Metric

from mintscope.app.cli.app import app
from mintscope.app.config.load import FILE_VARIABLE, settings
from mintscope.kit import metrics

ROOT: Final = Path(__file__).resolve().parents[2]
DEPLOY: Final = ROOT / "deploy"
OPERATING: Final = ROOT / "docs" / "operating"
EXAMPLE: Final = DEPLOY / "example.toml"

# Prometheus itself creates `up`; its client library for Python creates the others in each process.
OTHERS_METRICS: Final = {
    "up",
    "process_resident_memory_bytes",
    "process_cpu_seconds_total",
    "process_open_fds",
}


def own_example(file: Path) -> Path:
    """Write the example with secrets in place of its placeholders to *file*; return *file*."""
    own = sha256(b"an operator").hexdigest()
    text = EXAMPLE.read_text().replace("0" * 64, own)
    file.touch(mode=0o600)
    file.write_text(text.replace("PASSWORD", own[:48]).replace("your-key", own[:32]))
    return file


class _OnceLoader(yaml.SafeLoader):
    """A loader that refuses a duplicate key; YAML would silently use the last value."""


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


def compose() -> dict[str, Any]:
    """Return the content of compose.yaml."""
    read: dict[str, Any] = read_yaml(DEPLOY / "compose.yaml")
    return read


def rule_of(alert: str) -> dict[str, Any]:
    """Return the rule of *alert* in deploy/prometheus/alerts.yaml."""
    read = read_yaml(DEPLOY / "prometheus" / "alerts.yaml")
    rules = [rule for group in read["groups"] for rule in group["rules"]]
    (rule,) = [each for each in rules if each["alert"] == alert]
    return dict(rule)


def services(command: str | None = None) -> dict[str, dict[str, Any]]:
    """Return the services of compose.yaml; if *command* is given, only the services that run it."""
    return {
        name: service
        for name, service in compose()["services"].items()
        if command is None
        or (service["image"].startswith("mintscope:") and service["command"][0] == command)
    }


def variables() -> set[str]:
    """Return all environment variables of settings, and the variable that names the config file."""
    return {FILE_VARIABLE, *(each.variable for _, _, group in settings() for each in group)}


def units() -> dict[str, dict[str, list[tuple[str, str]]]]:
    """Return, by file name, the sections of each systemd unit, with keys in order."""
    return {path.name: _unit(path) for path in sorted((DEPLOY / "systemd").glob("*.service"))}


def _unit(path: Path) -> dict[str, list[tuple[str, str]]]:
    sections: dict[str, list[tuple[str, str]]] = {}
    section: list[tuple[str, str]] = []
    for line in path.read_text().splitlines():
        if re.fullmatch(r"\[\w+\]", line):
            assert line not in sections, f"{path.name}: {line} twice"
            section = sections[line.strip("[]")] = []
        elif line and not line.startswith("#"):
            key, equals, value = line.partition("=")
            assert equals, f"{path.name}: expected KEY=VALUE; was {line}"
            section.append((key, value))
    return sections


def expect_command(words: Sequence[str]) -> None:
    """Check that the command line accepts *words* after `mintscope`; do not run the command."""
    group: Any = typer.main.get_command(app)
    context = group.make_context("mintscope", list(words))
    name, command, rest = group.resolve_command(context, list(words))
    command.make_context(name, rest, parent=context)


def metric_names() -> set[str]:
    """Return the names of all series that a mintscope process can expose."""
    found = set(OTHERS_METRICS)
    for value in vars(metrics).values():
        if isinstance(value, Counter | Gauge):
            (metric,) = value.describe()
            found.add(f"{metric.name}_total" if metric.type == "counter" else metric.name)
    for metric in metrics.REQUESTS.collect():
        found |= {metric.name + end for end in _series(metric)}
    return found


def _series(metric: Metric) -> tuple[str, ...]:
    return ("_bucket", "_count", "_sum") if metric.type == "histogram" else ("",)


def metrics_of(expression: str) -> set[str]:
    """Return the metrics that a PromQL *expression* names.  Raises ValueError if it is invalid."""
    found: list[str] = []

    def note(node: promql_parser.Expr) -> None:
        if isinstance(node, promql_parser.VectorSelector) and node.name is not None:
            found.append(node.name)

    promql_parser.walk(promql_parser.parse(expression.replace("$__rate_interval", "5m")), note)
    return set(found)


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a Markdown *page*, as GitHub generates them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def instructions(containerfile: Path) -> Iterator[tuple[str, str]]:
    """Yield each instruction of a Containerfile and its arguments, with continued lines joined."""
    text = re.sub(r"^#.*\n", "", containerfile.read_text(), flags=re.MULTILINE)
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            yield name, re.sub(r"\s+", " ", rest)


def environment_of(unit: Mapping[str, Sequence[tuple[str, str]]]) -> dict[str, str]:
    """Return the variables in the Environment lines of *unit*."""
    lines = [value for key, value in unit["Service"] if key == "Environment"]
    pairs = [word.partition("=") for line in lines for word in shlex.split(line)]
    return {name: value for name, _, value in pairs}
