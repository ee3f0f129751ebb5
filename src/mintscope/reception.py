"""One listener, two applications: programs are sent to the API, people to the pages."""

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

API_PREFIXES: Final = ("/v1/", "/api/")
API_PATHS: Final = frozenset(("/v1", "/api", "/healthz", "/readyz", "/openapi.json"))
NOT_FOUND: Final = 404


class Reception:
    """The ASGI application in front of both.

    What is nowhere is told in the words of whoever asks: a page for those who accept HTML, the
    API's envelope for everybody else.
    """

    def __init__(self, *, api: ASGIApp, pages: ASGIApp) -> None:
        self._api = api
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if is_for_api(scope["path"]):
            await self._api(scope, receive, send)
        elif _accepts_html(scope):
            await self._pages(scope, receive, send)
        else:
            await self._answer_program(scope, receive, send)

    async def _answer_program(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what is at a path of the pages, the envelope if there is nothing."""
        is_missing = False

        async def send_what_is_there(message: Message) -> None:
            nonlocal is_missing
            if message["type"] == "http.response.start":
                is_missing = message["status"] == NOT_FOUND
            if not is_missing:
                await send(message)

        await self._pages(scope, receive, send_what_is_there)
        if is_missing:
            await self._api(scope, receive, send)


def is_for_api(path: str) -> bool:
    """Say whether *path* is one of the API's, answered or not."""
    return path in API_PATHS or path.startswith(API_PREFIXES)


def _accepts_html(scope: Scope) -> bool:
    """Say whether the client is a browser: it accepts HTML, or the page's script asks for parts."""
    return any(
        (name == b"accept" and b"text/html" in value.lower()) or name == b"hx-request"
        for name, value in scope["headers"]
    )
