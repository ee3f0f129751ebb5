"""No text installs a package of ours from a public registry: a stranger could register its name.

Our packages are installed from a folder, a wheel or the address of a service.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PLACES: Final = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs",
    "src",
    "packages",
    "deploy",
)
KINDS: Final = {".md", ".py", ".html", ".txt", ".toml", ".js", ".ts", ".json", ".yaml", ""}
INSTALLS: Final = re.compile(
    r"\b(?:pip3? install|pipx (?:install|run)|uv (?:add|pip install|tool install)|uvx"
    r"|npm (?:install|i|add)|pnpm (?:add|install)|yarn add|npx)\s(?P<named>[^\n`<]*)"
)
OURS: Final = re.compile(r"['\"]?@?mintscope")
LEAST: Final = 10  # fewer mean that the pattern misses some


def files() -> Iterator[Path]:
    for place in PLACES:
        path = ROOT / place
        for each in [path] if path.is_file() else sorted(path.rglob("*")):
            if each.is_file() and each.suffix in KINDS and "node_modules" not in each.parts:
                yield each


def advice(text: str) -> Iterator[str]:
    """Yield the arguments of each command in *text* that installs packages."""
    for found in INSTALLS.finditer(text):
        yield found["named"]


def names_of_ours(named: str) -> list[str]:
    """Return the packages of ours in *named* that the installer would look up in a registry."""
    return [word for word in named.split() if OURS.match(word) and not is_file(word)]


def is_file(word: str) -> bool:
    is_scoped = word.lstrip("'\"").startswith("@")
    return ("/" in word and not is_scoped) or word.rstrip("'\"").endswith((".whl", ".tgz"))


def test_no_name_of_ours_is_installed_from_a_registry() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {named}"
        for path in files()
        for named in advice(path.read_text(errors="replace"))
        if names_of_ours(named)
    }
    assert found == set()


def test_at_least_10_install_commands_are_found() -> None:
    assert sum(1 for path in files() for _ in advice(path.read_text(errors="replace"))) >= LEAST


def test_our_project_is_installed_together_with_its_client() -> None:
    """The project requires the client, which pip would otherwise look up in a registry."""
    alone = [
        f"{path.relative_to(ROOT)}: {named}"
        for path in files()
        for named in advice(path.read_text(errors="replace"))
        if re.match(r"(?:-e )?['\"]?\.(?:\[|['\"]?(?:\s|$))", named)
        and "packages/client" not in named
    ]
    assert alone == []


@pytest.mark.parametrize(
    "text",
    [
        "pip install mintscope",
        "pip install 'mintscope[postgres]'",
        "uv add httpx mintscope-client",
        "npm install mintscope-client",
        "npm install @mintscope/client",
    ],
)
def test_a_name_of_ours_is_found(text: str) -> None:
    (named,) = advice(text)

    assert names_of_ours(named)


@pytest.mark.parametrize(
    "text",
    [
        "pip install ./packages/client '.[mcp]'",
        "pip install https://api.example/client/mintscope_client-0.1.0-py3-none-any.whl",
        "pip install './mintscope-0.1.0-py3-none-any.whl[postgres]'",
        "npm install https://api.example/client/mintscope-client-0.1.0.tgz",
        "pip install standardwebhooks",
    ],
)
def test_names_of_others_and_paths_of_files_are_not_found(text: str) -> None:
    (named,) = advice(text)

    assert names_of_ours(named) == []
