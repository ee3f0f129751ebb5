"""Serves modules of npm packages to a browser without a bundler, with an import map.

Source    https://html.spec.whatwg.org/#import-maps; Node's `exports` and their conditions
"""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

CONDITIONS: Final = {"browser", "import", "module", "default"}
PAGE: Final = """<!doctype html><meta charset="utf-8"><title>Another origin</title>
<script>globalThis.process = {{ env: {{ NODE_ENV: "production" }} }}; // as bundlers have it
</script>
<script type="importmap">{imports}</script>
<script type="module">{program}</script>
"""


def import_map(packages: Path) -> dict[str, Any]:
    """Return the import map of the packages in *packages*, a folder `node_modules`."""
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
    """Serve a page that runs the module *program* with *packages*; yield its address."""
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
