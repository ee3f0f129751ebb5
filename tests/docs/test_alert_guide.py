"""The webhook receivers of the guide accept requests that the service has signed, and no others.

The receivers import a replacement for the library `standardwebhooks`, written from the text of
Standard Webhooks alone; its names and parameters are those of the library.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from mintscope.alerts.alert import FiringId
from mintscope.alerts.deliveries import secret_text, signed
from mintscope.alerts.webhooks import NotAccepted, WebhookPost
from mintscope.kit.clock import SystemClock
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import MINUTE_MS
from mintscope.site.programs import TEXTS
from support.processes.servers import free_port

ROOT: Final = Path(__file__).resolve().parents[2]
NODE: Final = Path(sys.executable).parent / "node"
SECRET: Final = bytes(range(32))
OTHER: Final = bytes(32)
READY_S: Final = 30.0
BODY: Final = b'{"type":"signal.fired","data":{"field":"price.usd","direction":"up","value":1.5}}'
PYTHON: Final = """
import time
from support.oracles.standard_webhooks import verified

class WebhookVerificationError(Exception):
    pass

class Webhook:
    def __init__(self, secret):
        self.secret = secret
    def verify(self, data, headers):
        lower = {name.lower(): value for name, value in headers.items()}
        try:
            return verified(self.secret, lower, data, now_s=time.time())
        except AssertionError:
            raise WebhookVerificationError
"""
TYPESCRIPT: Final = """
import { createHmac } from "node:crypto";
export class Webhook {
  constructor(secret) { this.key = Buffer.from(secret.slice("whsec_".length), "base64"); }
  verify(body, headers) {
    const sentAt = headers["webhook-timestamp"];
    if (Math.abs(Date.now() / 1000 - Number(sentAt)) > 300) throw new Error("too old");
    const text = `${headers["webhook-id"]}.${sentAt}.${body}`;
    const expected = createHmac("sha256", this.key).update(text).digest("base64");
    const offered = headers["webhook-signature"].split(" ");
    if (!offered.includes(`v1,${expected}`)) throw new Error("no such signature");
    return JSON.parse(body);
  }
}
"""

pytestmark = [pytest.mark.process]


def written(language: str, folder: Path) -> tuple[Sequence[str], Path]:
    """Write the guide's receiver in *language*, and the library that it imports, to *folder*.

    Returns the receiver's command and its import path.
    """
    if language == "python":
        (folder / "standardwebhooks.py").write_text(PYTHON)
        (folder / "hook.py").write_text(TEXTS.guides["alerts"]["hook_python"])
        return [sys.executable, "hook.py"], ROOT / "tests"
    package = folder / "node_modules" / "standardwebhooks"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"type": "module", "exports": "./index.js"}')
    (package / "index.js").write_text(TYPESCRIPT)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "hook.ts").write_text(TEXTS.guides["alerts"]["hook_typescript"])
    return [str(NODE), "hook.ts"], folder


async def until_it_listens(port: int) -> None:
    async with asyncio.timeout(READY_S):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


@pytest.mark.parametrize("language", ["python", "ts"])
async def test_a_receiver_accepts_only_requests_with_a_valid_signature(
    language: str, tmp_path: Path
) -> None:
    words, path = written(language, tmp_path)
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=tmp_path,
        env={
            "PATH": os.defpath,
            "PORT": str(port),
            "PYTHONPATH": str(path),
            "MINTSCOPE_WEBHOOK_SECRET": secret_text(SECRET),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    post, now = WebhookPost(timeout_s=10, allows_loopback=True), SystemClock().now()
    url = f"http://127.0.0.1:{port}/"
    try:
        await until_it_listens(port)
        await post.send(url, signed(FiringId(1), now, BODY, [SECRET]), BODY)
        await post.send(url, signed(FiringId(2), now, BODY, [OTHER, SECRET]), BODY)
        old = UnixMs(now - 10 * MINUTE_MS)
        for headers, body in (
            (signed(FiringId(3), now, BODY, [OTHER]), BODY),
            (signed(FiringId(4), old, BODY, [SECRET]), BODY),
            (signed(FiringId(5), now, BODY, [SECRET]), BODY + b" "),
        ):
            with pytest.raises(NotAccepted, match="was 400"):
                await post.send(url, headers, body)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        printed, _ = await process.communicate()
    assert printed.decode().splitlines() == [f"msg_{n} price.usd up 1.5" for n in (1, 2)]


def test_the_page_about_the_api_has_the_same_receivers() -> None:
    page = (ROOT / "docs" / "api" / "alerts.md").read_text()
    for language, text in (
        ("python", TEXTS.guides["alerts"]["hook_python"]),
        ("ts", TEXTS.guides["alerts"]["hook_typescript"]),
    ):
        assert f"```{language}\n{text}\n```" in page


def test_node_is_installed() -> None:
    assert shutil.which(str(NODE))
