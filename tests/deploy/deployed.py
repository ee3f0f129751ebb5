"""Reads the files of deploy/ like the programs that use these files."""

import re
import shlex
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import promql_parser
import typer

from mintscope.app.cli.app import app
from mintscope.app.config.load import FILE_VARIABLE, settings
from support.deployment import DEPLOY, read_yaml

EXAMPLE = DEPLOY / "example.toml"


def own_example(file: Path) -> Path:
    """Write the example configuration to *file*, with secrets as values; return *file*."""
    own = sha256(b"an operator").hexdigest()
    text = EXAMPLE.read_text().replace("0" * 64, own)
    file.touch(mode=0o600)
    file.write_text(text.replace("PASSWORD", own[:48]).replace("your-key", own[:32]))
    return file


def compose() -> dict[str, Any]:
    read: dict[str, Any] = read_yaml(DEPLOY / "compose.yaml")
    return read


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
    """Return the sections of each systemd service by file name, each with its keys in order."""
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


def metrics_of(expression: str) -> set[str]:
    """Return the metrics that a PromQL *expression* names.  Raises ValueError if it is invalid."""
    found: list[str] = []

    def note(node: promql_parser.Expr) -> None:
        if isinstance(node, promql_parser.VectorSelector) and node.name is not None:
            found.append(node.name)

    promql_parser.walk(promql_parser.parse(expression.replace("$__rate_interval", "5m")), note)
    return set(found)


def environment_of(unit: Mapping[str, Sequence[tuple[str, str]]]) -> dict[str, str]:
    lines = [value for key, value in unit["Service"] if key == "Environment"]
    pairs = [word.partition("=") for line in lines for word in shlex.split(line)]
    return {name: value for name, _, value in pairs}
