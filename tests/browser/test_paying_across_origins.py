"""A page of another origin pays with the official client, in Chromium."""

import json
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
from playwright.async_api import Browser
from starlette.middleware.cors import CORSMiddleware
from typing_extensions import override

from support.fakes.reports import TRACKED
from support.processes.listening import listening
from support.scenes.payments.payment_world import World, world_at
from support.scenes.payments.shop_at_its_address import shop_at_its_address

CONDITIONS: Final = {"browser", "import", "module", "default"}
PAGE: Final = """<!doctype html><meta charset="utf-8"><title>Another origin</title>
<script>globalThis.process = {{ env: {{ NODE_ENV: "production" }} }}; // as bundlers have it
</script>
<script type="importmap">{imports}</script>
<script type="module">{program}</script>
"""


def import_map(packages: Path) -> dict[str, Any]:
    """Return the import map of the packages in *packages*, a folder `node_modules`.

    Source    https://html.spec.whatwg.org/#import-maps; Node's `exports` and their conditions
    """
    found: dict[str, Any] = {"imports": {}, "scopes": {}}
    for manifest in packages.rglob("package.json"):
        inside = manifest.parent.relative_to(packages)
        outer, _, name = str(inside).rpartition("node_modules/")
        if inside.name != name.split("/")[-1] or len(name.split("/")) != 1 + name.startswith("@"):
            continue  # a package.json in a subfolder of a package
        base = f"/{packages.name}/"
        names = found["imports"] if not outer else found["scopes"].setdefault(base + outer, {})
        for export, file in _exports(json.loads(manifest.read_text())):
            names[name + export.removeprefix(".")] = f"{base}{inside}/{file.removeprefix('./')}"
    return found


def _exports(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    exports = manifest.get("exports") or manifest.get("module") or manifest.get("main")
    if isinstance(exports, str) or (exports and not next(iter(exports)).startswith(".")):
        exports = {".": exports}
    for name, choice in (exports or {}).items():
        file = _chosen(choice)
        if "*" not in name and file is not None:
            yield name, file


def _chosen(choice: Any) -> str | None:
    """Return the file for browsers in *choice*, a value of `exports`; None if there is none."""
    if isinstance(choice, str):
        return choice
    for condition, inner in (choice or {}).items() if isinstance(choice, dict) else ():
        if condition in CONDITIONS and (file := _chosen(inner)) is not None:
            return file
    return None


class _Handler(SimpleHTTPRequestHandler):
    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".mjs": "text/javascript",
        ".js": "text/javascript",
    }
    page = b""

    @override
    def do_GET(self) -> None:
        if self.path != "/":
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(self.page)))
        self.end_headers()
        self.wfile.write(self.page)

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def page_of_modules(packages: Path, program: str) -> Iterator[str]:
    """Serve a page that runs the module *program* with *packages*; yield the page's URL."""
    page = PAGE.format(imports=json.dumps(import_map(packages)), program=program).encode()
    kind = type("Handler", (_Handler,), {"page": page})
    with ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(kind, directory=str(packages.parent))
    ) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


pytestmark = pytest.mark.asyncio(loop_scope="session")

HERE: Final = Path(__file__).resolve().parent
PROGRAM: Final = (HERE / "pay_from_another_origin.js").read_text()
BUNDLE_ATOMS = 25_000
REQUEST_ATOMS = 2_500


@pytest_asyncio.fixture(loop_scope="session")
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with world_at(tmp_path) as world:
        yield world


async def test_the_official_client_pays_in_a_page_of_another_origin(
    chromium: Browser, world: World
) -> None:
    node = CORSMiddleware(world.node, allow_origins=["*"], allow_methods=["*"], allow_headers=["*"])
    async with shop_at_its_address(world) as (origin, _), listening(node) as rpc_url:
        await world.chains[-1].refresh_offer()
        with page_of_modules(HERE / "node_modules", PROGRAM) as other:
            context = await chromium.new_context()
            page = await context.new_page()
            mishaps: list[str] = []
            page.on("pageerror", lambda error: mishaps.append(str(error)))
            page.on("console", lambda message: mishaps.append(message.text))
            await page.goto(other)
            await page.wait_for_function("window.pay !== undefined", timeout=20_000)
            asked = {
                "origin": origin,
                "secret": str(world.buyer),
                "rpcUrl": rpc_url,
                "mint": TRACKED,
            }
            read, bought, lost = await page.evaluate("(asked) => window.pay(asked)", asked)
            await context.close()

    assert other != origin
    assert (read["status"], bought["status"], lost["status"]) == (200, 201, 400), mishaps
    assert read["body"]["data"]["token"] == TRACKED
    assert bought["body"]["data"]["token"].startswith("svc_credit_")
    assert None not in {read["receipt"], bought["receipt"]}
    assert lost["body"]["error"]["code"] == "INVALID_TOKEN_ADDRESS"
    assert world.received() == BUNDLE_ATOMS + REQUEST_ATOMS
