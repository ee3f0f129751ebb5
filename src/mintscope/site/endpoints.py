"""The steps that all page requests share: session, form checks and response."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode

from starlette.requests import cookie_parser
from starlette.types import Scope

from mintscope.accounts.people import People
from mintscope.accounts.session import AGENT_LENGTH_MAX, Browser, Session, SessionEnded
from mintscope.kit import errors
from mintscope.kit.clock import Clock
from mintscope.kit.http.rate_limit import AddressLimit, WriteBudget
from mintscope.kit.http.request import Request
from mintscope.kit.http.response import AnyResponse, Response
from mintscope.kit.http.routes import Route, Router
from mintscope.site.page import (
    COOKIE,
    END_SESSION,
    VISIT,
    Page,
    Picture,
    Pushed,
    Redirect,
    WholeResponse,
)
from mintscope.site.render import PageContext, PageWriter, failure_headers, failure_page
from mintscope.site.routes import (
    SEGMENT,
    START,
    Access,
    FormData,
    FormOfAnotherSession,
    OwnOrigins,
    PageRequest,
    PageRoute,
    expect_csrf,
    parse_form,
    read_form,
)

SIGN_IN: Final = "/sign-in"
PROVE: Final = "/prove"
OWNER: Final = "of"  # field with the ID of the user who sent the form
FORM_KEPT: Final = "form-kept"
KEPT: Final = "kept"  # field set by a script that keeps the other fields itself
QUERY: Final = re.compile(r"[A-Za-z0-9._~%*+=&-]{0,1000}")


@dataclass(kw_only=True)
class PageEndpoints:
    """Creates endpoints from page handlers; a handler runs only for permitted requests.

    client                returns the client of a request: an IP address or a network
    form_limit            limits the number of forms that a client may send
    writes                limits the number of changes to an account
    needs_second_factor   whether administrators need a second factor
    """

    pages: Iterable[PageRoute]
    people: People
    writer: PageWriter
    origins: OwnOrigins
    clock: Clock
    client: Callable[[Scope], str]
    form_limit: AddressLimit
    writes: WriteBudget
    needs_second_factor: bool = False

    def __post_init__(self) -> None:
        self.routes = [
            Route(page.method, page.path, partial(self._respond, page)) for page in self.pages
        ]
        self._router = Router(self.routes, SEGMENT)
        self._kept: defaultdict[str, set[str]] = defaultdict(set)
        for page in self.pages:
            self._kept[page.keeps_on or page.path].update(page.keeps)

    async def write_error(self, request: Request, error: Exception) -> Response:
        """Return the page about *error*, or a redirect to sign-in if the session has ended."""
        if isinstance(error, errors.RateLimited):
            request.state = PageContext(session=None, path=request.path)  # cheap: no session lookup
        elif request.state is None:
            try:
                # No page was reached (404, 405), so the session was not looked up yet.
                await self._learn_session(request)
            except Exception as failure:  # noqa: BLE001 - shown like any other
                error = failure
        if isinstance(error, SessionEnded):
            return self._write(request, self._to_sign_in(request, self._here(request)))
        again = self._here(request) if isinstance(error, FormOfAnotherSession) else ""
        page = failure_page(error, request_id=request.request_id.decode(), again=again)
        is_htmx = b"hx-request" in request.headers
        headers = failure_headers(error)
        return self.writer.write(page, request.state, headers=headers, is_htmx=is_htmx)

    async def _respond(self, page: PageRoute, request: Request) -> AnyResponse:
        session = await self._learn_session(request)
        query = parse_form(request.query)
        request.state = replace(request.state, notice=query.text("notice"))
        client = self.client(request.scope)
        is_form = request.method == "POST"
        if is_form:
            if not page.is_from_anywhere:
                # Before the form is counted: another site could make a browser send many forms,
                # which would use up the limit of its address.
                self.origins.expect(request.values(b"origin"))
            await self.form_limit.pass_through(request)
        detour = await self._detour(page, request, session)
        if detour is not None:
            return self._write(request, detour)
        form = await self._form(page, request, session) if is_form else FormData()
        # Counted after `_form` has checked the CSRF token: only then did the user send the form.
        if is_form and session is not None and page.is_counted:
            await self.writes.spend(session.user.user_id, "page")
        response = await page.handler(
            PageRequest(
                now=self.clock.now(),
                browser=Browser(
                    address=client, agent=request.value(b"user-agent")[:AGENT_LENGTH_MAX]
                ),
                session=session,
                path_params=request.path_params,
                query_params=query,
                form=form,
                next_path=self._own_page(form.text("next") or query.text("next")),
                bearer=request.bearer() or "",
                visit=_cookie(request, VISIT) or "",
            )
        )
        if isinstance(response, Pushed):
            return self.writer.push(response)
        if isinstance(response, Picture):
            return self.writer.send(response)
        if not is_form and isinstance(response, Page) and session is not None:
            response = self._filled(page, response, query, session)
        return self._write(request, response)

    def _filled(self, page: PageRoute, shown: Page, query: FormData, session: Session) -> Page:
        names = [name for name in self._kept[page.path] if query.texts(name)]
        if not names or query.line(OWNER) != str(session.user.user_id):
            return shown
        typed = {name: query.text(name) for name in names}
        return replace(shown, values={**shown.values, **typed})

    def _write(self, request: Request, page: WholeResponse) -> Response:
        if isinstance(page, Page) and page.cookie == END_SESSION:
            # The page must not show the session that its cookie ends.
            request.state = replace(request.state, session=None)
        return self.writer.write(page, request.state, is_htmx=b"hx-request" in request.headers)

    async def _learn_session(self, request: Request) -> Session | None:
        request.state = PageContext(session=None, path=request.path)
        cookie = session_cookie(request)
        session = await self.people.session(cookie) if cookie else None
        request.state = replace(request.state, session=session)
        return session

    async def _detour(
        self, page: PageRoute, request: Request, session: Session | None
    ) -> Redirect | Page | None:
        """Return the page to show if the session is not sufficient for *page*, else None.

        Raises NotFound if *page* is for administrators and the user is not one.
        """
        if page.access is Access.ANYONE:
            return None
        if session is None:
            return self._to_sign_in(request, await self._refilled(page, request))
        if page.is_administration and not session.user.is_administrator:
            raise errors.NotFound
        is_barred = self.needs_second_factor and not session.user.has_second_factor
        if page.is_administration and is_barred:
            return Page("factors/needed.html", status=HTTPStatus.FORBIDDEN)
        if page.access is Access.FRESH and not session.is_fresh(self.clock.now()):
            return Redirect(_with_return(PROVE, await self._refilled(page, request)))
        return None

    def _to_sign_in(self, request: Request, here: str) -> Redirect:
        # The cookie, if there is one, belongs to no session, so it is deleted.
        cookie = END_SESSION if session_cookie(request) else None
        return Redirect(_with_return(SIGN_IN, here), cookie=cookie)

    async def _refilled(self, page: PageRoute, request: Request) -> str:
        """Return the URL of the page to return to, with the form values that *page* keeps.

        The URL has no values if they are too long for it, if the script of the page restores them
        in the browser, or if the body is not a form.
        """
        here = self._here(request)
        names = page.refilled
        path = request.path
        if page.keeps:
            names = (*page.keeps, OWNER)
            path = page.keeps_on.format(**request.path_params) or path
        if not names:
            return here
        try:
            form = await read_form(request)
            if form.texts(KEPT):
                return here
            typed = urlencode([(name, form.text(name)) for name in names])
        except (errors.BadRequest, errors.PayloadTooLarge):
            return here
        if page.keeps:
            typed = f"{typed}&notice={FORM_KEPT}"
        return self._own_page(f"{path}?{typed}")

    def _here(self, request: Request) -> str:
        """Return the URL of the current page.

        If the path of a form has no page, return the page that the form was sent from.
        """
        # latin-1 decodes any bytes; `_own_page` drops a query with unusual characters.
        query = request.query.decode("latin-1")
        here = self._own_page(f"{request.path}?{query}" if query else request.path)
        if here == START:
            _, _, sent_from = request.value(b"referer").partition("://")
            here = self._own_page(f"/{sent_from.partition('/')[2]}")
        return here

    def _own_page(self, address: str) -> str:
        """Return the URL *address* if it is a page of this site, else the URL of the start page.

        Only paths with a GET route count as pages of this site.  The query is dropped if no form of
        this site could have produced it.
        """
        path, _, query = address.partition("?")
        try:
            self._router.find("GET", path)
        except (errors.NotFound, errors.MethodNotAllowed):
            return START
        return address if QUERY.fullmatch(query) else path

    async def _form(self, page: PageRoute, request: Request, session: Session | None) -> FormData:
        if page.is_from_anywhere:
            await request.body()
            return FormData()
        form = await read_form(request)
        if page.access is not Access.ANYONE:
            assert session is not None
            expect_csrf(session, form)
        return form


def _with_return(page: str, here: str) -> str:
    """Return the URL of *page*, with *here* as the page to return to."""
    return f"{page}?{urlencode({'next': here})}" if here != START else page


def session_cookie(request: Request) -> str | None:
    """Return the value of the session cookie, or None unless there is exactly one."""
    return _cookie(request, COOKIE)


def _cookie(request: Request, wanted: str) -> str | None:
    found = [
        value
        for header in request.values(b"cookie")
        for name, value in cookie_parser(header).items()
        if name == wanted
    ]
    return found[0] if len(found) == 1 else None
