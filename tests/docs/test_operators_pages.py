"""The pages for operators name the settings, metrics, log events and files that the code has."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import prometheus_client
import pytest

from mintscope.app.cli.config import markdown_page
from mintscope.app.config.load import settings
from mintscope.app.stores.folder import MARKET_FILE, MONEY_FILE, PEPPER_FILE
from mintscope.solana.wire import CODES

ROOT = Path(__file__).resolve().parents[2]
OPERATING = ROOT / "docs" / "operating"
PAGES = {path.stem: path.read_text() for path in OPERATING.glob("*.md")}
REFERENCE = (ROOT / "docs" / "reference" / "config.md").read_text()
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}


def metrics() -> Iterator[str]:
    for family in prometheus_client.REGISTRY.collect():
        if family.name.startswith("mintscope_"):
            yield f"{family.name}_total" if family.type == "counter" else family.name


def log_events() -> Iterator[str]:
    """Yield the first argument of every call like `log.info("event", ...)` in the package."""
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text()
        if not re.search(r"\blog\b", text, re.IGNORECASE):
            continue
        for node in ast.walk(ast.parse(text)):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in LEVELS
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id.lower() == "log"
            ):
                (event, *_) = node.args
                names = event.elts if isinstance(event, ast.Tuple) else [event]
                yield from (str(n.value) for n in names if isinstance(n, ast.Constant))


def test_the_reference_equals_the_output_of_the_command() -> None:
    assert REFERENCE.splitlines() == "\n".join(markdown_page()).splitlines(), (
        "run: mintscope config --markdown > docs/reference/config.md"
    )


def test_every_setting_has_a_meaning_and_is_in_the_reference() -> None:
    for _, _, group in settings():
        for setting in group:
            assert setting.meaning.endswith("."), setting.key
            assert f"`{setting.key}`" in REFERENCE
            assert f"`{setting.variable}`" in REFERENCE


def test_every_setting_the_pages_name_exists() -> None:
    keys = {setting.key for _, _, group in settings() for setting in group}
    sections = {key.partition(".")[0] for key in keys if "." in key}
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for quoted in page.read_text().split("`")[1::2]:
            word = quoted.split(" ")[0]
            section, _, name = word.partition(".")
            is_key = section in sections and name.replace("_", "").isalnum()
            if is_key and word not in {MARKET_FILE, MONEY_FILE}:
                assert word in keys, f"{page.name}: {word}"


@pytest.mark.parametrize("metric", sorted(metrics()))
def test_every_metric_is_explained(metric: str) -> None:
    assert f"| `{metric}` |" in PAGES["watch"]


def test_at_least_10_metrics_are_found() -> None:
    assert len(list(metrics())) >= 10


def test_every_log_event_is_explained() -> None:
    events = set(log_events())

    assert len(events) >= 50
    assert [event for event in sorted(events) if f"| `{event}` |" not in PAGES["logs"]] == []


@pytest.mark.parametrize("file", [MARKET_FILE, MONEY_FILE, PEPPER_FILE])
def test_every_file_is_backed_up(file: str) -> None:
    assert file in PAGES["back-up"]


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_code_of_a_node_is_explained(code: int) -> None:
    assert f"| {code} | {CODES[code].name} |" in PAGES["troubleshoot"]
