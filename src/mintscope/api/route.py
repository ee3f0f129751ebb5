"""A row of the route table: one method, one exact path, one handler."""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from mintscope.api.call import Call, Reply
from mintscope.errors import MethodNotAllowed

Handler = Callable[[Call], Awaitable[Reply]]


class Exact(Route):
    """A Starlette route that takes its path literally and its one method only.

    Starlette's own would let a trailing newline pass and answer HEAD wherever
    it answers GET, which would run a paid handler unpaid.  A path may end in
    one variable segment.
    """

    def __init__(self, method: str, path: str, handler: Handler) -> None:
        super().__init__(path, Endpoint(handler), methods=[method])
        self.methods = {method}
        self._fixed, brace, _ = path.partition("{")
        self._ends_in_parameter = bool(brace)

    @override
    def matches(self, scope: Scope) -> tuple[Match, dict[str, Any]]:
        """Compare the path character by character."""
        path = scope["path"]
        child: dict[str, Any] = {}
        if self._ends_in_parameter:
            parameter = path[len(self._fixed) :]
            if not path.startswith(self._fixed) or not parameter or "/" in parameter:
                return Match.NONE, child
            child["path_parameter"] = parameter
        elif path != self.path:
            return Match.NONE, child
        assert self.methods
        return Match.FULL if scope["method"] in self.methods else Match.PARTIAL, child

    @override
    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or raise MethodNotAllowed."""
        assert self.methods
        if scope["method"] not in self.methods:
            raise MethodNotAllowed(allowed=", ".join(sorted(self.methods)))
        await self.app(scope, receive, send)


class Endpoint:
    """A handler as an ASGI application."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Send what the handler replies."""
        call: Call = scope["call"]
        await call.answer(send, await self._handler(call))
