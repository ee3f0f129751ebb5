"""Endpoints of watchlists."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec

from mintscope.accounts.keys.key_gate import KeyGate
from mintscope.accounts.keys.scope import Scope
from mintscope.api.discovery.operation import account_operation
from mintscope.api.gate import idempotency_key
from mintscope.api.v1 import mint_of
from mintscope.api.wire import Wire, read_body, success
from mintscope.kit.clock import Clock
from mintscope.kit.errors import BadRequest, ErrorCode, IdempotencyKeyUsed, NotFound
from mintscope.kit.http.request import Request, parse_id
from mintscope.kit.http.response import Response
from mintscope.kit.primitives import PRINTABLE, about
from mintscope.solana.blocks import WSOL
from mintscope.watchlists.rows import (
    WATCHED_MAX,
    WATCHLIST_NAME_LENGTH_MAX,
    WATCHLISTS_MAX,
    WatchDenied,
    Watchlist,
    WatchlistId,
    WatchlistLine,
)
from mintscope.watchlists.watchlists import Watchlists

EXAMPLE_NAME = "Dogs"
GroupName = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=WATCHLIST_NAME_LENGTH_MAX,
        description="The name of the watchlist, in printable characters; names may repeat.",
        examples=[EXAMPLE_NAME],
        extra_json_schema={"pattern": PRINTABLE},
    ),
]


class GroupLine(Wire):
    """A watchlist, without its mints."""

    group_id: Annotated[int, about("The number of the watchlist.", 7)]
    name: Annotated[str, about("The name that its owner gave it.", EXAMPLE_NAME)]
    mint_count: Annotated[int, about("The number of mints on the watchlist.", 1)]
    created_at: Annotated[
        int, about("When the watchlist was created, Unix seconds.", 1_763_460_000)
    ]


class Groups(Wire):
    """The watchlists of an account."""

    groups: Annotated[list[GroupLine], about("In the order in which they were created.")]


class FilledGroup(GroupLine):
    """A watchlist with its mints."""

    mints: Annotated[list[str], about("Base58, in the order in which they were added.", [WSOL])]


class NewGroup(Wire, forbid_unknown_fields=True):
    """The body of a request that creates or renames a watchlist."""

    name: GroupName


TOO_MANY_LISTS: Final = f"expected at most {WATCHLISTS_MAX} watchlists: delete one before"
TOO_MANY_MINTS: Final = f"expected at most {WATCHED_MAX} mints on a watchlist: remove one before"
KEY_USED: Final = "The Idempotency-Key was sent with another request before; nothing was made."
NO_WATCHLIST: Final = "This account has no watchlist with this number."
NO_MINT: Final = (
    "This account has no watchlist with this number, or the watchlist does not have this mint."
)
DELETED: Final = "The watchlist that was made with this Idempotency-Key was deleted."
NOT_PRINTABLE: Final = "expected name to be printable, and not only spaces"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRoutes:
    """Handlers for the watchlists of an API key's user."""

    gate: KeyGate
    watchlists: Watchlists
    clock: Clock

    @account_operation("GET", "/v1/groups", Groups, Scope.GROUPS_READ)
    async def list_groups(self, request: Request) -> Response:
        """Watchlists of the account.

        Returns the watchlists of the account of the API key, each with the number of its mints, in
        the order in which they were made. Costs nothing.
        """
        holder = await self.gate.authorize(request)
        return self._groups(request, await self.watchlists.of_user(holder.key.user_id))

    @account_operation(
        "POST",
        "/v1/groups",
        FilledGroup,
        Scope.GROUPS_WRITE,
        ErrorCode.NOT_FOUND,
        body=NewGroup,
        status=201,
        takes_key=True,
    )
    async def make_group(self, request: Request) -> Response:
        """Make a watchlist.

        Makes a watchlist without mints in the account of the API key. An account may hold 20
        watchlists. Costs nothing.
        """
        holder = await self.gate.authorize(request)
        key, name = idempotency_key(request), await _name(request)
        made = await self.watchlists.make(holder.key.user_id, name, key)
        if made is WatchDenied.KEY_USED:
            raise IdempotencyKeyUsed(KEY_USED)
        if made is WatchDenied.TOO_MANY:
            raise BadRequest(TOO_MANY_LISTS)
        if isinstance(made, WatchDenied):
            raise NotFound(DELETED)
        return self._group(request, made, status=201)

    @account_operation("GET", "/v1/groups/{groupId}", FilledGroup, Scope.GROUPS_READ)
    async def get_group(self, request: Request) -> Response:
        """A watchlist and its mints.

        Returns a watchlist and its mints, in the order in which they were added. A watchlist of
        another account is not found. Costs nothing.
        """
        holder = await self.gate.authorize(request)
        return self._group(
            request, await self.watchlists.find(holder.key.user_id, _watchlist_id(request))
        )

    @account_operation(
        "PATCH", "/v1/groups/{groupId}", FilledGroup, Scope.GROUPS_WRITE, body=NewGroup
    )
    async def rename_group(self, request: Request) -> Response:
        """Give a watchlist another name.

        Gives a watchlist another name; its id and its mints do not change. Costs nothing.
        """
        holder = await self.gate.authorize(request)
        watchlist_id, name = _watchlist_id(request), await _name(request)
        renamed = await self.watchlists.rename(holder.key.user_id, watchlist_id, name)
        return self._group(request, renamed)

    @account_operation("DELETE", "/v1/groups/{groupId}", Groups, Scope.GROUPS_WRITE)
    async def delete_group(self, request: Request) -> Response:
        """Delete a watchlist.

        Deletes a watchlist and returns the remaining watchlists. Costs nothing.
        """
        holder = await self.gate.authorize(request)
        left = await self.watchlists.delete(holder.key.user_id, _watchlist_id(request))
        if left is None:
            raise NotFound(NO_WATCHLIST)
        return self._groups(request, left)

    @account_operation(
        "PUT",
        "/v1/groups/{groupId}/mints/{mint}",
        FilledGroup,
        Scope.GROUPS_WRITE,
        ErrorCode.INVALID_TOKEN_ADDRESS,
    )
    async def add_group_mint(self, request: Request) -> Response:
        """Put a mint on a watchlist.

        Puts a mint at the end of a watchlist, which may hold 200; if the mint is already there,
        nothing changes. A mint need not be tracked. Costs nothing.
        """
        holder = await self.gate.authorize(request)
        watchlist_id = _watchlist_id(request)
        mint = mint_of(request.path_params["mint"])
        added = await self.watchlists.add(holder.key.user_id, watchlist_id, mint)
        if added is WatchDenied.TOO_MANY:
            raise BadRequest(TOO_MANY_MINTS)
        return self._group(request, None if isinstance(added, WatchDenied) else added)

    @account_operation(
        "DELETE",
        "/v1/groups/{groupId}/mints/{mint}",
        FilledGroup,
        Scope.GROUPS_WRITE,
        ErrorCode.INVALID_TOKEN_ADDRESS,
    )
    async def remove_group_mint(self, request: Request) -> Response:
        """Take a mint off a watchlist.

        Takes a mint off a watchlist; not found if the watchlist does not have the mint. Costs
        nothing.
        """
        holder = await self.gate.authorize(request)
        watchlist_id = _watchlist_id(request)
        mint = mint_of(request.path_params["mint"])
        left = await self.watchlists.remove(holder.key.user_id, watchlist_id, mint)
        if left is None:
            raise NotFound(NO_MINT)
        return self._group(request, left)

    def _groups(self, request: Request, lines: Sequence[WatchlistLine]) -> Response:
        groups = Groups(groups=[GroupLine(**_line_facts(line)) for line in lines])
        return success(request, groups, at=self.clock.now())

    def _group(self, request: Request, watchlist: Watchlist | None, status: int = 200) -> Response:
        if watchlist is None:
            raise NotFound(NO_WATCHLIST)
        group = FilledGroup(**_line_facts(watchlist.line), mints=[*watchlist.mints])
        return success(request, group, at=self.clock.now(), status=status)


def _line_facts(line: WatchlistLine) -> dict[str, Any]:
    """Return *line* as the fields of GroupLine, with `created_at` in Unix seconds."""
    return {
        "group_id": line.watchlist_id,
        "name": line.name,
        "mint_count": line.mint_count,
        "created_at": line.created_at // 1000,
    }


async def _name(request: Request) -> str:
    name = (await read_body(request, NewGroup)).name.strip()
    if not name or not name.isprintable():
        raise BadRequest(NOT_PRINTABLE)
    return name


def _watchlist_id(request: Request) -> WatchlistId:
    return WatchlistId(parse_id(request.path_params["groupId"], NO_WATCHLIST))
