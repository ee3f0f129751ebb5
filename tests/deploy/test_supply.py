"""The bill of materials is complete, and the audit finds packages that an advisory affects."""

import importlib
import json
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]


@pytest.fixture
def supply(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    parts = ("audit", "images", "sbom")
    return {name: importlib.import_module(f"prove.supply.{name}") for name in parts}


def advisory(*events: dict[str, str], name: str = "A_Package", **more: Any) -> dict[str, Any]:
    ranges = [{"type": "ECOSYSTEM", "events": list(events)}]
    package = {"ecosystem": "PyPI", "name": name}
    return {"id": "X", "affected": [{"package": package, "ranges": ranges} | more]}


def test_no_stored_advisory_affects_a_locked_package(
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
def test_an_advisory_affects_exactly_the_versions_in_its_ranges(
    supply: Any,
    found: dict[str, Any],
    is_named: bool,  # noqa: FBT001 - a parameter
) -> None:
    locked = importlib.import_module("prove.supply.locked")
    package = locked.Locked("a-package", "2.9", ())

    assert supply["audit"].names(found, package) is is_named


def test_the_audit_returns_1_if_an_advisory_of_the_folder_applies(
    supply: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "X.json").write_text(json.dumps(advisory({"introduced": "0"}, name="h11")))

    assert supply["audit"].main(str(tmp_path)) == 1
    assert "h11 " in capsys.readouterr().out


# The public list of digests had no image of this version: see CONTRIBUTING.md.  An image
# that has got a digest must be removed from this list.
BY_TAG_ALONE: Final = {"docker.io/library/caddy"}


def test_the_audit_names_each_image_without_a_digest(
    supply: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    supply["audit"].main()

    lines = capsys.readouterr().out.splitlines()
    named = {line.partition(":")[0] for line in lines if "pinned by its tag alone" in line}
    assert named == BY_TAG_ALONE
    assert {each.name for each in supply["images"].images() if each.digest is None} == named


def test_a_digest_is_read_and_a_name_without_a_tag_is_refused(supply: Any, tmp_path: Path) -> None:
    digest = f"sha256:{'0a' * 32}"
    compose = tmp_path / "compose.yaml"
    (tmp_path / "Containerfile").write_text(f"FROM a.example/b:1@{digest} AS build\nFROM c:2\n")
    compose.write_text("services:\n  one:\n    image: mintscope:0.1.0\n")
    found = [tuple(each) for each in supply["images"].images(tmp_path)]
    assert found == [("a.example/b", "1", digest), ("c", "2", None)]
    for wrong in ("a.example/b", "a:1@sha256:0a", "a@" + digest):
        compose.write_text(f"services:\n  one:\n    image: {wrong}\n")
        with pytest.raises(ValueError, match="expected NAME:TAG"):
            supply["images"].images(tmp_path)


def test_each_component_of_the_bill_has_hashes_and_a_licence(supply: Any) -> None:
    components = supply["sbom"].bill()["components"]

    assert len(components) > 60
    for each in components:
        assert each["purl"] == f"pkg:pypi/{each['name']}@{each['version']}"
        (reference,) = each["externalReferences"]
        assert all(len(digest["content"]) == 64 for digest in reference["hashes"])
        assert reference["hashes"]
        assert each["licenses"][0]["license"]["name"]
