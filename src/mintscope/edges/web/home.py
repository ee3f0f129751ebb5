"""The first page: what the service is, or where a signed-in person starts."""

from collections.abc import Iterable

from mintscope.core.accounts.application import ApplicationState
from mintscope.core.accounts.keys.api_key import KeyStatus
from mintscope.core.accounts.keys.api_keys import ApiKeys
from mintscope.core.accounts.people.people import People
from mintscope.core.accounts.reviews import Reviews
from mintscope.edges.web.pages.page import Page, PageResponse
from mintscope.edges.web.routes import START, PageRequest, PageRoute, get


class HomePages:
    """The page at `/`."""

    def __init__(self, people: People, keys: ApiKeys, review: Reviews, *, origin: str) -> None:
        self._people = people
        self._keys = keys
        self._review = review
        self._origin = origin

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        yield get(START, self.show)

    async def show(self, request: PageRequest) -> PageResponse:
        """Show the service to strangers, and what there is to do to people."""
        if request.session is None:
            return Page("home.html")
        user = request.session.user
        keys = await self._keys.of_user(user.user_id)
        return Page(
            "start.html",
            {
                "keys": sum(key.status(request.now) is KeyStatus.ACTIVE for key in keys),
                "sessions": len(await self._people.sessions(user.user_id)),
                "waiting": await self._waiting() if user.is_administrator else 0,
                "origin": self._origin,
            },
        )

    async def _waiting(self) -> int:
        """Return how many applications wait for a decision."""
        return (await self._review.counts()).get(ApplicationState.AWAITING_APPROVAL, 0)
