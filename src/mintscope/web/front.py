"""What happens to every request: an id, a session, the checks of forms, a page, a count."""

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Final
from urllib.parse import urlencode

import structlog
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Receive, Scope, Send

from mintscope.accounts.people import Browser, PeopleDesk
from mintscope.accounts.session import Session
from mintscope.clock import Clock
from mintscope.errors import NotFound, RateLimited
from mintscope.observe import REQUESTS
from mintscope.web.answer import Answer, Wording
from mintscope.web.failures import FAILURES, failure_headers, failure_page
from mintscope.web.files import StaticFiles
from mintscope.web.form import ClientGone, Form, parse_form, read_form
from mintscope.web.origin import OwnOrigins, expect_csrf
from mintscope.web.render import Setting
from mintscope.web.reply import COOKIE, END_SESSION, Goto, Reply
from mintscope.web.routes import Access, Match, Table
from mintscope.web.visit import Visit

Turnstile = Callable[[str], Awaitable[int | None]]
"""Counts one form of a client; the seconds to wait when there were too many."""

UNROUTED: Final = "unrouted"
STATIC: Final = "/static/"
AGENT_LENGTH_MAX: Final = 200
COOKIE_LENGTH: Final = 43
CLIENT_GONE_STATUS: Final = 499  # in the metrics only; nobody received it

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """The ASGI application: every answer of the pages leaves through here.

    client     who a request comes from, for limits: an address or a network
    turnstile  how many forms a client may send
    """

    table: Table
    people: PeopleDesk
    wording: Wording
    files: StaticFiles
    origins: OwnOrigins
    clock: Clock
    client: Callable[[Scope], str]
    turnstile: Turnstile

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whatever happens inside."""
        assert scope["type"] == "http"
        began_s = perf_counter()
        request = _Request(scope, receive)
        try:
            answer = await self._answer(request)
        except ClientGone:
            REQUESTS.count(request.route, CLIENT_GONE_STATUS, perf_counter() - began_s)
            return
        await answer.send(send, request_id=request.request_id, is_head=scope["method"] == "HEAD")
        REQUESTS.count(request.route, answer.status, perf_counter() - began_s)

    async def _answer(self, request: "_Request") -> Answer:
        try:
            if request.path.startswith(STATIC):
                request.route = STATIC
                return self.files.answer(request.method, request.path, request.query_text)
            return self._worded(request, await self._reply(request))
        except ClientGone:
            raise
        except Exception as error:
            if type(error) not in FAILURES:
                log.exception("request failed", request_id=request.request_id)
            page = failure_page(error, request_id=request.request_id)
            answer = self._worded(request, page)
            answer.headers += failure_headers(error)
            return answer

    async def _reply(self, request: "_Request") -> Reply:
        match = self.table.find(request.method, request.path)
        request.route = match.route.path
        query = parse_form(request.scope["query_string"])
        request.notice = query.text("notice")
        is_form = request.method == "POST"
        client = self.client(request.scope)
        if is_form:
            self.origins.expect(request.headers.getlist("origin"))
            await self._pass_turnstile(client)
        cookie = request.cookie()
        request.session = await self.people.session(cookie) if cookie else None
        refusal = self._refusal(match, request)
        if refusal is not None:
            return refusal
        form = await self._form(request, match) if is_form else Form()
        agent = request.headers.get("user-agent", "")[:AGENT_LENGTH_MAX]
        return await match.route.handler(
            Visit(
                path=request.path,
                now=self.clock.now(),
                browser=Browser(address=client, agent=agent),
                session=request.session,
                parameters=match.parameters,
                query=query,
                form=form,
            )
        )

    async def _pass_turnstile(self, client: str) -> None:
        retry_after_s = await self.turnstile(client)
        if retry_after_s is not None:
            raise RateLimited(retry_after_s)

    def _refusal(self, match: Match, request: "_Request") -> Goto | None:
        """Return where to go first, if the session does not suffice."""
        access = match.route.access
        if access is Access.ANYONE:
            return None
        session = request.session
        if session is None:
            cookie = END_SESSION if request.cookie() else None
            return Goto(self._detour("/sign-in", request.path), cookie=cookie)
        if match.route.is_administration and not session.user.is_administrator:
            raise NotFound
        if access is Access.FRESH and not session.is_fresh(self.clock.now()):
            return Goto(self._detour("/prove", request.path))
        return None

    def _detour(self, page: str, path: str) -> str:
        """Return the address of *page*, from which one comes back to *path* if it is a page."""
        return f"{page}?{urlencode({'next': path})}" if self.table.has_page(path) else page

    async def _form(self, request: "_Request", match: Match) -> Form:
        form = await read_form(request.headers.get("content-type", ""), request.receive)
        if match.route.access is not Access.ANYONE:
            assert request.session is not None
            expect_csrf(request.session, form)
        return form

    def _worded(self, request: "_Request", reply: Reply) -> Answer:
        setting = Setting(session=request.session, path=request.path, notice=request.notice)
        answer = self.wording.answer(reply, setting)
        if "hx-request" in request.headers:
            answer.for_htmx(reply)
        return answer


class _Request:
    """A request's head, and what is learned of it on the way."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.receive = receive
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers = Headers(scope=scope)
        self.request_id = secrets.token_hex(8)
        self.route = UNROUTED
        self.session: Session | None = None
        self.notice = ""

    @property
    def query_text(self) -> str:
        text: bytes = self.scope["query_string"]
        return text.decode("latin-1")

    def cookie(self) -> str | None:
        """Return the session's cookie, if there is one that could be."""
        found = [
            value
            for header in self.headers.getlist("cookie")
            for name, value in cookie_parser(header).items()
            if name == COOKIE
        ]
        return found[0] if len(found) == 1 and len(found[0]) == COOKIE_LENGTH else None
