"""The page of supported versions agrees with code, locks and packages."""

import json
import re
import tomllib
from pathlib import Path
from typing import Final

import pytest
from prove.interop.clients import CLIENTS

from mintscope.kit.sql.migrating import VERSION_MIN
from mintscope.kit.sql.sqlite import SQLITE_VERSION_MIN

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (ROOT / "docs" / "reference" / "support.md").read_text()


def supported(part: str) -> str:
    """Return the versions of *part* on the page: the second cell of its row."""
    (cell,) = re.findall(rf"^\| {re.escape(part)} \| (.+?) \|", PAGE, re.MULTILINE)
    return str(cell)


def test_python_versions_are_those_that_the_package_requires() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    low, high = map(int, re.findall(r"3\.(\d+)", project["requires-python"]))

    assert supported("Python") == ", ".join(f"3.{minor}" for minor in range(low, high))


def test_versions_of_stores_are_the_minimums_of_the_code() -> None:
    assert supported("PostgreSQL") == f"{VERSION_MIN // 10_000} or newer"
    assert supported("SQLite").startswith(f"{'.'.join(map(str, SQLITE_VERSION_MIN))} or newer;")


def test_the_node_version_is_that_of_the_typescript_client() -> None:
    package = json.loads((ROOT / "packages" / "client-ts" / "package.json").read_text())

    assert supported("Node.js, for the TypeScript client") == (
        f"{package['engines']['node'].removeprefix('>=')} or newer"
    )


def test_python_versions_are_those_that_the_client_requires() -> None:
    project = tomllib.loads((ROOT / "packages/client/pyproject.toml").read_text())["project"]
    low, high = map(int, re.findall(r"3\.(\d+)", project["requires-python"]))
    versions = [f"3.{minor}" for minor in range(low, high)]

    assert supported("Python, for the Python client") == ", ".join(versions)
    assert [client.python for client in CLIENTS if client.python] == versions


@pytest.mark.parametrize("name", sorted({client.name for client in CLIENTS if not client.python}))
def test_versions_of_clients_are_those_of_interop(name: str) -> None:
    versions = [client.version for client in CLIENTS if client.name == name]
    (row,) = [line for line in PAGE.splitlines() if line.startswith("| ") and shows(line, name)]

    for version in versions:
        assert version.replace("installed", "locked") in row


def shows(line: str, name: str) -> bool:
    return line.split("|")[1].replace("`", "").strip() == name
