"""Setting a new password with a link sent to the mailbox."""

from collections.abc import Iterable

from mintscope.core.accounts.email_address import UnusableEmailAddress, parse_email
from mintscope.core.accounts.people.password import WeakPassword
from mintscope.core.accounts.people.people import People
from mintscope.edges.web.forms.visit import Visit
from mintscope.edges.web.forms.words import sentence
from mintscope.edges.web.pages.reply import END_SESSION, UNMET, Goto, Page, Reply, link_gone
from mintscope.edges.web.routes import Route


class RecoveryPages:
    """For people who cannot sign in."""

    def __init__(self, people: People) -> None:
        self._people = people

    def routes(self) -> Iterable[Route]:
        """Return the rows of this group."""
        yield Route(method="GET", path="/forgot", handler=self.ask_address)
        yield Route(method="POST", path="/forgot", handler=self.send_link)
        yield Route(method="GET", path="/reset/{link}", handler=self.ask_password)
        yield Route(method="POST", path="/reset/{link}", handler=self.reset)

    async def ask_address(self, visit: Visit) -> Reply:
        """Ask whose password it is."""
        values = {"email": visit.session.user.email} if visit.session else {}
        return Page("forgot.html", values=values)

    async def send_link(self, visit: Visit) -> Reply:
        """Write to the mailbox; the answer is the same whether it is anybody's."""
        address = visit.form.line("email")
        try:
            email = parse_email(address)
        except UnusableEmailAddress as flaw:
            errors = {"email": sentence(flaw)}
            return Page("forgot.html", errors=errors, values={"email": address}, status=UNMET)
        await self._people.request_reset(email, visit.browser)
        return Goto("/forgot", notice="reset-sent")

    async def ask_password(self, visit: Visit) -> Reply:
        """Ask for the new password; looking at the page does not use the link up."""
        email = await self._people.find_reset(visit.parameters["link"])
        return link_gone("reset") if email is None else Page("reset.html", {"email": email})

    async def reset(self, visit: Visit) -> Reply:
        """Set the password; whoever was signed in is no more, here too."""
        link = visit.parameters["link"]
        try:
            is_done = await self._people.reset(link, visit.form.text("password"))
        except WeakPassword as flaw:
            email = await self._people.find_reset(link)
            errors = {"password": sentence(flaw)}
            return Page("reset.html", {"email": email}, errors=errors, status=UNMET)
        if not is_done:
            return link_gone("reset")
        return Goto("/sign-in", notice="password-reset", cookie=END_SESSION)
