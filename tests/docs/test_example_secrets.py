"""The service refuses every placeholder for a secret in a document or an example."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from mintscope.app.config.load import ConfigError, load

ROOT: Final = Path(__file__).resolve().parents[2]
PLACES: Final = ("README.md", "SECURITY.md", "CONTRIBUTING.md", "docs", "deploy")
NAMES: Final = r"(?:pepper|password|passwd|secret|x_tokens?|api[-_]?key|fee_payer_key|rpc_headers)"
PATTERNS: Final = (
    re.compile(r"(?<!@sha256:)\b[0-9a-f]{64,}\b"),  # but no digests of images
    re.compile(r"\w://[^\s:/@`]*:([^\s@/`{}$]+)@"),
    re.compile(rf"(?im)^[#\s]*(?:export\s+)?\w*{NAMES}\s*[=:]\s*(\S.*)$"),
    re.compile(r"https?://[^\s/`\"]+/(?:\S*?[/=])?([a-z]*[-_]?key)\b"),
    re.compile(r"\b[1-9A-HJ-NP-Za-km-z]{86,88}\b"),
)
NOT_A_VALUE: Final = re.compile(r"^[{$]|^/|svc_|^\[\]$")


def texts() -> Iterator[tuple[Path, str]]:
    for place in PLACES:
        path = ROOT / place
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            if file.is_file() and file.suffix != ".png":
                yield file, file.read_text()


def values(text: str) -> Iterator[str]:
    """Yield each value that the example *text* gives to a secret."""
    for pattern in PATTERNS:
        for found in pattern.finditer(text):
            value = found[found.lastindex or 0].strip()
            quoted = re.findall(r'"([^"]+)"', value)
            yield from quoted or [value.partition("#")[0].strip()]


def examples() -> list[tuple[str, str]]:
    found = {
        (value, str(file.relative_to(ROOT)))
        for file, text in texts()
        for value in values(text)
        if value and not NOT_A_VALUE.search(value)
    }
    return sorted(dict(sorted(found, reverse=True)).items())


def uses(value: str) -> Iterator[tuple[str, str]]:
    """Yield (variable, content) for each secret setting in which *value* could be used."""
    if re.fullmatch(r"(?:[0-9a-f]{2}){32,}", value):
        yield "MINTSCOPE_CREDITS__PEPPER", value
    yield "MINTSCOPE_STORE", f"postgresql://mintscope:{value}@db:5432/mintscope"
    yield "MINTSCOPE_MAIL__PASSWORD", value
    yield "MINTSCOPE_GEYSER__X_TOKENS", value
    yield "MINTSCOPE_CHAIN__RPC_URL", f"https://node.invalid/{value}"
    yield "MINTSCOPE_CHAIN__RPC_HEADERS", f"x-api-key: {value}"
    yield "MINTSCOPE_PAYMENTS__FEE_PAYER_KEY", value


def test_the_known_examples_are_found() -> None:
    """If the patterns found no example, the next test would check nothing."""
    found = [value for value, _ in examples()]
    assert {"0" * 64, "PASSWORD", "password", "your-key", "first key", "second key"} <= set(found)


@pytest.mark.parametrize(("value", "file"), examples())
def test_an_example_is_refused_as_the_value_of_each_secret(
    value: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for variable, content in uses(value):
        with monkeypatch.context() as patch:
            patch.setenv(variable, content)
            with pytest.raises(ConfigError) as caught:
                load()
        key = variable.removeprefix("MINTSCOPE_").replace("__", ".").lower()
        (reported,) = (each for each in caught.value.problems if each.startswith((key, variable)))
        problem = reported.partition(": ")[2]
        assert problem.startswith("expected "), file
        assert value not in problem


def test_the_unchanged_example_of_a_deployment_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "mintscope.toml"
    file.touch(mode=0o600)
    file.write_text((ROOT / "deploy" / "example.toml").read_text())

    with pytest.raises(ConfigError) as caught:
        load(file)

    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        "chain.rpc_url",
        "credits.pepper",
        "store",
    ]
    assert all(
        "the documents of mintscope, which are public" in problem
        for problem in caught.value.problems
    )
