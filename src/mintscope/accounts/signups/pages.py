"""The pages on which administrators list and review applications."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, Literal, get_args

from mintscope.accounts.keys.scope import AREAS, READ_SCOPES, UnknownScope, in_order, parse_scopes
from mintscope.accounts.sessions import NotPossible
from mintscope.accounts.signups.application import (
    NOTE_LENGTH_MAX,
    Application,
    ApplicationState,
    SignupId,
)
from mintscope.accounts.signups.reviews import Reviews
from mintscope.kit.errors import BadRequest, NotFound
from mintscope.kit.http.request import parse_id
from mintscope.kit.primitives import UnixMs
from mintscope.site.page import NO_ERRORS, Page, PageResponse, Redirect
from mintscope.site.routes import (
    Access,
    InvalidForm,
    PageRequest,
    PageRoute,
    get,
    parse_place,
    post,
    sentence,
)

QUEUE: Final = "/admin"
EVERY: Final = "all"
PAGE_LENGTH: Final = 25
TEXT_LENGTH_MAX: Final = 100
STATE_NAMES: Final = {
    ApplicationState.AWAITING_APPROVAL: "Waiting for approval",
    ApplicationState.AWAITING_CONFIRMATION: "Mailbox not confirmed",
    ApplicationState.APPROVED: "Approved",
    ApplicationState.REJECTED: "Rejected",
    ApplicationState.KEY_ISSUED: "Key issued",
}
ADMITTED: Final = {ApplicationState.APPROVED, ApplicationState.KEY_ISSUED}
NOTES: Final = ("approve-note", "reject-note", "told")
Ending = Literal["reset", "forget"]


class ReviewPages:
    """The pages on which administrators review applications."""

    def __init__(self, review: Reviews) -> None:
        self._review = review

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the pages of applications."""
        one = f"{QUEUE}/applications/{{application}}"
        yield get(QUEUE, self.queue, Access.SIGNED_IN)
        yield get(one, self.show, Access.SIGNED_IN)
        yield post(one, self.decide, Access.FRESH, keeps=NOTES)
        yield post(f"{one}/undo", self.undo, Access.FRESH)
        for what in get_args(Ending):
            yield get(f"{one}/{what}", partial(self._ask, what), Access.FRESH)
            yield post(f"{one}/{what}", partial(self._end, what), Access.FRESH)

    async def queue(self, request: PageRequest) -> PageResponse:
        """Show the applications in the requested state, by default those that await approval."""
        shown = request.query_params.line("state") or str(ApplicationState.AWAITING_APPROVAL)
        if shown not in {EVERY, *ApplicationState}:
            raise NotFound
        after = parse_place(request.query_params.line("after"))
        text = request.query_params.line("text")[:TEXT_LENGTH_MAX]
        rows = await self._review.applications(
            None if shown == EVERY else ApplicationState(shown),
            after=None if after is None else SignupId(after),
            limit=PAGE_LENGTH + 1,
            text=text,
        )
        facts = {
            "applications": rows[:PAGE_LENGTH],
            "has_more": len(rows) > PAGE_LENGTH,
            "is_first": after is None,
            "shown": shown,
            "text": text,
            "states": STATE_NAMES,
            "counts": await self._review.counts(),
            "decided": await self._decided(request),
        }
        return Page("admin/queue.html", facts)

    async def _decided(self, request: PageRequest) -> Application | None:
        """Return the application that was just decided, if the decision can still be undone."""
        signup_id = parse_place(request.query_params.line("decided"))
        if signup_id is None:
            return None
        found = await self._review.application(SignupId(signup_id))
        return found if found is not None and found.can_be_undone(request.now) else None

    async def show(self, request: PageRequest) -> PageResponse:
        """Show an application with all its facts, and the possible actions."""
        application = await self._application(request)
        return await self._page(application, request)

    async def decide(self, request: PageRequest) -> PageResponse:
        """Approve or reject the application."""
        application = await self._application(request)
        decision = request.form.text("decision")
        if decision not in {"approve", "reject"}:
            raise BadRequest(f"expected the decision approve or reject; was {decision[:40]!r}")
        is_mailed = True
        try:
            if decision == "approve":
                await self._approve(application, request)
            else:
                note = _note(request, "reject-note")
                rejected = await self._review.reject(
                    application.signup_id,
                    note=note,
                    actor=request.signed_in,
                    reason=_note(request, "told"),
                )
                is_mailed = rejected.confirmed_at is not None
        except InvalidForm as invalid:
            return await self._page(application, request, errors=invalid.errors)
        except NotPossible as error:
            # Another administrator has already decided: the page shows the current state.
            now = await self._application(request)
            return await self._page(now, request, errors={"": sentence(error)})
        queue = f"{QUEUE}?decided={application.signup_id}"
        notice = "approved" if decision == "approve" else "rejected"
        if application.asked_at is not None:
            notice += "-scopes"
        elif not is_mailed:
            notice += "-unconfirmed"
        return Redirect(queue, notice=notice)

    async def undo(self, request: PageRequest) -> PageResponse:
        """Undo the decision named in the form, within a minute of it."""
        application = await self._application(request)
        decided_at = UnixMs(parse_id(request.form.text("decided_at")))
        try:
            await self._review.undo(
                application.signup_id, decided_at=decided_at, actor=request.signed_in
            )
        except NotPossible as error:
            now = await self._application(request)
            return await self._page(now, request, errors={"": sentence(error)}, status=409)
        page = f"{QUEUE}/applications/{application.signup_id}"
        return Redirect(page, notice="decision-undone")

    async def _ask(self, what: Ending, request: PageRequest) -> PageResponse:
        """Ask for confirmation before the key is reset or the application is deleted."""
        return _confirmation(what, await self._application(request))

    async def _end(self, what: Ending, request: PageRequest) -> PageResponse:
        """Revoke the key and allow another exchange, or delete the application."""
        application = await self._application(request)
        end = self._review.reset if what == "reset" else self._review.forget
        try:
            await end(application.signup_id, actor=request.signed_in)
        except NotPossible as error:
            return _confirmation(what, application, error)
        if what == "reset":
            page = f"{QUEUE}/applications/{application.signup_id}"
            return Redirect(page, notice="application-reset")
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

    async def _page(
        self,
        application: Application,
        request: PageRequest,
        errors: Mapping[str, str] = NO_ERRORS,
        status: int | None = None,
    ) -> Page:
        by = application.decided_by or ""
        history = await self._review.history(application.signup_id)
        names = await self._review.names({by, *(event.actor for event in history)})
        is_admitted = application.state in ADMITTED
        asked = application.form.asked_scopes
        facts = {
            "application": application,
            "states": STATE_NAMES,
            "granted": in_order(application.scopes | READ_SCOPES) if is_admitted else [],
            "decided_by": names.get(by, by),
            "is_undecided": application.is_undecided,
            "can_undo": application.can_be_undone(request.now),
            "is_fresh": request.signed_in.is_fresh(request.now),
            "areas": AREAS,
            "ticked": frozenset(request.form.texts("scope")) if errors else asked,
            "asked": in_order(asked),
            "history": history,
            "names": names,
        }
        notes = {name: request.form.text(name) for name in NOTES}
        return Page("admin/application.html", facts, errors, notes, status=status)

    async def _application(self, request: PageRequest) -> Application:
        signup_id = SignupId(parse_id(request.path_params["application"]))
        application = await self._review.application(signup_id)
        if application is None:
            raise NotFound
        return application


def _note(request: PageRequest, field: str) -> str:
    """Return the administrator's note in *field*.  Raises InvalidForm."""
    note = request.form.text(field).replace("\r\n", "\n").strip()
    if len(note) > NOTE_LENGTH_MAX:
        text = f"Expected at most {NOTE_LENGTH_MAX:,} characters; there were {len(note):,}."
        raise InvalidForm({field: text})
    return note


def _confirmation(what: Ending, application: Application, error: NotPossible | None = None) -> Page:
    page = f"admin/{what}.html"
    facts = {"application": application}
    return (
        Page(page, facts) if error is None else Page(page, facts, {"": sentence(error)}, status=409)
    )
