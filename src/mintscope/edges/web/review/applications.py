"""The administrators' queue: applications, read and decided one at a time."""

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from mintscope.base.errors import BadRequest, NotFound
from mintscope.core.accounts.administration import NotPossible
from mintscope.core.accounts.application import (
    NOTE_LENGTH_MAX,
    UNDECIDED,
    Application,
    ApplicationState,
    SignupId,
)
from mintscope.core.accounts.keys.scope import (
    AREAS,
    READ_SCOPES,
    UnknownScope,
    in_order,
    parse_scopes,
)
from mintscope.core.accounts.reviews import Reviews
from mintscope.edges.web.forms.form import InvalidForm, sentence
from mintscope.edges.web.forms.request import PageRequest
from mintscope.edges.web.pages.page import UNPROCESSABLE, Page, PageResponse, Redirect
from mintscope.edges.web.pages.paging import cut, parse_id, parse_place
from mintscope.edges.web.routes import Access, PageHandler, PageRoute

QUEUE: Final = "/admin"
EVERY: Final = "all"
PAGE_LENGTH: Final = 25
STATE_NAMES: Final = {
    ApplicationState.AWAITING_APPROVAL: "Waiting for approval",
    ApplicationState.AWAITING_CONFIRMATION: "Mailbox not confirmed",
    ApplicationState.APPROVED: "Approved",
    ApplicationState.REJECTED: "Rejected",
    ApplicationState.KEY_ISSUED: "Key issued",
}
ADMITTED: Final = {ApplicationState.APPROVED, ApplicationState.KEY_ISSUED}


class ReviewPages:
    """What administrators do with applications."""

    def __init__(self, review: Reviews) -> None:
        self._review = review

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        one = f"{QUEUE}/applications/{{application}}"
        yield administration("GET", QUEUE, self.queue, Access.SIGNED_IN)
        yield administration("GET", one, self.show, Access.SIGNED_IN)
        yield administration("POST", one, self.decide, Access.FRESH)
        yield administration("GET", f"{one}/reset", self.ask_reset, Access.FRESH)
        yield administration("POST", f"{one}/reset", self.reset, Access.FRESH)
        yield administration("GET", f"{one}/forget", self.ask_forget, Access.FRESH)
        yield administration("POST", f"{one}/forget", self.forget, Access.FRESH)

    async def queue(self, request: PageRequest) -> PageResponse:
        """Show who waits, the longest first; or the applications in another state, or all."""
        shown = request.query_params.line("state") or str(ApplicationState.AWAITING_APPROVAL)
        if shown not in {EVERY, *ApplicationState}:
            raise NotFound
        after = parse_place(request.query_params.line("after"))
        rows = await self._review.applications(
            None if shown == EVERY else ApplicationState(shown),
            after=None if after is None else SignupId(after),
            limit=PAGE_LENGTH + 1,
        )
        applications, has_more = cut(rows, PAGE_LENGTH)
        facts = {
            "applications": applications,
            "has_more": has_more,
            "is_first": after is None,
            "shown": shown,
            "states": STATE_NAMES,
            "counts": await self._review.counts(),
        }
        return Page("admin/queue.html", facts)

    async def show(self, request: PageRequest) -> PageResponse:
        """Show everything about an application, and what can be done with it."""
        return _page(await self._application(request), request)

    async def decide(self, request: PageRequest) -> PageResponse:
        """Approve or reject."""
        application = await self._application(request)
        decision = request.form.text("decision")
        if decision not in {"approve", "reject"}:
            raise BadRequest(f"expected the decision approve or reject; was {decision[:40]!r}")
        try:
            if decision == "approve":
                await self._approve(application, request)
            else:
                note = _note(request, "reject-note")
                await self._review.reject(application.signup_id, note=note, actor=request.signed_in)
        except InvalidForm as invalid:
            return _page(application, request, errors=invalid.errors)
        except NotPossible as error:
            # Another administrator was quicker: the page shows what is so now.
            return _page(await self._application(request), request, errors={"": sentence(error)})
        return Redirect(QUEUE, notice="approved" if decision == "approve" else "rejected")

    async def ask_reset(self, request: PageRequest) -> PageResponse:
        """Ask whether the key shall really end."""
        return _confirmation("reset", await self._application(request))

    async def reset(self, request: PageRequest) -> PageResponse:
        """Let the secret be exchanged once more."""
        application = await self._application(request)
        try:
            await self._review.reset(application.signup_id, actor=request.signed_in)
        except NotPossible as error:
            return _confirmation("reset", application, error)
        return Redirect(_address(application), notice="application-reset")

    async def ask_forget(self, request: PageRequest) -> PageResponse:
        """Ask whether the application shall really go."""
        return _confirmation("forget", await self._application(request))

    async def forget(self, request: PageRequest) -> PageResponse:
        """Delete the application."""
        application = await self._application(request)
        try:
            await self._review.forget(application.signup_id, actor=request.signed_in)
        except NotPossible as error:
            return _confirmation("forget", application, error)
        return Redirect(QUEUE, notice="application-forgotten")

    async def _approve(self, application: Application, request: PageRequest) -> None:
        note = _note(request, "approve-note")
        try:
            scopes = parse_scopes(request.form.texts("scope"))
        except UnknownScope as error:
            raise BadRequest(str(error)) from None
        is_unconfirmed = application.state is ApplicationState.AWAITING_CONFIRMATION
        if is_unconfirmed and request.form.text("unconfirmed") != "yes":
            raise InvalidForm({"unconfirmed": "Tick this to approve an unconfirmed mailbox."})
        await self._review.approve(
            application.signup_id,
            scopes=scopes,
            note=note,
            actor=request.signed_in,
            unconfirmed=is_unconfirmed,
        )

    async def _application(self, request: PageRequest) -> Application:
        signup_id = SignupId(parse_id(request.path_params["application"]))
        application = await self._review.application(signup_id)
        if application is None:
            raise NotFound
        return application


def _address(application: Application) -> str:
    return f"{QUEUE}/applications/{application.signup_id}"


def _note(request: PageRequest, field: str) -> str:
    """Return the administrator's words.

    Raises    InvalidForm
    """
    note = request.form.text(field).replace("\r\n", "\n").strip()
    if len(note) > NOTE_LENGTH_MAX:
        text = f"Expected at most {NOTE_LENGTH_MAX:,} characters; there were {len(note):,}."
        raise InvalidForm({field: text})
    return note


def _page(
    application: Application, request: PageRequest, errors: Mapping[str, str] | None = None
) -> Page:
    is_admitted = application.state in ADMITTED
    facts = {
        "application": application,
        "states": STATE_NAMES,
        "granted": in_order(application.scopes | READ_SCOPES) if is_admitted else [],
        "is_undecided": application.state in UNDECIDED,
        "is_fresh": request.signed_in.is_fresh(request.now),
        "areas": AREAS,
        "ticked": frozenset(request.form.texts("scope")),
    }
    notes = {name: request.form.text(name) for name in ("approve-note", "reject-note")}
    return Page(
        "admin/application.html",
        facts,
        values=notes,
        errors=errors or {},
        status=UNPROCESSABLE if errors else 200,
    )


def _confirmation(
    what: Literal["reset", "forget"], application: Application, error: NotPossible | None = None
) -> Page:
    return Page(
        f"admin/{what}.html",
        {"application": application},
        errors={} if error is None else {"": sentence(error)},
        status=200 if error is None else 409,
    )


def administration(
    method: Literal["GET", "POST"], path: str, handler: PageHandler, access: Access
) -> PageRoute:
    """Return a route that is 404 to everyone but administrators."""
    return PageRoute(
        method=method, path=path, handler=handler, access=access, is_administration=True
    )
