"""The watchlists of a user: made, named, filled, emptied, deleted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mintscope.base.clock import Clock
from mintscope.base.errors import BadRequest, ErrorCode, IdempotencyKeyUsed, NotFound
from mintscope.core.accounts.holdings.watching import Watchlists
from mintscope.core.accounts.holdings.watchlists import (
    WATCHED_MAX,
    WATCHLISTS_MAX,
    WatchDenied,
    Watchlist,
    WatchlistId,
    WatchlistLine,
)
from mintscope.core.accounts.keys.scope import Scope
from mintscope.edges.api.accounts.key_gate import KeyGate
from mintscope.edges.api.description.operation import EVERY_ROUTE, KEY, WITH_BODY, Operation
from mintscope.edges.api.groups.wire import FilledGroup, GroupLine, Groups, NewGroup
from mintscope.edges.api.holdings.body import read_body
from mintscope.edges.api.v1 import mint_of
from mintscope.edges.api.wire import success
from mintscope.edges.api.x402 import idempotency_key
from mintscope.edges.server.request import Request, parse_id
from mintscope.edges.server.response import Response

MAKING: Final = (*WITH_BODY, ErrorCode.NOT_FOUND, ErrorCode.IDEMPOTENCY_KEY_USED)
OF_A_MINT: Final = (*EVERY_ROUTE, ErrorCode.INVALID_TOKEN_ADDRESS, ErrorCode.NOT_FOUND)
TOO_MANY_LISTS: Final = f"expected at most {WATCHLISTS_MAX} watchlists: delete one before"
TOO_MANY_MINTS: Final = f"expected at most {WATCHED_MAX} mints on a watchlist: remove one before"
KEY_USED: Final = "The Idempotency-Key was sent with another request before; nothing was made."
NOT_PRINTABLE: Final = "body: expected name to be printable, and not only spaces"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRoutes:
    """Keeps watchlists for the user of an API key."""

    gate: KeyGate
    watchlists: Watchlists
    clock: Clock

    @Operation(
        "GET", "/v1/groups", Groups, refusals=EVERY_ROUTE, proofs=KEY, scope=Scope.GROUPS_READ
    )
    async def list_groups(self, request: Request) -> Response:
        """Watchlists of the account.

        Returns the watchlists of the account of the API key, each with the number of its mints, in
        the order in which they were made. Costs nothing.
        """
        holder = await self.gate.authorize(request, Scope.GROUPS_READ)
        return self._groups(request, await self.watchlists.of_user(holder.key.user_id))

    @Operation(
        "POST",
        "/v1/groups",
        FilledGroup,
        takes_key=True,
        refusals=MAKING,
        status=201,
        proofs=KEY,
        body=NewGroup,
        scope=Scope.GROUPS_WRITE,
    )
    async def make_group(self, request: Request) -> Response:
        """Make a watchlist.

        Makes a watchlist without mints in the account of the API key, which may hold 20. Costs
        nothing.
        """
        holder = await self.gate.authorize(request, Scope.GROUPS_WRITE)
        key, name = idempotency_key(request), await _name(request)
        made = await self.watchlists.make(holder.key.user_id, name, key)
        if made is WatchDenied.KEY_USED:
            raise IdempotencyKeyUsed(KEY_USED)
        if made is WatchDenied.TOO_MANY:
            raise BadRequest(TOO_MANY_LISTS)
        if isinstance(made, WatchDenied):
            raise NotFound  # it was deleted since
        return self._group(request, made, status=201)

    @Operation(
        "GET",
        "/v1/groups/{groupId}",
        FilledGroup,
        refusals=(*EVERY_ROUTE, ErrorCode.NOT_FOUND),
        proofs=KEY,
        scope=Scope.GROUPS_READ,
    )
    async def get_group(self, request: Request) -> Response:
        """A watchlist and its mints.

        Returns a watchlist and its mints, in the order in which they were added. One of another
        account is not found. Costs nothing.
        """
        holder = await self.gate.authorize(request, Scope.GROUPS_READ)
        return self._group(
            request, await self.watchlists.find(holder.key.user_id, _watchlist_id(request))
        )

    @Operation(
        "PATCH",
        "/v1/groups/{groupId}",
        FilledGroup,
        refusals=(*WITH_BODY, ErrorCode.NOT_FOUND),
        proofs=KEY,
        body=NewGroup,
        scope=Scope.GROUPS_WRITE,
    )
    async def rename_group(self, request: Request) -> Response:
        """Give a watchlist another name.

        Gives a watchlist another name; its number and its mints stay. Costs nothing.
        """
        holder = await self.gate.authorize(request, Scope.GROUPS_WRITE)
        watchlist_id, name = _watchlist_id(request), await _name(request)
        renamed = await self.watchlists.rename(holder.key.user_id, watchlist_id, name)
        return self._group(request, renamed)

    @Operation(
        "DELETE",
        "/v1/groups/{groupId}",
        Groups,
        refusals=(*EVERY_ROUTE, ErrorCode.NOT_FOUND),
        proofs=KEY,
        scope=Scope.GROUPS_WRITE,
    )
    async def delete_group(self, request: Request) -> Response:
        """Delete a watchlist.

        Deletes a watchlist and returns those that are left. Costs nothing.
        """
        holder = await self.gate.authorize(request, Scope.GROUPS_WRITE)
        left = await self.watchlists.delete(holder.key.user_id, _watchlist_id(request))
        if left is None:
            raise NotFound
        return self._groups(request, left)

    @Operation(
        "PUT",
        "/v1/groups/{groupId}/mints/{mint}",
        FilledGroup,
        refusals=OF_A_MINT,
        proofs=KEY,
        scope=Scope.GROUPS_WRITE,
    )
    async def add_group_mint(self, request: Request) -> Response:
        """Put a mint on a watchlist.

        Puts a mint at the end of a watchlist, which may hold 200; if it is there, nothing changes.
        It need not be tracked. Costs nothing.
        """
        holder = await self.gate.authorize(request, Scope.GROUPS_WRITE)
        watchlist_id = _watchlist_id(request)
        mint = mint_of(request.path_params["mint"])
        added = await self.watchlists.add(holder.key.user_id, watchlist_id, mint)
        if added is WatchDenied.TOO_MANY:
            raise BadRequest(TOO_MANY_MINTS)
        return self._group(request, None if isinstance(added, WatchDenied) else added)

    @Operation(
        "DELETE",
        "/v1/groups/{groupId}/mints/{mint}",
        FilledGroup,
        refusals=OF_A_MINT,
        proofs=KEY,
        scope=Scope.GROUPS_WRITE,
    )
    async def remove_group_mint(self, request: Request) -> Response:
        """Take a mint off a watchlist.

        Takes a mint off a watchlist; not found if it is not on it. Costs nothing.
        """
        holder = await self.gate.authorize(request, Scope.GROUPS_WRITE)
        watchlist_id = _watchlist_id(request)
        mint = mint_of(request.path_params["mint"])
        left = await self.watchlists.remove(holder.key.user_id, watchlist_id, mint)
        return self._group(request, left)

    def _groups(self, request: Request, lines: Sequence[WatchlistLine]) -> Response:
        groups = [
            GroupLine(
                group_id=line.watchlist_id,
                name=line.name,
                mint_count=line.mint_count,
                created_at=line.created_at // 1000,
            )
            for line in lines
        ]
        return success(request, Groups(groups=groups), at=self.clock.now())

    def _group(self, request: Request, watchlist: Watchlist | None, status: int = 200) -> Response:
        if watchlist is None:
            raise NotFound
        line = watchlist.line
        group = FilledGroup(
            group_id=line.watchlist_id,
            name=line.name,
            mint_count=line.mint_count,
            created_at=line.created_at // 1000,
            mints=[*watchlist.mints],
        )
        return success(request, group, at=self.clock.now(), status=status)


async def _name(request: Request) -> str:
    name = (await read_body(request, NewGroup)).name.strip()
    if not name or not name.isprintable():
        raise BadRequest(NOT_PRINTABLE)
    return name


def _watchlist_id(request: Request) -> WatchlistId:
    return WatchlistId(parse_id(request.path_params["groupId"]))
