"""Pages of sign-up, sign-in and account settings.

Opening a link of an e-mail changes nothing; only the buttons of the opened page change something.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from mintscope.accounts.changes import AccountDeletion, AddressChanges
from mintscope.accounts.email_address import EmailAddress, UnusableEmailAddress, parse_email
from mintscope.accounts.factor_pages import ALONE, SecondStepPages
from mintscope.accounts.factor_rows import UnusableName
from mintscope.accounts.people import People
from mintscope.accounts.session import Purpose, SecondFactorDue, SessionEnded, SessionId
from mintscope.accounts.sessions import Ended, NotPossible
from mintscope.accounts.signups.signups import Signups
from mintscope.accounts.user import EmailTaken, WeakPassword, WrongPassword, expect_password
from mintscope.accounts.wallets.credits import AccountCredits, CreditsLeft
from mintscope.kit.audit import EventFilter, UserId
from mintscope.kit.errors import BadRequest, NotFound, ServiceUnavailable
from mintscope.kit.http.application import evenly
from mintscope.kit.http.request import parse_id
from mintscope.site.page import END_SESSION, NO_ERRORS, Page, PageResponse, Redirect, link_gone
from mintscope.site.routes import (
    START,
    Access,
    PageRequest,
    PageRoute,
    get,
    parse_place,
    post,
    sentence,
    shows,
)

TAKEN: Final = (
    "An account with this address already exists. Sign in, or set a new password if you forgot"
    " yours."
)
NO_PASSWORD: Final = "Enter your password."  # noqa: S105  not a password
WRONG_CREDENTIALS: Final = "The e-mail address or the password is wrong."


class EntryPages:
    """The pages of sign-up, sign-in and sign-out."""

    def __init__(self, people: People, second_step: SecondStepPages, *, may_sign_up: bool) -> None:
        self._people = people
        self._second_step = second_step
        self._may_sign_up = may_sign_up

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the pages of sign-up, sign-in and sign-out."""
        if self._may_sign_up:
            yield get("/sign-up", self.ask_sign_up)
            yield post("/sign-up", self.sign_up)
            yield get(f"/sign-in/{ALONE}", shows(Redirect("/sign-in")))
            yield post(f"/sign-in/{ALONE}", self.sign_in_by_passkey)
        yield get("/sign-in", self.ask_sign_in)
        yield post("/sign-in", self.sign_in)
        yield post("/sign-out", self.sign_out, Access.SIGNED_IN)
        yield get("/prove", self.ask_prove, Access.SIGNED_IN)
        yield post("/prove", self.prove, Access.SIGNED_IN)

    async def ask_sign_up(self, request: PageRequest) -> PageResponse:
        """Show the sign-up form to visitors; redirect people who are signed in."""
        if request.session:
            return Redirect(request.next_path)
        return Page("sign_up.html", {"after": request.next_path})

    async def ask_sign_in(self, request: PageRequest) -> PageResponse:
        """Show the sign-in form to visitors; redirect people who are signed in."""
        return Redirect(request.next_path) if request.session else self._second_step.entry(request)

    async def sign_up(self, request: PageRequest) -> PageResponse:
        """Create the account, and start a session."""
        address = request.form.line("email")
        password = request.form.text("password")
        errors: dict[str, str] = {}
        email = _email(address, errors)
        try:
            # Checked even if the address is wrong, so that the form shows both errors at once.
            expect_password(password, email=email)
            if not errors:
                cookie = await self._people.sign_up(email, password, request.browser)
                return await self._welcome(request, cookie)
        except WeakPassword as flaw:
            errors["password"] = sentence(flaw)
        except EmailTaken:
            errors["email"] = TAKEN
        facts = {"after": request.next_path}
        return Page("sign_up.html", facts, errors=errors, values={"email": address})

    async def _welcome(self, request: PageRequest, cookie: str) -> PageResponse:
        await self._leave(request)
        with suppress(ServiceUnavailable, SessionEnded):
            session = await self._people.session(cookie)
            if session is not None:
                await self._people.request_verification(session)
        return Redirect(request.next_path, notice="signed-up", cookie=cookie)

    async def sign_in(self, request: PageRequest) -> PageResponse:
        """Start a new session, or ask for the second factor; never reuse the browser's cookie."""
        address = request.form.line("email")
        password = request.form.text("password")
        errors: dict[str, str] = {}
        email = _email(address, errors)
        if not password:
            errors["password"] = NO_PASSWORD
        try:
            if not errors:
                cookie = await self._people.sign_in(email, password, request.browser)
                await self._leave(request)
                return Redirect(request.next_path, cookie=cookie)
        except WrongPassword:
            errors[""] = WRONG_CREDENTIALS
        except SecondFactorDue as due:
            await self._leave(request)
            return await self._second_step.ask(request, due.ticket)
        return self._second_step.entry(request, errors, {"email": address})

    async def sign_in_by_passkey(self, request: PageRequest) -> PageResponse:
        """Start a new session if the person has signed in by passkey alone."""
        response = await self._second_step.by_passkey_alone(request)
        if isinstance(response, Redirect):
            await self._leave(request)
        return response

    async def _leave(self, request: PageRequest) -> None:
        """End the session that a new session replaces; if this fails, the old one expires later."""
        if request.session is not None:
            with suppress(ServiceUnavailable):
                await self._people.sign_out(request.session)

    async def sign_out(self, request: PageRequest) -> PageResponse:
        """End the session on the server and in the browser."""
        await self._people.sign_out(request.signed_in)
        return Redirect(START, notice="signed-out", cookie=END_SESSION)

    async def ask_prove(self, request: PageRequest) -> PageResponse:
        """Ask for the password or a passkey, unless the last proof is less than ten minutes old."""
        if request.signed_in.is_fresh(request.now):
            return Redirect(request.next_path)
        return await self._second_step.proof(request)

    async def prove(self, request: PageRequest) -> PageResponse:
        """Record a proof by the right password, and redirect to the page that required it."""
        try:
            await self._people.prove(request.signed_in, request.form.text("password"))
        except WrongPassword:
            errors = {"password": "That is not your password."}
            return await self._second_step.proof(request, errors)
        return Redirect(request.next_path)


def _email(address: str, errors: dict[str, str]) -> EmailAddress:
    try:
        return parse_email(address)
    except UnusableEmailAddress as flaw:
        errors["email"] = sentence(flaw)
        return EmailAddress("")


ACCOUNT: Final = "/settings/account"
SESSIONS: Final = "/settings/sessions"
LOG: Final = "/settings/log"
LOG_LENGTH: Final = 50
ACTIONS: Final[Mapping[str, str]] = {  # texts for actions of the audit log, as shown to the owner
    "signed up": "Signed up",
    "signed in": "Signed in",
    "signed in with passkey": "Signed in with a passkey",
    "confirmed with passkey": "Confirmed a step with a passkey",
    "used copied passkey": "Refused a passkey that may be a copy",
    "used recovery code": "Signed in with a recovery code",
    "changed password": "Changed the password",
    "reset password": "Set a new password by e-mail",
    "verified mailbox": "Verified the e-mail address",
    "asked for another address": "Asked to change the e-mail address",
    "changed address": "Changed the e-mail address",
    "took account back": "Took the account back by e-mail",
    "renamed account": "Changed the user name",
    "removed second factor": "Removed two-factor sign-in",
    "made administrator": "Became an administrator",
    "created": "Created",
    "issued": "Issued",
    "renamed": "Renamed",
    "rotated": "Rotated",
    "revoked": "Revoked",
    "capped": "Changed the monthly cap",
    "changed networks": "Changed the allowed networks",
    "linked wallet": "Linked a wallet",
    "unlinked wallet": "Unlinked a wallet",
    "linked Telegram": "Linked a Telegram chat",
    "unlinked Telegram": "Unlinked the Telegram chat",
    "set spend alert": "Changed the spend alert",
    "claimed": "Came with a claimed agent",
    "claimed agent": "Claimed an agent",
    "forgotten": "Deleted",
    "moved credits out": "Moved all credits to a credit token",
}


class AccountPages:
    """Account settings: name, verification of the address, claims, password, sessions and log."""

    def __init__(self, people: People) -> None:
        self._people = people

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the account's settings."""
        password = f"{ACCOUNT}/password"
        signed_in = Access.SIGNED_IN
        fresh = Access.FRESH
        yield get("/settings", shows(Redirect("/settings/api-keys")), signed_in)
        yield get(ACCOUNT, self.show, signed_in)
        name = f"{ACCOUNT}/name"
        yield post(name, self.rename, signed_in, keeps=("username",), keeps_on=ACCOUNT)
        yield post(f"{ACCOUNT}/verify", self.send_verification, signed_in)
        yield post(f"{ACCOUNT}/claim", self.send_claim, signed_in)
        yield get(password, shows(Page("password.html")), fresh)
        yield post(password, self.change_password, fresh)
        yield get(SESSIONS, self.show_sessions, signed_in)
        yield get(LOG, self.show_log, signed_in)
        yield post(f"{SESSIONS}/end", self.end_session, signed_in)
        yield post(f"{SESSIONS}/end-others", self.end_other_sessions, signed_in)

    async def rename(self, request: PageRequest) -> PageResponse:
        """Rename the account."""
        try:
            await self._people.rename(request.signed_in, request.form.line("username").lower())
        except UnusableName as flaw:
            return await self.show(request, {"username": sentence(flaw)})
        return Redirect(ACCOUNT, notice="account-renamed")

    async def show(self, request: PageRequest, errors: Mapping[str, str] = NO_ERRORS) -> Page:
        """Show the account and the possible actions."""
        typed = request.form.line("username").lower()
        agents = await self._people.claimable(request.signed_in)
        values = {"username": typed if errors else request.signed_in.user.username}
        return Page("account.html", {"agents": agents}, errors, values)

    async def send_verification(self, request: PageRequest) -> PageResponse:
        """E-mail a verification link to the address of the account."""
        await self._people.request_verification(request.signed_in)
        return Redirect(ACCOUNT, notice="verification-sent")

    async def send_claim(self, request: PageRequest) -> PageResponse:
        """E-mail a claim link to the address of an agent."""
        agent = UserId(parse_id(request.form.text("agent")))
        if not await self._people.request_claim(request.signed_in, agent):
            raise NotFound
        return Redirect(ACCOUNT, notice="claim-sent")

    async def change_password(self, request: PageRequest) -> PageResponse:
        """Set the password, and end all other sessions."""
        try:
            await self._people.change_password(request.signed_in, request.form.text("password"))
        except WeakPassword as flaw:
            return Page("password.html", errors={"password": sentence(flaw)})
        return Redirect(ACCOUNT, notice="password-changed")

    async def show_sessions(self, request: PageRequest) -> PageResponse:
        """List the sessions, the current one first."""
        here = request.signed_in
        sessions = await self._people.sessions(here.user.user_id)
        ordered = sorted(sessions, key=lambda each: each.session_id != here.session_id)
        return Page("sessions.html", {"sessions": ordered})

    async def show_log(self, request: PageRequest) -> PageResponse:
        """Show the events of the account, newest first."""
        before = parse_place(request.query_params.line("before"))
        wanted = EventFilter(who=f"user:{request.user_id}", owner=request.user_id)
        rows = await self._people.store.read(
            lambda rows: rows.events.newest(before, LOG_LENGTH + 1, wanted)
        )
        facts = {
            "events": rows[:LOG_LENGTH],
            "actions": ACTIONS,
            "me": wanted.who,
            "has_more": len(rows) > LOG_LENGTH,
            "is_first": before is None,
        }
        return Page("log.html", facts)

    async def end_session(self, request: PageRequest) -> PageResponse:
        """End a session; do nothing if it has already ended or is another user's."""
        here = request.signed_in
        session_id = SessionId(parse_id(request.form.text("session")))
        await self._people.end_session(here.user.user_id, session_id)
        if session_id == here.session_id:
            return Redirect(START, notice="signed-out", cookie=END_SESSION)
        return Redirect(SESSIONS, notice="session-ended")

    async def end_other_sessions(self, request: PageRequest) -> PageResponse:
        """End all sessions except the current one."""
        await self._people.end_other_sessions(request.signed_in)
        return Redirect(SESSIONS, notice="sessions-ended")


EMAIL: Final = f"{ACCOUNT}/email"
OWN: Final = "This is your address already."
KINDS: Final = {
    "sessions": ("One session.", "sessions."),
    "keys": ("One API key.", "API keys."),
    "factors": ("One authenticator app or passkey.", "authenticator apps and passkeys."),
    "wallets": ("One linked wallet.", "linked wallets."),
    "alerts": ("One alert.", "alerts."),
    "webhooks": (
        "The webhook of one alert, whose address was changed.",
        "webhooks of alerts, whose addresses were changed.",
    ),
    "caps": (
        "One cap of an API key is as it was before.",
        "caps of API keys are as they were before.",
    ),
    "chats": ("The Telegram chat that was linked.", "linked Telegram chats."),
    "spending": ("The spend alert is as it was before.", "spend alerts are as they were before."),
}
ADDRESS_TAKEN: Final = "An account with this address already exists."


class AddressPages:
    """Pages that change the e-mail address of an account, and the pages of undo links."""

    def __init__(self, changes: AddressChanges) -> None:
        self._changes = changes

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the pages that change the e-mail address, or undo its change."""
        change = "/change-email/{link}"
        undo = "/undo-email/{link}"
        yield get(EMAIL, shows(Page("account/email.html")), Access.FRESH)
        yield post(EMAIL, self.send_link, Access.FRESH)
        yield get(change, self.ask_change, Access.FRESH)
        yield post(change, self.change, Access.FRESH)
        yield get(undo, self.ask_undo)
        yield post(undo, self.undo)

    async def send_link(self, request: PageRequest) -> PageResponse:
        """E-mail a confirmation link to the new address; nothing changes yet."""
        address = request.form.line("email")
        try:
            email = parse_email(address)
            if email == request.signed_in.user.email:
                return _address_again(address, OWN)
            await self._changes.request(request.signed_in, email)
        except UnusableEmailAddress as flaw:
            return _address_again(address, sentence(flaw))
        except EmailTaken:
            return _address_again(address, ADDRESS_TAKEN)
        return Redirect(ACCOUNT, notice="address-sent")

    async def ask_change(self, request: PageRequest) -> PageResponse:
        """Show the button that confirms the new address."""
        link = request.path_params["link"]
        email = await self._changes.find(request.signed_in, link)
        return link_gone("address") if email is None else _confirmation("change_email", email)

    async def change(self, request: PageRequest) -> PageResponse:
        """Change the address of the signed-in person, if the link was requested in that account."""
        link = request.path_params["link"]
        email = await self._changes.find(request.signed_in, link)
        if email is None:
            return link_gone("address")
        try:
            is_done = await self._changes.confirm(request.signed_in, link)
        except EmailTaken:
            return _confirmation("change_email", email, ADDRESS_TAKEN)
        return Redirect(ACCOUNT, notice="address-changed") if is_done else link_gone("address")

    async def ask_undo(self, request: PageRequest) -> PageResponse:
        """Describe the effect of the undo, and show the button that starts it."""
        email = await self._changes.find_address(request.path_params["link"], Purpose.UNDO_EMAIL)
        return link_gone("undo") if email is None else _confirmation("undo_email", email)

    async def undo(self, request: PageRequest) -> PageResponse:
        """Restore the old address, list the ended items, and link to the password reset."""
        link = request.path_params["link"]
        email = await self._changes.find_address(link, Purpose.UNDO_EMAIL)
        if email is None:
            return link_gone("undo")
        try:
            found = await self._changes.undo(link)
        except EmailTaken:
            return _confirmation("undo_email", email, ADDRESS_TAKEN)
        if found is None:
            return link_gone("undo")
        facts = {
            "email": email,
            "ended": ended_labels(found.ended),
            "reset": f"/reset/{found.reset}",
        }
        return Page("account/taken_back.html", facts, cookie=END_SESSION)


def ended_labels(ended: Ended) -> list[str]:
    """Return a line for each kind of item in *ended*, such as "2 API keys."."""
    lines = []
    for name, (one, many) in KINDS.items():
        count = getattr(ended, name)
        if count:
            lines.append(one if count == 1 else f"{count} {many}")
    return lines


def _address_again(address: str, error: str) -> Page:
    return Page("account/email.html", errors={"email": error}, values={"email": address})


def _confirmation(template: str, email: str, error: str = "") -> Page:
    return Page(f"account/{template}.html", {"email": email}, {"": error} if error else {})


RESET_LEAST_S: Final = 0.05  # least duration of a reset request; a commit takes a tenth of it


class LinkPages:
    """Pages of links that confirm an application or address, set a password, or claim an agent."""

    def __init__(self, people: People, signup: Signups) -> None:
        self._people = people
        self._signup = signup

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the pages that links in e-mails open."""
        signed_in = Access.SIGNED_IN
        fresh = Access.FRESH
        confirm = "/confirm/{link}"
        verify = "/verify/{link}"
        claim = "/claim/{link}"
        yield get(confirm, self.ask_confirm)
        yield post(confirm, self.confirm)
        yield get("/confirmed", shows(Page("confirmed.html")))
        yield get("/disowned", shows(Page("disowned.html")))
        yield get("/forgot", self.ask_address)
        yield post("/forgot", self.send_link)
        yield get("/reset/{link}", self.ask_password)
        yield post("/reset/{link}", self.reset)
        yield get(verify, self.ask_verify, signed_in)
        yield post(verify, self.verify, signed_in)
        yield get(claim, shows(Page("claim.html")), fresh)
        yield post(claim, self.claim, fresh)

    async def ask_confirm(self, request: PageRequest) -> PageResponse:
        """Ask the owner of the address whether the application is theirs."""
        email = await self._signup.find_address(
            request.path_params["link"], Purpose.CONFIRM_APPLICATION
        )
        return link_gone("confirm") if email is None else Page("confirm.html", {"email": email})

    async def confirm(self, request: PageRequest) -> PageResponse:
        """Confirm the application, or delete it if the owner of the address did not make it."""
        link = request.path_params["link"]
        answer = request.form.text("answer")
        if answer == "mine":
            is_done = await self._signup.confirm_by_link(link)
            return Redirect("/confirmed") if is_done else link_gone("confirm")
        if answer == "not-mine":
            is_done = await self._signup.disown(link)
            return Redirect("/disowned") if is_done else link_gone("confirm")
        raise BadRequest("expected the answer mine or not-mine")

    async def ask_verify(self, request: PageRequest) -> PageResponse:
        """Show the button that verifies the e-mail address."""
        if request.signed_in.user.verified_at is not None:
            return Redirect("/settings/account", notice="verified")
        return Page("verify.html")

    async def verify(self, request: PageRequest) -> PageResponse:
        """Verify the address of the signed-in person, if the link was sent to that account."""
        is_done = await self._people.verify(request.signed_in, request.path_params["link"])
        if not is_done:
            return link_gone("verify")
        return Redirect("/settings/account", notice="verified")

    async def claim(self, request: PageRequest) -> PageResponse:
        """Move the keys and other contents of the agent to the signed-in person."""
        agent = await self._people.claim(request.signed_in, request.path_params["link"])
        if agent is None:
            return link_gone("claim")
        return Redirect("/settings/api-keys", notice="claimed")

    async def ask_address(self, request: PageRequest) -> PageResponse:
        """Ask for the e-mail address of the account that needs a new password."""
        values = {"email": request.session.user.email} if request.session else {}
        return Page("forgot.html", values=values)

    async def send_link(self, request: PageRequest) -> PageResponse:
        """E-mail a reset link to the address; the response hides whether an account exists."""
        address = request.form.line("email")
        try:
            email = parse_email(address)
        except UnusableEmailAddress as flaw:
            errors = {"email": sentence(flaw)}
            return Page("forgot.html", errors=errors, values={"email": address})
        await evenly(self._people.request_reset(email, request.browser), least_s=RESET_LEAST_S)
        return Redirect("/forgot", notice="reset-sent")

    async def ask_password(self, request: PageRequest) -> PageResponse:
        """Ask for the new password; opening the page does not use up the link."""
        email = await self._people.find_address(request.path_params["link"], Purpose.RESET_PASSWORD)
        return link_gone("reset") if email is None else Page("reset.html", {"email": email})

    async def reset(self, request: PageRequest) -> PageResponse:
        """Set the password, and end every session, including the current one."""
        link = request.path_params["link"]
        is_taken = bool(request.form.text("taken"))
        email = await self._people.find_address(link, Purpose.RESET_PASSWORD)
        password = request.form.text("password")
        try:
            ended = await self._people.reset(link, password, is_taken=is_taken)
        except WeakPassword as flaw:
            errors = {"password": sentence(flaw)}
            values = {"taken": "yes"} if is_taken else {}
            return Page("reset.html", {"email": email}, errors=errors, values=values)
        if ended is None:
            return link_gone("reset")
        if is_taken:
            facts = {"email": email, "ended": ended_labels(ended), "reset": ""}
            return Page("account/taken_back.html", facts, cookie=END_SESSION)
        return Redirect("/sign-in", notice="password-reset", cookie=END_SESSION)


DELETE: Final = f"{ACCOUNT}/delete"


class AccountDeletionPages:
    """Pages to delete an account.

    If the user wants to keep the credits, the first form moves them to a credit token, and the
    response shows the token and a second form, which deletes the account.  If the response is lost,
    the first form can be sent again: the response then shows the same token.
    """

    def __init__(self, deletion: AccountDeletion, credits_: AccountCredits) -> None:
        self._deletion = deletion
        self._credits = credits_

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the deletion of an account."""
        yield get(DELETE, self.ask, Access.FRESH)
        yield post(DELETE, self.leave, Access.FRESH)

    async def leave(self, request: PageRequest) -> PageResponse:
        """Delete the account if its user name was typed correctly."""
        here = request.signed_in
        if request.form.line("username") != here.user.username:
            errors = {"username": f"Type {here.user.username} here."}
            return await self.ask(request, errors)
        expect = None
        if request.form.text("keep") == "yes":
            seen = parse_place(request.form.text("seen")) or 0
            expect = self._credits.expect_kept(here.user.user_id, seen)
        try:
            await self._deletion.delete(here, expect)
        except CreditsLeft:
            return await self._keep(request)
        except NotPossible as error:
            return await self.ask(request, {"": sentence(error)})
        return Redirect(START, notice="account-deleted", cookie=END_SESSION)

    async def _keep(self, request: PageRequest) -> PageResponse:
        """Move the credits to a credit token, and ask the user to save it before the deletion."""
        try:
            kept = await self._credits.keep(request.signed_in)
        except NotPossible as error:
            return await self.ask(request, {"": sentence(error)})
        return Page("account/kept.html", {"kept": kept}) if kept else await self.ask(request)

    async def ask(self, request: PageRequest, errors: Mapping[str, str] = NO_ERRORS) -> Page:
        """Show which contents of the account are deleted with it."""
        kept = await self._credits.kept(request.user_id)
        facts = {
            "contents": await self._deletion.contents(request.signed_in),
            "kept_count": sum(each.credit_count for each in kept),
        }
        values = {"username": request.form.line("username")}
        return Page("account/delete.html", facts, errors, values)
