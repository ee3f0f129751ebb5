"""Pages of a user's watchlists; the response for a watchlist of another user is 404."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Final

from mintscope.kit.errors import InvalidTokenAddress, NotFound, ServiceUnavailable
from mintscope.kit.http.request import parse_id
from mintscope.kit.primitives import parse_mint
from mintscope.market.screening.listed import ListQuestion
from mintscope.site.page import NO_ERRORS, Page, PageResponse, Redirect
from mintscope.site.routes import Access, PageRequest, PageRoute, get, post, sentence
from mintscope.site.token.listing import ShownToken, TokenLines, TokenSearch
from mintscope.watchlists import rows
from mintscope.watchlists.watchlists import Watchlists

PATH: Final = "/watchlists"
ONE: Final = f"{PATH}/{{watchlist}}"
NO_ROOM: Final = f"You have {rows.WATCHLISTS_MAX} watchlists, which is the maximum."
FULL: Final = f"There are {rows.WATCHED_MAX} tokens on this watchlist, which is the maximum."
NOT_A_NAME: Final = f"Enter a name of 1 to {rows.WATCHLIST_NAME_LENGTH_MAX} printable characters."
MADE_BEFORE: Final = "This form has already created a watchlist. Send it again to create another."
ONCE_BYTES: Final = 16
ONCE_LENGTH_MAX: Final = 2 * ONCE_BYTES
REFUSALS: Final[Mapping[rows.WatchDenied, str]] = {
    rows.WatchDenied.TOO_MANY: NO_ROOM,
    rows.WatchDenied.KEY_USED: MADE_BEFORE,
    rows.WatchDenied.NOT_FOUND: MADE_BEFORE,
}


@dataclass(eq=False, repr=False)
class WatchlistPages:
    """The pages of watchlists.

    lines    the list of tokens; None if the service has no list
    search   finds tokens by a text, for the form that adds a token
    """

    watchlists: Watchlists
    lines: TokenLines | None
    search: TokenSearch

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the pages of watchlists."""
        signed_in = Access.SIGNED_IN
        yield get(PATH, self.list, signed_in)
        yield post(PATH, self.make, signed_in, keeps=("name",))
        yield get(ONE, self.show, signed_in)
        yield post(f"{ONE}/rename", self.rename, signed_in, keeps=("name",), keeps_on=ONE)
        yield post(f"{ONE}/add", self.add, signed_in, keeps=("mint",), keeps_on=ONE)
        yield post(f"{ONE}/remove", self.remove, signed_in)
        yield get(f"{ONE}/delete", self.ask_delete, signed_in)
        yield post(f"{ONE}/delete", self.delete, signed_in)

    async def list(
        self, request: PageRequest, errors: Mapping[str, str] = NO_ERRORS, name: str = ""
    ) -> PageResponse:
        """Show all watchlists of the user, and the form for a new one.

        errors    messages about the form, by field
        name      the text in the field for the name
        """
        lines = await self.watchlists.of_user(request.user_id)
        once = token_hex(ONCE_BYTES)  # so that sending the form twice creates one watchlist
        facts = {"watchlists": lines, "most": rows.WATCHLISTS_MAX, "once": once}
        return Page("watchlists/list.html", facts, errors=errors, values={"name": name})

    async def make(self, request: PageRequest) -> PageResponse:
        """Create a watchlist, and redirect to its page; or show all watchlists with an error.

        A form that is sent several times creates only one watchlist.
        """
        name = request.form.line("name")
        if not _is_name(name):
            return await self.list(request, {"name": NOT_A_NAME}, name)
        once = request.form.text("once")[:ONCE_LENGTH_MAX] or None
        made = await self.watchlists.make(request.user_id, name, once)
        if isinstance(made, rows.WatchDenied):
            return await self.list(request, {"name": REFUSALS[made]}, name)
        return Redirect(_address(made), notice="watchlist-made")

    async def show(self, request: PageRequest) -> PageResponse:
        """Show the tokens of a watchlist.  Raises NotFound."""
        return await self._show(await self._own(request))

    async def rename(self, request: PageRequest) -> PageResponse:
        """Rename a watchlist.  Raises NotFound."""
        found, name = await self._own(request), request.form.line("name")
        if not _is_name(name):
            return await self._show(found, {"name": NOT_A_NAME}, {"name": name})
        if await self.watchlists.rename(request.user_id, found.line.watchlist_id, name) is None:
            raise NotFound
        return Redirect(_address(found), notice="watchlist-renamed")

    async def add(self, request: PageRequest) -> PageResponse:
        """Add the typed mint to a watchlist; for any other text, show the tokens that match it.

        Raises NotFound.
        """
        found, text = await self._own(request), request.form.line("mint")
        # The button of a found token sends its mint as `choose`.
        text, values = request.form.line("choose") or text, {"mint": text}
        try:
            mint = parse_mint(text)
        except InvalidTokenAddress as error:
            if request.form.text("find"):
                return await self._show(found, {}, values, await self.search.find(text))
            flaw, tokens = await self.search.flaw(text, sentence(error))
            return await self._show(found, {"mint": flaw}, values, tokens)
        added = await self.watchlists.add(request.user_id, found.line.watchlist_id, mint)
        if added is rows.WatchDenied.TOO_MANY:
            return await self._show(found, {"mint": FULL}, values)
        if added is rows.WatchDenied.NOT_FOUND:
            raise NotFound
        return Redirect(_address(found))

    async def remove(self, request: PageRequest) -> PageResponse:
        """Remove a token from a watchlist; do nothing if it is not there.  Raises NotFound."""
        found = await self._own(request)
        try:
            mint = parse_mint(request.form.line("mint"))
        except InvalidTokenAddress:
            raise NotFound from None
        await self.watchlists.remove(request.user_id, found.line.watchlist_id, mint)
        return Redirect(_address(found))

    async def ask_delete(self, request: PageRequest) -> PageResponse:
        """Ask for confirmation before a watchlist is deleted.  Raises NotFound."""
        return Page("watchlists/delete.html", {"watchlist": await self._own(request)})

    async def delete(self, request: PageRequest) -> PageResponse:
        """Delete a watchlist.  Raises NotFound."""
        found = await self._own(request)
        await self.watchlists.delete(request.user_id, found.line.watchlist_id)
        return Redirect(PATH, notice="watchlist-deleted")

    async def _own(self, request: PageRequest) -> rows.Watchlist:
        watchlist_id = rows.WatchlistId(parse_id(request.path_params["watchlist"]))
        found = await self.watchlists.find(request.user_id, watchlist_id)
        if found is None:
            raise NotFound
        return found

    async def _show(
        self,
        found: rows.Watchlist,
        errors: Mapping[str, str] = NO_ERRORS,
        values: Mapping[str, str] | None = None,
        tokens: Sequence[ShownToken] | None = None,
    ) -> Page:
        """Return the page of a watchlist.

        tokens   the tokens that a search has found; None: there was no search
        """
        shown = {each.mint: each for each in await self._shown(found)}
        facts = {
            "watchlist": found,
            "tokens": [(mint, shown.get(mint)) for mint in found.mints],
            "most": rows.WATCHED_MAX,
            "found": tokens or [],
            "is_looked_for": tokens is not None,
        }
        values = {"name": found.line.name} | dict(values or {})
        return Page("watchlists/show.html", facts, errors=errors, values=values)

    async def _shown(self, found: rows.Watchlist) -> Iterable[ShownToken]:
        """Return the list rows of a watchlist's tracked tokens; empty without a list."""
        if self.lines is None or not found.mints:
            return []
        asked = ListQuestion(among=found.mints, limit=rows.WATCHED_MAX)
        try:
            return (await self.lines.page(asked)).lines
        except ServiceUnavailable:
            return []


def _address(watchlist: rows.Watchlist) -> str:
    return f"{PATH}/{watchlist.line.watchlist_id}"


def _is_name(name: str) -> bool:
    return 0 < len(name) <= rows.WATCHLIST_NAME_LENGTH_MAX and name.isprintable()
