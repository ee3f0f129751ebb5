"""The first page: what the service is, or where a signed-in person starts."""

from collections.abc import Iterable

from mintscope.web.reply import Page, Reply
from mintscope.web.routes import Route
from mintscope.web.visit import Visit


class HomePages:
    """The page at `/`."""

    def routes(self) -> Iterable[Route]:
        """Return the rows of this group."""
        yield Route(method="GET", path="/", handler=self.show)

    async def show(self, visit: Visit) -> Reply:
        """Show the service to strangers, and the start to people."""
        return Page("home.html" if visit.session is None else "start.html")
