"""The static files: few, small, in memory, and kept by browsers until they change."""

from functools import cache
from importlib.resources import files
from typing import Final

from mintscope.base.errors import NotFound
from mintscope.edges.server.content import LEVEL_OF_FILES, compress, etag_of, version_of
from mintscope.edges.server.request import Request
from mintscope.edges.server.response import Header, Response
from mintscope.edges.server.routes import Route
from mintscope.edges.web.pages.render import YEAR_S

FOREVER: Final[Header] = (b"cache-control", b"public, max-age=%d, immutable" % YEAR_S)
REVALIDATED: Final[Header] = (b"cache-control", b"no-cache")
GUARDS: Final[tuple[Header, ...]] = (
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
CONTENT_TYPES: Final = {
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
    "txt": b"text/plain; charset=utf-8",
}
ICON: Final = "icon.svg"
# Directories show it on their own pages.
SHOWN_ELSEWHERE: Final[tuple[Header, ...]] = (
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"cross-origin"),
)


class StaticFiles:
    """The files of `web/static`, by name."""

    def __init__(self) -> None:
        folder = files("mintscope.edges.web") / "static"
        self._bodies = {file.name: file.read_bytes() for file in folder.iterdir()}
        self._versions = {name: version_of(body) for name, body in self._bodies.items()}
        self._etags = {name: etag_of(body) for name, body in self._bodies.items()}
        self._gzipped = {
            name: compress(body, LEVEL_OF_FILES) for name, body in self._bodies.items()
        }

    def routes(self) -> list[Route]:
        """Return the routes of the files, and of the icon where browsers look by themselves."""
        return [
            Route("GET", "/static/{file}", self.get),
            Route("GET", "/favicon.ico", self.get_icon),
        ]

    def __contains__(self, name: str) -> bool:
        """Say whether there is a file *name*."""
        return name in self._bodies

    def address(self, name: str) -> str:
        """Return where pages find *name*: another address for other content."""
        return f"/static/{name}?v={self._versions[name]}"

    async def get(self, request: Request) -> Response:
        """Return a file; kept for ever if the query names the content it has.

        Raises    NotFound
        """
        name = request.path_params["file"]
        if name not in self._bodies:
            raise NotFound
        is_current = request.query == f"v={self._versions[name]}".encode()
        return self._response(name, FOREVER if is_current else REVALIDATED)

    async def get_icon(self, _request: Request) -> Response:
        """Return the icon."""
        return self._response(ICON, REVALIDATED, SHOWN_ELSEWHERE)

    def _response(
        self, name: str, caching: Header, guards: tuple[Header, ...] = GUARDS
    ) -> Response:
        content_type = (b"content-type", CONTENT_TYPES[name.rpartition(".")[2]])
        return Response(
            200,
            self._bodies[name],
            (content_type, caching, *guards),
            etag=self._etags[name],
            gzipped=self._gzipped[name],
        )


@cache
def static_files() -> StaticFiles:
    """Return the files, read and compressed once a process."""
    return StaticFiles()
