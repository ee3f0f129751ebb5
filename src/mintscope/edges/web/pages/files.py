"""The static files: few, small, in memory, and kept by browsers until they change."""

from base64 import urlsafe_b64encode
from hashlib import sha256
from importlib.resources import files
from typing import Final

from mintscope.base.errors import MethodNotAllowed, NotFound
from mintscope.edges.web.pages.answer import NO_STORE, YEAR_S, Answer

FOREVER: Final = f"public, max-age={YEAR_S}, immutable"
CONTENT_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}


class StaticFiles:
    """The files of `web/static`, by name."""

    def __init__(self) -> None:
        folder = files("mintscope.edges.web") / "static"
        self._bodies = {file.name: file.read_bytes() for file in folder.iterdir()}
        self._versions = {name: _version(body) for name, body in self._bodies.items()}

    def address(self, name: str) -> str:
        """Return where pages find *name*: another address for other content."""
        return f"/static/{name}?v={self._versions[name]}"

    def answer(self, method: str, path: str, query: bytes) -> Answer:
        """Return the file at *path*; kept for ever if *query* names the content it has.

        Raises    NotFound, MethodNotAllowed
        """
        name = path.removeprefix("/static/")
        body = self._bodies.get(name)
        if body is None:
            raise NotFound
        if method not in {"GET", "HEAD"}:
            raise MethodNotAllowed(allowed="GET, HEAD")
        is_current = query == f"v={self._versions[name]}".encode()
        return Answer(
            status=200,
            body=body,
            content_type=CONTENT_TYPES[name.rpartition(".")[2]],
            cache_control=FOREVER if is_current else NO_STORE,
            headers=[
                ("x-content-type-options", "nosniff"),
                ("cross-origin-resource-policy", "same-origin"),
            ],
        )


def _version(body: bytes) -> str:
    return urlsafe_b64encode(sha256(body).digest()[:9]).decode()
