"""What happens to every request: an id, a session, the checks of forms, a page, a count."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Final
from urllib.parse import urlencode

import structlog
from starlette.types import Receive, Scope, Send

from mintscope.base.clock import Clock
from mintscope.base.errors import NotFound, RateLimited
from mintscope.base.limits import Denied, Limiter
from mintscope.base.metrics import REQUESTS
from mintscope.core.accounts.people.people import Browser, People
from mintscope.core.accounts.people.session import SessionEnded
from mintscope.edges.web.forms.form import ClientGone, Form, parse_form, read_form
from mintscope.edges.web.forms.head import Head
from mintscope.edges.web.forms.origin import OwnOrigins, expect_csrf
from mintscope.edges.web.forms.visit import START, Visit
from mintscope.edges.web.pages.answer import Answer, Wording
from mintscope.edges.web.pages.failures import FAILURES, failure_headers, failure_page
from mintscope.edges.web.pages.files import StaticFiles
from mintscope.edges.web.pages.render import Setting
from mintscope.edges.web.pages.reply import END_SESSION, Goto, Reply
from mintscope.edges.web.routes import Access, Route, Table

STATIC: Final = "/static/"
SIGN_IN: Final = "/sign-in"
PROVE: Final = "/prove"
QUERY: Final = re.compile(r"[A-Za-z0-9._~*%+=&-]{0,1000}")
CLIENT_GONE_STATUS: Final = 499  # in the metrics only; nobody received it

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """The ASGI application: every answer of the pages leaves through here.

    client   who a request comes from, for limits: an address or a network
    limiter  how many forms a client may send
    """

    table: Table
    people: People
    wording: Wording
    files: StaticFiles
    origins: OwnOrigins
    clock: Clock
    client: Callable[[Scope], str]
    limiter: Limiter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whatever happens inside."""
        assert scope["type"] == "http"
        began_s = perf_counter()
        head = Head(scope, receive)
        try:
            answer = await self._answer(head)
        except ClientGone:
            REQUESTS.count(head.route, CLIENT_GONE_STATUS, perf_counter() - began_s)
            return
        await answer.send(send, request_id=head.request_id, is_head=head.method == "HEAD")
        REQUESTS.count(head.route, answer.status, perf_counter() - began_s)

    async def _answer(self, head: Head) -> Answer:
        try:
            if head.path.startswith(STATIC):
                head.route = STATIC
                return self.files.answer(head.method, head.path, head.query)
            return self._worded(head, await self._reply(head))
        except ClientGone:
            raise
        except SessionEnded:
            return self._worded(head, self._to_sign_in(head))
        except Exception as error:
            if type(error) not in FAILURES:
                log.exception("request failed", request_id=head.request_id)
            answer = self._worded(head, failure_page(error, request_id=head.request_id))
            answer.headers += failure_headers(error)
            return answer

    async def _reply(self, head: Head) -> Reply:
        cookie = head.cookie()
        head.session = await self.people.session(cookie) if cookie else None
        route, parameters = self.table.find(head.method, head.path)
        head.route = route.path
        query = parse_form(head.query)
        head.notice = query.text("notice")
        client = self.client(head.scope)
        if head.is_form:
            self.origins.expect(head.headers.getlist("origin"))
            await self._expect_room(client)
        detour = self._detour(head, route)
        if detour is not None:
            return detour
        form = await self._form(head, route) if head.is_form else Form()
        return await route.handler(
            Visit(
                path=head.path,
                now=self.clock.now(),
                browser=Browser(address=client, agent=head.agent),
                session=head.session,
                parameters=parameters,
                query=query,
                form=form,
                after=self._own_page(form.text("next") or query.text("next")),
            )
        )

    async def _expect_room(self, client: str) -> None:
        verdict = await self.limiter.take(client)
        if isinstance(verdict, Denied):
            raise RateLimited(verdict.retry_after_s)

    def _detour(self, head: Head, route: Route) -> Goto | None:
        """Return where to go first, if the session does not suffice."""
        if route.access is Access.ANYONE:
            return None
        if head.session is None:
            return self._to_sign_in(head)
        if route.is_administration and not head.session.user.is_administrator:
            raise NotFound
        if route.access is Access.FRESH and not head.session.is_fresh(self.clock.now()):
            return Goto(self._with_return(PROVE, head))
        return None

    def _to_sign_in(self, head: Head) -> Goto:
        cookie = END_SESSION if head.cookie() else None
        return Goto(self._with_return(SIGN_IN, head), cookie=cookie)

    def _with_return(self, page: str, head: Head) -> str:
        """Return the address of *page*, from which one comes back here if this is a page."""
        query = head.query.decode("latin-1")
        here = self._own_page(f"{head.path}?{query}" if query else head.path)
        return f"{page}?{urlencode({'next': here})}" if here != START else page

    def _own_page(self, address: str) -> str:
        """Return *address* if it is that of a page of ours, else the first page.

        A path is looked up like any other: nothing that leads elsewhere is in the table.  A query
        goes along if it is one that a form of ours could have made.
        """
        path, _, query = address.partition("?")
        if not self.table.has_page(path):
            return START
        return address if QUERY.fullmatch(query) else path

    async def _form(self, head: Head, route: Route) -> Form:
        form = await read_form(head.headers.get("content-type", ""), head.receive)
        if route.access is not Access.ANYONE:
            assert head.session is not None
            expect_csrf(head.session, form)
        return form

    def _worded(self, head: Head, reply: Reply) -> Answer:
        setting = Setting(session=head.session, path=head.path, notice=head.notice)
        answer = self.wording.answer(reply, setting)
        if "hx-request" in head.headers:
            answer.for_htmx(reply)
        return answer
