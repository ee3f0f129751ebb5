"""Another e-mail address: asked for, confirmed by its reader, undone by the reader of the old."""

from collections.abc import Iterable
from typing import Final

from mintscope.core.accounts.email_address import UnusableEmailAddress, parse_email
from mintscope.core.accounts.people.address_change import AddressChanges
from mintscope.core.accounts.people.person import EmailTaken
from mintscope.core.accounts.people.taking_back import Ended
from mintscope.edges.web.form import sentence
from mintscope.edges.web.pages.page import END_SESSION, Page, PageResponse, Redirect, link_gone
from mintscope.edges.web.routes import Access, PageRequest, PageRoute, get, post, shows
from mintscope.edges.web.session.account import ACCOUNT

EMAIL: Final = f"{ACCOUNT}/email"
OWN: Final = "This is your address already."
KINDS: Final = {
    "sessions": ("One session.", "sessions."),
    "keys": ("One API key.", "API keys."),
    "factors": ("One second factor.", "second factors."),
    "wallets": ("One linked wallet.", "linked wallets."),
    "alerts": ("One alert rule.", "alert rules."),
    "webhooks": (
        "The webhook of one alert rule, whose address was changed.",
        "webhooks of alert rules, whose addresses were changed.",
    ),
    "caps": (
        "One cap of an API key is as it was before.",
        "caps of API keys are as they were before.",
    ),
}
TAKEN: Final = "There is an account with this address already."


class AddressPages:
    """Changes of an address, and the objection of the owner of the old one."""

    def __init__(self, changes: AddressChanges) -> None:
        self._changes = changes

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        change = "/change-email/{link}"
        undo = "/undo-email/{link}"
        yield get(EMAIL, shows(Page("account/email.html")), Access.FRESH)
        yield post(EMAIL, self.send_link, Access.FRESH)
        yield get(change, self.ask_change, Access.FRESH)
        yield post(change, self.change, Access.FRESH)
        yield get(undo, self.ask_undo)
        yield post(undo, self.undo)

    async def send_link(self, request: PageRequest) -> PageResponse:
        """Write to the new address; nothing changes yet."""
        address = request.form.line("email")
        try:
            email = parse_email(address)
            if email == request.signed_in.user.email:
                return _again(address, OWN)
            await self._changes.request(request.signed_in, email)
        except UnusableEmailAddress as flaw:
            return _again(address, sentence(flaw))
        except EmailTaken:
            return _again(address, TAKEN)
        return Redirect(ACCOUNT, notice="address-sent")

    async def ask_change(self, request: PageRequest) -> PageResponse:
        """Offer the button."""
        link = request.path_params["link"]
        email = await self._changes.find(request.signed_in, link)
        return link_gone("address") if email is None else _change(email)

    async def change(self, request: PageRequest) -> PageResponse:
        """Change the address of the person signed in, if the link was asked for in that account."""
        link = request.path_params["link"]
        email = await self._changes.find(request.signed_in, link)
        if email is None:
            return link_gone("address")
        try:
            is_done = await self._changes.confirm(request.signed_in, link)
        except EmailTaken:
            return _change(email, TAKEN)
        return Redirect(ACCOUNT, notice="address-changed") if is_done else link_gone("address")

    async def ask_undo(self, request: PageRequest) -> PageResponse:
        """Say what the button does."""
        email = await self._changes.find_undo(request.path_params["link"])
        return link_gone("undo") if email is None else _undo(email)

    async def undo(self, request: PageRequest) -> PageResponse:
        """Bring the old address back, say what was ended, and go on to a new password."""
        link = request.path_params["link"]
        email = await self._changes.find_undo(link)
        if email is None:
            return link_gone("undo")
        try:
            found = await self._changes.undo(link)
        except EmailTaken:
            return _undo(email, TAKEN)
        if found is None:
            return link_gone("undo")
        facts = {"email": email, "ended": told(found.ended), "reset": f"/reset/{found.reset}"}
        return Page("account/taken_back.html", facts, cookie=END_SESSION)


def told(ended: Ended) -> list[str]:
    """Return what was ended, a line for each kind."""
    lines = []
    for name, (one, many) in KINDS.items():
        count = getattr(ended, name)
        if count:
            lines.append(one if count == 1 else f"{count} {many}")
    return lines


def _again(address: str, error: str) -> Page:
    return Page("account/email.html", errors={"email": error}, values={"email": address})


def _change(email: str, error: str = "") -> Page:
    errors = {"": error} if error else {}
    return Page("account/change_email.html", {"email": email}, errors)


def _undo(email: str, error: str = "") -> Page:
    errors = {"": error} if error else {}
    return Page("account/undo_email.html", {"email": email}, errors)
