"""The TypeScript client: its types are those that the service describes, and it works in Node."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.fakes import reports
from support.processes.listening import listening
from support.scenes.service import Service, running_service
from support.scenes.whole_report import whole_report

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "packages" / "client-ts"
NODE = Path(sys.executable).parent / "node"

pytestmark = pytest.mark.process


@pytest.fixture
async def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    monkeypatch.setattr(reports, "REPORT", whole_report())
    async with running_service(tmp_path) as service:
        yield service


async def run(folder: Path, *words: str, **environment: str) -> None:
    """Run the Node of the tests in *folder*; its output is what a failure says."""
    running = await asyncio.create_subprocess_exec(
        str(NODE),
        *words,
        cwd=folder,
        env={"PATH": os.defpath} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(running.communicate(), 100)
    assert running.returncode == 0, output.decode()


async def test_it_is_typed_by_the_service_and_works_at_it(service: Service, tmp_path: Path) -> None:
    package = tmp_path / "package"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("node_modules", "dist"))
    (package / "node_modules").symlink_to(PACKAGE / "node_modules")
    (package / "openapi.json").write_text((await service.client.get("/openapi.json")).text)
    tools = package / "node_modules"

    await run(
        package,
        str(tools / "openapi-typescript/bin/cli.js"),
        "openapi.json",
        "-o",
        "src/openapi.ts",
    )
    await run(package, str(tools / "typescript/bin/tsc"), "--noEmit")
    async with listening(service.app) as url:
        await run(
            package,
            "--test",
            "tests/*.test.ts",
            MINTSCOPE_URL=url,
            MINTSCOPE_CREDENTIAL=await service.issue(3),
        )


def test_what_is_built_needs_nothing() -> None:
    manifest = json.loads((PACKAGE / "package.json").read_text())

    assert "dependencies" not in manifest
    assert {*manifest["devDependencies"]} == {"@types/node", "openapi-typescript", "typescript"}
