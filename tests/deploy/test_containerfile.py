"""The Containerfile copies existing files and installs pinned packages; its user is not root."""

import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from zipfile import ZipFile

import pytest
from deployed import expect_command, services, variables
from prove.supply.release import copy_generated

from mintscope.app.config.config import ApiConfig, MetricsConfig
from mintscope.app.stores.folder import MARKET_FILE
from support.deployment import DEPLOY, ROOT


def instructions(containerfile: Path) -> Iterator[tuple[str, str]]:
    """Yield each instruction of a Containerfile and its arguments, with continued lines joined."""
    text = re.sub(r"^#.*\n", "", containerfile.read_text(), flags=re.MULTILINE)
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            yield name, re.sub(r"\s+", " ", rest)


FILE = DEPLOY / "Containerfile"
LINES = list(instructions(FILE))
FINAL = LINES[[number for number, (name, _) in enumerate(LINES) if name == "FROM"][-1] :]


def is_sent(path: Path) -> bool:
    """Return whether *path* is in the build context: the last matching line of `rules` decides."""
    is_kept = True
    names = [str(each) for each in (path, *path.parents)][:-1]
    for rule in rules():
        pattern = rule.removeprefix("!")
        if any(fits(name, pattern) for name in names):
            is_kept = rule.startswith("!")
    return is_kept


def fits(name: str, pattern: str) -> bool:
    """Return whether *pattern* matches *name*: `*` within one part, `**/` for any leading parts."""
    if pattern.startswith("**/"):
        parts = name.split("/")
        return any(fits("/".join(parts[at:]), pattern[3:]) for at in range(len(parts)))
    parts, wanted = name.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))


@cache
def rules() -> list[str]:
    """Return the lines of Containerfile.dockerignore, except comments and empty lines."""
    lines = (DEPLOY / "Containerfile.dockerignore").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def all_of(name: str) -> list[str]:
    return [rest for each, rest in LINES if each == name]


def environment() -> dict[str, str]:
    words = " ".join(rest for name, rest in FINAL if name == "ENV").split()
    return dict(word.split("=", 1) for word in words)


@cache
def copied() -> list[str]:
    """Return the paths that the Containerfile copies from the checkout, not from another stage."""
    words = [rest.split() for rest in all_of("COPY") if not rest.startswith("--from")]
    return [source.rstrip("/") for each in words for source in each[:-1]]


@pytest.mark.process
def test_hadolint_finds_no_fault() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    ran = subprocess.run([linter, FILE], capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stdout


def test_every_copied_source_exists_and_is_sent_to_the_builder() -> None:
    kept = [rule.removeprefix("!") for rule in rules() if rule.startswith("!")]
    assert len(copied()) >= 4
    for source in copied():
        assert (ROOT / source).exists(), source
        assert [line for line in kept if line == source or line.startswith(f"{source}/")], source


@pytest.mark.process
def test_each_link_leads_to_a_file_that_is_copied(tmp_path: Path) -> None:
    """The files are copied as in a build, which fails at a broken link."""
    laid_out = lay_out(tmp_path)
    links = [path for path in laid_out if (tmp_path / path).is_symlink()]

    assert {"CHANGELOG.md"} <= {link.name for link in links}
    for link in links:
        target = (tmp_path / link).resolve()
        assert target.exists(), link
        assert target.is_relative_to(tmp_path), link


@pytest.mark.process
def test_each_file_of_the_package_is_copied(tmp_path: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "src", "packages/client", "requirements"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    missing = {Path(name) for name in listed} - lay_out(tmp_path)

    assert len(listed) > 500
    assert {path for path in missing if path.suffix != ".in"} == {
        Path("requirements/advisories.json")
    }


@pytest.mark.process
def test_both_wheels_can_be_built_from_the_context_and_are_complete(tmp_path: Path) -> None:
    """Build the wheels, as the Containerfile does, from files of the context and generated code."""
    context = tmp_path / "context"
    trees = (Path("src"), Path("packages/client/src"))
    listed = {
        path.relative_to(tree)
        for path in [*lay_out(context), *copy_generated(context)]
        for tree in trees
        if path.is_relative_to(tree)
    }
    found: set[str] = set()
    for project in (context, context / "packages" / "client"):
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
            cwd=project,
            env={**os.environ, "SOURCE_COMMIT": "c0ffee" * 6 + "c0ff"},  # noqa: TID251 - handed on
            check=True,
            capture_output=True,
        )
    for wheel in tmp_path.glob("*.whl"):
        with ZipFile(wheel) as archive:
            found |= {name for name in archive.namelist() if ".dist-info/" not in name}
    assets = Path("mintscope/site/assets")
    expected = {str(path) for path in listed if not path.is_relative_to(assets)}

    assert len(list(tmp_path.glob("*.whl"))) == 2
    assert expected - found == set()
    assert found - expected == {"mintscope/app/running/commit.txt"}


def lay_out(folder: Path) -> set[Path]:
    """Copy to *folder* the files that the build copies from its context; return their paths."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    found = set()
    for name in filter(None, listed):
        path = Path(name)
        if is_sent(path) and any(path.is_relative_to(source) for source in copied()):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, folder / path, follow_symlinks=False)
            found.add(path)
    return found


def test_git_data_deploy_files_and_keys_are_not_sent_to_the_builder() -> None:
    first, *others = rules()

    assert first == "*"
    for name in (".git", "mintscope-data", MARKET_FILE, ".venv", "deploy", "fee-payer.json"):
        assert not [rule for rule in others if fnmatch.fnmatch(name, rule.removeprefix("!"))]


def test_all_installed_packages_are_pinned_by_hashes() -> None:
    runs = " && ".join(all_of("RUN"))
    installs = [part for part in re.split(r"&&|;", runs) if re.search(r"\bpip\b.* install\b", part)]

    assert len(installs) == 3
    for install in installs:
        if "--requirement" in install or " -r " in install:
            assert "--require-hashes" in install
            assert "--only-binary :all:" in install
        else:
            assert "--no-deps" in install, install
            assert install.split()[-1] == "dist/*.whl", "the wheel it has just built"
    for file in re.findall(r"-r (\S+)", runs):
        assert " --hash=sha256:" in (ROOT / file).read_text(), file


def test_extras_that_replicas_need_are_installed() -> None:
    runs = " ".join(all_of("RUN"))
    assert {"run", "geyser", "postgres"} <= set(re.findall(r"requirements/(\w+)", runs))


def test_the_python_of_the_image_is_a_version_that_mintscope_supports() -> None:
    assert {rest.partition(" AS ")[0] for rest in all_of("FROM")} == {"${PYTHON}"}
    (image,) = (rest[7:].partition("@")[0] for rest in all_of("ARG") if rest.startswith("PYTHON="))
    (minor,) = re.fullmatch(r"docker\.io/library/python:3\.(\d+)-slim", image).groups()  # type: ignore[union-attr]
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    low, high = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", wanted).groups()  # type: ignore[union-attr]

    assert int(low) <= int(minor) < int(high)


def test_the_image_does_not_run_as_root() -> None:
    (user,) = [rest for name, rest in FINAL if name == "USER"]
    (tmpfs,) = [each for each in services()["api-1"]["tmpfs"] if "mintscope" in each]

    assert user == "10001:10001"
    assert f"--uid {user.split(':')[0]} " in " ".join(all_of("RUN"))
    assert tmpfs == f"{environment()['MINTSCOPE_DATA_DIR']}:mode=0700,uid=10001,gid=10001"


def test_each_variable_is_a_setting() -> None:
    named = {name for name in environment() if name.startswith("MINTSCOPE_")}

    assert named <= variables()
    assert not [name for name in environment() if re.search("SECRET|PASSWORD|PEPPER|KEY", name)]


def test_machine_code_is_compiled_into_the_volume_of_the_services() -> None:
    (place,) = set(re.findall(r"NUMBA_CACHE_DIR=(\S+)", " ".join(all_of("ENV"))))
    (volume,) = services()["api-1"]["volumes"]

    assert volume.partition(":")[2] == place
    assert any(rest.endswith(f"{place} {place}") for rest in all_of("COPY"))


def test_the_image_runs_a_valid_command_and_probes_its_own_port() -> None:
    (probe,) = [rest for name, rest in FINAL if name == "HEALTHCHECK"]
    (command,) = [rest for name, rest in FINAL if name == "CMD"]
    ports = {ApiConfig().port, MetricsConfig().ingest_port, MetricsConfig().api_port}

    expect_command([command.strip('[]"')])
    assert f"http://127.0.0.1:{ApiConfig().port}/healthz" in probe
    assert {int(port) for port in all_of("EXPOSE")[0].split()} == ports
