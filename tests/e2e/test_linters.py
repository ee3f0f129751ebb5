"""Unmodified third-party linters find no error in the descriptions that the service serves.

Redocly and `@agentcash/discovery` are in `test_directories.py`.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from mintscope.api.discovery.operation import EVENTS_TYPE, Operation
from mintscope.api.discovery.surfaces import example_target
from mintscope.kit.http.application import HttpApplication
from mintscope.mcp.tools import TOOLS
from support.fakes import reports
from support.processes.listening import listening
from support.processes.servers import await_port, free_port
from support.scenes.mcp_service import mcp_beside
from support.scenes.payments.selling_api import SellingApi
from support.scenes.people.agent import Agent
from support.scenes.service import bearer
from support.scenes.whole_report import whole_report

TOOLS_OF_NODE: Final = Path(__file__).resolve().parents[1] / "browser" / "node_modules"
BIN: Final = Path(sys.executable).parent
LISTING: Final = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
READS: Final = {"Accept": "application/json, text/event-stream"}
ERROR: Final = 0  # of the severities of spectral


async def said(*words: str, folder: Path) -> tuple[int | None, str]:
    """Run a program in *folder*; return its exit code and its output."""
    running = await asyncio.create_subprocess_exec(
        *words,
        cwd=folder,
        env={"PATH": os.defpath, "HOME": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(running.communicate(), 100)
    return running.returncode, output.decode()


@pytest.fixture(autouse=True)
def full_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "REPORT", whole_report())


@pytest.fixture
async def description(shop: SellingApi, tmp_path: Path) -> Path:
    """Return the folder with the openapi.json that the service serves."""
    (tmp_path / "openapi.json").write_bytes((await shop.client.get("/openapi.json")).content)
    return tmp_path


async def spectral(folder: Path) -> list[dict[str, Any]]:
    """Return the errors of openapi.json in *folder*, by the rules that come with spectral."""
    (folder / ".spectral.yaml").write_text('extends: ["spectral:oas"]\n')
    program = str(TOOLS_OF_NODE / "@stoplight" / "spectral-cli" / "dist" / "index.js")
    words = ("lint", "openapi.json", "--format", "json", "--quiet")
    _, text = await said(str(BIN / "node"), program, *words, folder=folder)
    return [each for each in json.loads(text) if each["severity"] == ERROR]


async def test_spectral_finds_only_the_error_that_the_test_inserts(description: Path) -> None:
    document = json.loads((description / "openapi.json").read_text())
    paths = document["paths"]
    paths["/healthz"]["get"]["operationId"] = paths["/readyz"]["get"]["operationId"]
    (description / "openapi.json").write_text(json.dumps(document))

    found = await spectral(description)
    assert [each["code"] for each in found] == ["operation-operationId-unique"], found


async def test_tdqs_finds_no_error_in_the_tools(shop: SellingApi, tmp_path: Path) -> None:
    async with mcp_beside(shop.service.app, shop.world.clock) as app:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
            reported = (await http.post("/mcp", json=LISTING, headers=READS)).text
    listed = json.loads(reported[reported.index("{") :].splitlines()[0])["result"]
    (tmp_path / "tools.json").write_text(json.dumps(listed))
    code, text = await said(str(BIN / "tdqs"), "lint", "--file", "tools.json", folder=tmp_path)

    assert len(listed["tools"]) == len(TOOLS)
    assert code == 0, text
    listed["tools"][0]["description"] = ""
    (tmp_path / "tools.json").write_text(json.dumps(listed))
    code, _ = await said(str(BIN / "tdqs"), "lint", "--file", "tools.json", folder=tmp_path)
    assert code == 1


@asynccontextmanager
async def prism(folder: Path, upstream: str) -> AsyncIterator[str]:
    """Run the proxy prism in front of *upstream*; yield its address.

    Prism answers 500 if an answer of *upstream* contradicts openapi.json.
    """
    program = str(TOOLS_OF_NODE / "@stoplight" / "prism-cli" / "dist" / "index.js")
    port = free_port()
    words = ("proxy", "openapi.json", upstream, "--port", str(port), "--errors")
    log = folder / "prism.log"
    url = f"http://127.0.0.1:{port}"
    with log.open("wb") as output:
        running = await asyncio.to_thread(
            subprocess.Popen,
            [str(BIN / "node"), program, *words],
            cwd=folder,
            env={"PATH": os.defpath},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        await asyncio.to_thread(await_port, url, running, log)
        yield url
    finally:
        os.killpg(running.pid, signal.SIGTERM)  # `node` is a script that starts another process
        await asyncio.to_thread(running.wait, 10)


async def test_prism_finds_no_answer_that_contradicts_the_description(
    shop: SellingApi, description: Path
) -> None:
    """Each GET operation is called anonymously, with credits, and with an API key."""
    key = await Agent(shop.service).key()
    token = await shop.service.issue(100)
    app = shop.service.app
    assert isinstance(app, HttpApplication)
    reads = [
        each
        for each in app.router
        if isinstance(each, Operation) and each.method == "GET" and each.media_type != EVENTS_TYPE
    ]
    statuses: set[int] = set()
    async with (
        listening(app) as url,
        prism(description, url) as proxy,
        httpx.AsyncClient(timeout=20) as http,
    ):
        for each in reads:
            for credential in (None, token, key):
                headers = {} if credential is None else bearer(credential)
                answer = await http.get(proxy + example_target(each), headers=headers)
                assert "sl-violations" not in answer.headers, (each.path, answer.text)
                statuses.add(answer.status_code)
        refused = await http.get(f"{proxy}/v1/token/nope")

    assert len(reads) > 20
    assert statuses >= {200, 401, 402, 404}
    assert refused.status_code == 422  # prism itself has refused the request
