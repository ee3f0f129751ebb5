"""`make release`: builds HEAD twice, compares, and writes the files to build/release/VERSION.

It builds exports of the commit HEAD, so that the release has only files of the repository. The
time of the commit is SOURCE_DATE_EPOCH. The two builds differ in folder, umask, time zone and the
seed of hashes; their files must have the same bytes.
"""

import gzip
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Final

from mintscope import __version__
from prove.supply.locked import ROOT
from prove.supply.sbom import bill

TARGET: Final = ROOT / "build" / "release"
# Files that `make` generates: no commit has them, but the wheel and the sdist do.
GENERATED: Final = (
    "src/mintscope/site/static/lightweight-charts.js",
    "src/mintscope/api/discovery/javascript/*",
    "src/mintscope/solana/yellowstone/*_pb2.py*",
)
PROJECTS: Final = {
    ".": ("wheel", "sdist"),
    "packages/client": ("wheel",),
    "packages/devchain": ("wheel",),
}
FOR_THE_BUILDER: Final = ("deploy/Containerfile", "deploy/Containerfile.dockerignore")
GIT: Final = which("git") or "git"
BUILD_S_MAX: Final = 120.0


@dataclass(frozen=True, slots=True)
class Source:
    """A commit to release.

    commit    the hash of the commit, 40 hexadecimal digits
    time      the time of the commit, Unix seconds: SOURCE_DATE_EPOCH
    """

    commit: str
    time: int


@dataclass(frozen=True, slots=True)
class Place:
    """The folder and the environment of a build, which must not affect its bytes."""

    folder: str
    umask: int
    zone: str
    seed: str


PLACES: Final = (
    Place("first", 0o022, "UTC", "1"),
    Place("another-folder", 0o077, "Asia/Kolkata", "2"),
)


def git(*words: str) -> bytes:
    """Return the output of a git command in the repository."""
    return subprocess.run(
        [GIT, *words], cwd=ROOT, check=True, capture_output=True, timeout=BUILD_S_MAX
    ).stdout


def head() -> Source:
    """Return the commit that HEAD names, and its time."""
    commit, time = git("log", "-1", "--format=%H %ct").decode().split()
    return Source(commit, int(time))


def notes(changelog: str, version: str) -> str:
    """Return the section of *version* in *changelog*.  Raises ValueError if it is missing."""
    found = re.search(
        rf"^## {re.escape(version)}\b.*?(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL
    )
    if found is None:
        raise ValueError(f"expected a section `## {version}` in CHANGELOG.md; there was none")
    return found[0].rstrip() + "\n"


def build(source: Source, place: Place, scratch: Path) -> dict[str, bytes]:
    """Build a release in *place*, a folder of *scratch*; return its files by name.

    Raises subprocess.CalledProcessError if a build fails, ValueError if the changelog lacks the
    version.
    """
    tree = scratch / place.folder
    made = scratch / f"{place.folder}-made"
    export(source, tree)
    for project, kinds in PROJECTS.items():
        targets = [word for kind in kinds for word in ("-t", kind)]
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", *targets, "-d", str(made)],
            cwd=tree / project,
            env=_environment(source, place),
            umask=place.umask,
            check=True,
            capture_output=True,
            timeout=BUILD_S_MAX,
        )
    files = {path.name: path.read_bytes() for path in sorted(made.iterdir())}
    files[f"mintscope-{__version__}-container.tar.gz"] = context(source, tree)
    files[f"mintscope-{__version__}.cdx.json"] = (json.dumps(bill(), indent=1) + "\n").encode()
    files["RELEASE_NOTES.md"] = notes((tree / "CHANGELOG.md").read_text(), __version__).encode()
    files["SHA256SUMS"] = checksums(files)
    return files


def _environment(source: Source, place: Place) -> dict[str, str]:
    return {
        "PATH": os.defpath,
        "SOURCE_COMMIT": source.commit,
        "SOURCE_DATE_EPOCH": str(source.time),
        "TZ": place.zone,
        "PYTHONHASHSEED": place.seed,
    }


def export(source: Source, tree: Path) -> None:
    """Write the files of the commit into the new folder *tree*, with the generated code.

    Raises FileNotFoundError if `make` has not generated this code yet.
    """
    with tarfile.open(fileobj=io.BytesIO(git("archive", source.commit))) as archive:
        for entry in archive:
            archive.extract(entry, tree)
    copy_generated(tree)


def copy_generated(tree: Path) -> list[Path]:
    """Copy the files that `make generated` created into *tree*; return the paths of the copies.

    Raises FileNotFoundError if one of these files does not exist yet.
    """
    names = []
    for pattern in GENERATED:
        made = sorted(path.relative_to(ROOT) for path in ROOT.glob(pattern))
        if not made:
            raise FileNotFoundError(f"expected {pattern}: run `make generated`")
        for name in made:
            (tree / name).parent.mkdir(exist_ok=True)
            (tree / name).write_bytes((ROOT / name).read_bytes())
        names += made
    return names


def context(source: Source, tree: Path) -> bytes:
    """Return the build context of the image as a .tar.gz, for `docker build`.

    It has the files of the commit that deploy/Containerfile.dockerignore does not exclude.
    """
    rules = (tree / FOR_THE_BUILDER[1]).read_text().splitlines()
    sent = [rule.removeprefix("!") for rule in rules if rule.startswith("!")]
    listed = git("ls-tree", "-r", "--name-only", source.commit).decode().splitlines()
    names = {
        name
        for name in listed
        for rule in sent
        if fnmatch(name, rule) or name.startswith(f"{rule}/")
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted({*names, *FOR_THE_BUILDER}):
            entry = archive.gettarinfo(tree / name, f"mintscope-{__version__}/{name}")
            entry.mtime, entry.uid, entry.gid = source.time, 0, 0
            entry.uname = entry.gname = ""
            entry.mode = 0o755 if entry.mode & 0o100 else 0o644
            archive.addfile(
                entry, io.BytesIO((tree / name).read_bytes()) if entry.isreg() else None
            )
    return gzip.compress(packed.getvalue(), mtime=0)


def checksums(files: Mapping[str, bytes]) -> bytes:
    """Return one line for each file, in the format of `sha256sum --check`."""
    lines = [f"{sha256(files[name]).hexdigest()}  {name}\n" for name in sorted(files)]
    return "".join(lines).encode()


def differences(first: Mapping[str, bytes], second: Mapping[str, bytes]) -> list[str]:
    """Return the sorted names of the files that differ between two builds, or are in one only."""
    return sorted(name for name in {*first, *second} if first.get(name) != second.get(name))


def main() -> int:
    """Build HEAD twice, compare, and write the files; return 1 if the builds differ."""
    source = head()
    if git("status", "--porcelain"):
        print("uncommitted changes are not in this release", file=sys.stderr)
    with TemporaryDirectory() as scratch:
        first, second = (build(source, place, Path(scratch)) for place in PLACES)
    differing = differences(first, second)
    if differing:
        print(f"two builds of {source.commit} differ: {', '.join(differing)}", file=sys.stderr)
        return 1
    folder = TARGET / __version__
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.iterdir():
        stale.unlink()
    for name, content in first.items():
        (folder / name).write_bytes(content)
        print(f"{len(content):>10,}  {(folder / name).relative_to(ROOT)}")
    print(f"mintscope {__version__} ({source.commit}): two builds gave the same bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
