"""docs/reference/licences.md lists the packages installed with a service, and their licences."""

import re
from importlib.metadata import distributions, metadata
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (ROOT / "docs" / "reference" / "licences.md").read_text()
ROW: Final = r"^\| (?!package|--)([a-z0-9.-]+) \| (.+?) \|$"
LISTED: Final = dict(re.findall(ROW, PAGE, re.MULTILINE))
INSTALLED: Final = {re.sub(r"[-_.]+", "-", one.metadata["Name"]).lower() for one in distributions()}
LOCKS: Final = ("run", "postgres", "mcp", "geyser", "otel", "tables")
# These licences require only their text beside a copy; the page explains the others.
FREE: Final = re.compile(
    r"MIT|BSD|Apache|ISC|0BSD|Zlib|CC0|PSF|Unlicense|any-OSI|MPL-2\.0|not declared"
)


def locked(marker: str = "") -> set[str]:
    """Return the locked packages of a service; with *marker*, only those with this marker."""
    texts = ((ROOT / "requirements" / f"{name}.txt").read_text() for name in LOCKS)
    line = re.compile(rf"^([\w.-]+)==[^\s]+{marker}", re.MULTILINE)
    return {name for text in texts for name in line.findall(text)}


def declared(name: str) -> str:
    """Return the licence that the installed package *name* declares, or "not declared"."""
    found = metadata(name).json
    if expression := found.get("license_expression"):
        return str(expression)
    text = str(found.get("license") or "").partition("\n")[0]
    if 0 < len(text) < 40 and not text.startswith("Copyright"):
        return text
    classes = [
        each.rpartition(" :: ")[2]
        for each in found.get("classifier", [])
        if each.startswith("License ::")
    ]
    return ", ".join(classes) or "not declared"


def test_the_page_lists_exactly_the_locked_packages() -> None:
    assert set(LISTED) == locked()


def test_each_installed_package_has_the_licence_that_is_listed() -> None:
    found = {name: declared(name) for name in LISTED.keys() & INSTALLED}

    assert found == {name: LISTED[name] for name in found}


def test_only_packages_for_other_systems_are_not_installed() -> None:
    assert LISTED.keys() - INSTALLED <= locked(r" ; .*\b(?:sys_platform|platform_system)\b")


def test_a_licence_with_more_obligations_is_explained() -> None:
    explained = PAGE.partition("## Obligations")[2]
    for name, licence in LISTED.items():
        if FREE.search(licence) is None:
            assert f"`{name}`" in explained
            assert licence.partition("-")[0] in explained, name
