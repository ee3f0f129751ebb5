"""The TypeScript client has the types that the service describes, and works in Node."""

import asyncio
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mintscope import __version__
from mintscope_client import errors
from support.fakes import reports
from support.processes.listening import listening
from support.scenes.service import Service, running_service
from support.scenes.whole_report import whole_report

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "packages" / "client-ts"
NODE = Path(sys.executable).parent / "node"
OURS = "--skipDefaultLibCheck"  # TypeScript's own libraries are checked by their authors
# So are the types of Node. This leaves out all files of types, so it is for sources only.
SOURCES_ONLY = "--skipLibCheck"
SERIES = ("candles", "indicators", "swaps")

pytestmark = pytest.mark.process


@pytest.fixture
async def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    monkeypatch.setattr(reports, "REPORT", whole_report())
    async with running_service(tmp_path) as service:
        yield service


async def run(folder: Path, *words: str, **environment: str) -> None:
    """Run Node with *words* in *folder*; if it fails, raise AssertionError with its output."""
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


async def test_the_client_has_the_types_of_the_service_and_passes_its_tests(
    service: Service, tmp_path: Path
) -> None:
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
    await run(package, str(tools / "typescript/bin/tsc"), "--noEmit", SOURCES_ONLY)
    async with listening(service.app) as url:
        await run(
            package,
            "--test",
            "tests/*.test.ts",
            MINTSCOPE_URL=url,
            MINTSCOPE_CREDENTIAL=await service.issue(3),
        )


PROGRAM = """
import { Client, type Report } from "mintscope-client";

const report: Report = await new Client(process.argv[2]!, { credential: process.argv[3]! }).token(
  "So11111111111111111111111111111111111111112",
);
const usd: number = report.price.usd;
// @ts-expect-error: there is no such field
report.price.eur;
console.log(usd);
"""


async def test_the_served_package_equals_the_built_sources_and_has_types(
    service: Service, tmp_path: Path
) -> None:
    """A program that uses the installed package passes the type checker."""
    tsc = str(PACKAGE / "node_modules/typescript/bin/tsc")
    served = await service.client.get(f"/client/mintscope-client-{__version__}.tgz")
    with tarfile.open(fileobj=io.BytesIO(served.content)) as archive:
        archive.extractall(tmp_path)
    installed = tmp_path / "node_modules" / "mintscope-client"
    installed.parent.mkdir()
    (tmp_path / "package").rename(installed)
    sources = tmp_path / "client-ts"
    shutil.copytree(PACKAGE, sources, ignore=shutil.ignore_patterns("node_modules"))
    shutil.copy(installed / "dist" / "openapi.d.ts", sources / "src" / "openapi.ts")
    (tmp_path / "node_modules" / "@types").symlink_to(PACKAGE / "node_modules" / "@types")
    (sources / "node_modules").symlink_to(PACKAGE / "node_modules")
    (tmp_path / "program.mts").write_text(PROGRAM)

    built = sources / "built"
    await run(sources, tsc, "--project", "tsconfig.build.json", "--outDir", str(built), OURS)
    words = ("--strict", "--module", "nodenext", "--target", "es2022", "--types", "node")
    await run(tmp_path, tsc, *words, OURS, "program.mts")
    async with listening(service.app) as url:
        await run(tmp_path, "program.mjs", url, await service.issue(1))

    made = {path.name: path.read_text() for path in built.iterdir() if "openapi" not in path.name}
    assert made == {
        path.name: path.read_text()
        for path in (installed / "dist").iterdir()
        if path.name != "openapi.d.ts"
    }, "run `make generated`"
    assert (installed / "README.md").read_text() == (PACKAGE / "README.md").read_text()


def test_the_package_has_no_runtime_dependencies() -> None:
    manifest = json.loads((PACKAGE / "package.json").read_text())

    assert "dependencies" not in manifest
    assert {*manifest["devDependencies"]} == {"@types/node", "openapi-typescript", "typescript"}


# Types name paths, too: paths["/v1/me"].
PATH_IN_TS = re.compile(r'(?<!paths\[)["`](/(?:v1|api)/[^"`\n]*)["`]')
# A picture, demos, the data feed of charts (udf), and the health of the service.
NO_CALLS = {
    "/v1/token/{}/icon.svg", "/v1/demo/token", "/v1/demo/402", "/v1/health", "/healthz", "/readyz",
    "/v1/udf/config", "/v1/udf/time", "/v1/udf/symbols", "/v1/udf/search", "/v1/udf/marks",
    "/v1/udf/history",
}  # fmt: skip


async def test_the_client_has_a_call_of_every_endpoint(service: Service) -> None:
    text = "".join(
        (PACKAGE / "src" / name).read_text() for name in ("client.ts", "account.ts", "stream.ts")
    )
    text = re.sub(r'open\("', '"/api/', text)  # calls without an envelope
    called = {re.sub(r"\$\{[^}]*\}", "{}", found) for found in PATH_IN_TS.findall(text)}
    described = (await service.client.get("/openapi.json")).json()["paths"]
    served = {re.sub(r"\{[^}]*\}", "{}", path) for path in described}
    named = {path.replace("/{}/{}", f"/{{}}/{kind}") for path in called for kind in SERIES}

    assert served - NO_CALLS - named == set()
    assert {path for path in called if "{}/{}" not in path} - served - {"/api/{}"} == set()


def test_each_error_code_has_a_class_of_the_same_name_as_in_python() -> None:
    text = (PACKAGE / "src" / "errors.ts").read_text()
    named = dict(re.findall(r'\["([A-Z_]+)", (\w+)\]', text))
    ours = {
        str(code): kind.__name__
        for group in errors.RefusedError.__subclasses__()
        for kind in group.__subclasses__()
        for code in kind.codes
    }

    assert named == ours
    for name in named.values():
        assert f"export class {name} extends" in text
