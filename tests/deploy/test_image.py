"""The image is built by buildah from the files that git knows, and serves as an unprivileged user.

The test needs buildah, root, the base image in buildah's storage, and a registry of packages.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from mintscope import __version__
from support.deployment import DEPLOY, ROOT

# By its tag, because the image in the local storage may have another digest.
FILE: Final = (DEPLOY / "Containerfile").read_text()
BASE: Final = re.findall(r"^ARG PYTHON=([^@\s]+)", FILE, re.MULTILINE)[0]
BUILDAH: Final = shutil.which("buildah")
COMMIT: Final = "c0ffee" * 6 + "c0ff"
SERVES: Final = """
export MINTSCOPE_API__PORT=28402 MINTSCOPE_METRICS__ENABLED=false
mintscope serve & serving=$!
for _ in $(seq 120); do
  sleep 0.5
  python -c "from urllib.request import urlopen as u; u('http://127.0.0.1:28402/healthz')" && break
done 2>/dev/null
python -c "from urllib.request import urlopen as u; print(u('http://127.0.0.1:28402/healthz').status)"
kill $serving; wait $serving; echo ended $?
"""


def buildah(*words: str, cwd: Path = ROOT) -> str:
    """Run buildah with *words*; return its output.

    Raises AssertionError, with its errors, if buildah fails.
    """
    assert BUILDAH is not None
    ran = subprocess.run(
        [BUILDAH, *words], cwd=cwd, capture_output=True, text=True, timeout=1_200, check=False
    )
    assert ran.returncode == 0, ran.stderr[-3_000:]
    return ran.stdout.strip()


def has_base() -> bool:
    if BUILDAH is None or os.getuid() != 0:
        return False
    words = [BUILDAH, "images", "--quiet", BASE]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


pytestmark = [
    pytest.mark.process,
    pytest.mark.storm,
    pytest.mark.timeout(1_800),
]


@pytest.fixture
def container(tmp_path: Path) -> Iterator[str]:
    """Build the image of a checkout without files that git ignores; yield a container of it."""
    if not has_base():
        pytest.skip(f"no image was built: it needs buildah, root and {BASE}")
    context = tmp_path / "context"
    context.mkdir()
    archive = subprocess.run(
        ["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    subprocess.run(["tar", "x"], cwd=context, input=archive, check=True)
    tag = "localhost/mintscope:test"
    buildah(
        *("bud", "--isolation", "chroot", "--pull=never", "--network", "host", "--tag", tag),
        *("--file", "deploy/Containerfile", "--build-arg", f"COMMIT={COMMIT}"),
        *("--build-arg", f"PYTHON={BASE}"),
        *("--ignorefile", "deploy/Containerfile.dockerignore", "."),
        cwd=context,
    )
    name = buildah("from", "--pull-never", tag)
    yield name
    buildah("rm", name)
    buildah("rmi", tag)


def test_the_image_is_built_and_serves(container: str) -> None:
    def run(*words: str) -> str:
        return buildah("run", "--isolation", "chroot", container, "--", *words)

    assert run("mintscope", "--version") == f"mintscope {__version__} ({COMMIT[:12]})"
    assert run("id", "-u") == "10001"
    found = json.loads(run("sh", "-c", "mintscope doctor --json || true"))
    failing = [each["what"] for each in found if each["level"].lower() == "fail"]
    assert [what.partition(":")[0] for what in failing] == ["node"]
    served = run("sh", "-c", SERVES).splitlines()
    assert "200" in served
    assert served[-1] == "ended 0"
