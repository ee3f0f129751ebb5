"""`make audit`: checks whether a package of a lock file has a known vulnerability.

It also prints the container images of deploy/ that are pinned only by a tag.

Advisories are in the form of OSV (https://ossf.github.io/osv-schema), one JSON object or a list of
them in each file: the file `requirements/advisories.json`, and all files of the folder that
ADVISORIES names, such as the unpacked export of the advisories for PyPI.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from prove.supply.images import images
from prove.supply.locked import ROOT, Locked, locked

KEPT: Final = ROOT / "requirements" / "advisories.json"


def advisories(places: Sequence[Path]) -> Iterator[Mapping[str, Any]]:
    """Yield every advisory in *places*, which are files or folders of files."""
    for place in places:
        for file in sorted(place.rglob("*.json")) if place.is_dir() else [place]:
            found = json.loads(file.read_text())
            yield from found if isinstance(found, list) else [found]


def names(advisory: Mapping[str, Any], package: Locked) -> bool:
    """Return whether *advisory* is in force, and names the version of *package* as vulnerable."""
    if advisory.get("withdrawn"):
        return False
    return any(_affects(each, package) for each in advisory.get("affected", []))


def _affects(affected: Mapping[str, Any], package: Locked) -> bool:
    about = affected.get("package", {})
    if about.get("ecosystem") != "PyPI":
        return False
    if canonicalize_name(about["name"]) != canonicalize_name(package.name):
        return False
    if package.version in affected.get("versions", []):
        return True
    version = Version(package.version)
    return any(
        _is_within(each["events"], version)
        for each in affected.get("ranges", [])
        if each.get("type") == "ECOSYSTEM"
    )


def _is_within(events: Sequence[Mapping[str, str]], version: Version) -> bool:
    """Return whether *version* has the vulnerability that *events* introduce and fix."""
    is_affected = False
    for event in sorted(events, key=_at):
        at = _at(event)
        if "introduced" in event and version >= at:
            is_affected = True
        elif ("fixed" in event and version >= at) or ("last_affected" in event and version > at):
            is_affected = False
    return is_affected


def _at(event: Mapping[str, str]) -> Version:
    (text,) = event.values()
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0")


def main(*more: str) -> int:
    """Print each package of the lock files that a stored security advisory affects.

    Print also the container images that are not pinned by digest. Return 1 if a package is
    affected, otherwise 0.

    more   files of further advisories
    """
    read, packages = list(advisories([KEPT, *map(Path, more)])), locked()
    found = [(each, package) for each in read for package in packages if names(each, package)]
    for advisory, package in found:
        summary = advisory.get("summary") or advisory.get("details", "")
        print(f"{package.name} {package.version}: {advisory['id']} {summary[:100]}")
    print(f"{len(read)} advisories, {len(packages)} packages, {len(found)} affected")
    by_tag = [each for each in images() if each.digest is None]
    for image in by_tag:
        print(f"{image.name}:{image.tag}: pinned by its tag alone, add its digest")
    print(f"{len(images())} images, {len(by_tag)} pinned by tag alone")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
