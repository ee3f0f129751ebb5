"""The bill of materials names all that is locked, and the audit finds what an advisory names."""

import importlib
import json
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]


@pytest.fixture
def supply(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return {name: importlib.import_module(f"prove.supply.{name}") for name in ("audit", "sbom")}


def advisory(*events: dict[str, str], name: str = "A_Package", **more: Any) -> dict[str, Any]:
    ranges = [{"type": "ECOSYSTEM", "events": list(events)}]
    package = {"ecosystem": "PyPI", "name": name}
    return {"id": "X", "affected": [{"package": package, "ranges": ranges} | more]}


def test_nothing_that_is_locked_is_in_an_advisory_that_is_kept(
    supply: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert supply["audit"].main() == 0
    assert "0 affected" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("found", "is_named"),
    [
        (advisory({"introduced": "0"}, {"fixed": "2.10"}), True),
        (advisory({"introduced": "0"}, {"fixed": "2.9"}), False),
        (advisory({"introduced": "2.9.1"}), False),
        (advisory({"introduced": "1"}, {"last_affected": "2.9"}), True),
        (advisory({"introduced": "0"}, {"fixed": "1"}, {"introduced": "2"}, {"fixed": "3"}), True),
        (advisory({"introduced": "0"}, {"fixed": "1"}, {"introduced": "3"}), False),
        (advisory(versions=["2.9"]), True),
        (advisory({"introduced": "0"}, name="another"), False),
        (advisory({"introduced": "0"}) | {"withdrawn": "2026-01-01T00:00:00Z"}, False),
    ],
)
def test_an_advisory_names_the_versions_that_it_says(
    supply: Any,
    found: dict[str, Any],
    is_named: bool,  # noqa: FBT001 - a parameter
) -> None:
    locked = importlib.import_module("prove.supply.locked")
    package = locked.Locked("a-package", "2.9", ())

    assert supply["audit"].names(found, package) is is_named


def test_an_advisory_of_a_folder_ends_the_audit_with_1(
    supply: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "X.json").write_text(json.dumps(advisory({"introduced": "0"}, name="h11")))

    assert supply["audit"].main(str(tmp_path)) == 1
    assert "h11 " in capsys.readouterr().out


def test_the_bill_names_all_that_is_locked_with_hashes_and_licences(supply: Any) -> None:
    components = supply["sbom"].bill()["components"]

    assert len(components) > 60
    for each in components:
        assert each["purl"] == f"pkg:pypi/{each['name']}@{each['version']}"
        (reference,) = each["externalReferences"]
        assert all(len(digest["content"]) == 64 for digest in reference["hashes"])
        assert reference["hashes"]
        assert each["licenses"][0]["license"]["name"]
