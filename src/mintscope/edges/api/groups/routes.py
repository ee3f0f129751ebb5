"""The operations under /v1/groups."""

from collections.abc import Sequence
from typing import Final

from mintscope.base.clock import Clock
from mintscope.base.errors import ErrorCode
from mintscope.edges.api.accounts.routes import AccountParts
from mintscope.edges.api.description.operation import Operation
from mintscope.edges.api.groups import texts, wire
from mintscope.edges.api.groups.handlers import GroupRoutes
from mintscope.edges.api.holdings.routes import EVERY_ROUTE, KEY, WITH_BODY
from mintscope.edges.server.rate_limit import AddressLimits

MAKING: Final = (*WITH_BODY, ErrorCode.NOT_FOUND, ErrorCode.IDEMPOTENCY_KEY_USED)
OF_A_MINT: Final = (*EVERY_ROUTE, ErrorCode.INVALID_TOKEN_ADDRESS, ErrorCode.NOT_FOUND)


def group_operations(
    parts: AccountParts, *, limits: AddressLimits, clock: Clock
) -> Sequence[Operation]:
    """Return the operations under /v1/groups."""
    gate = parts.gate(limits)
    groups = GroupRoutes(gate=gate, watchlists=parts.watchlists, clock=clock)
    return [*_of_lists(groups), *_of_mints(groups)]


def _of_lists(groups: GroupRoutes) -> list[Operation]:
    # fmt: off
    return [
        Operation(
            "GET", "/v1/groups", groups.list_groups, wire.Groups,
            "Watchlists of the account", description=texts.LIST,
            refusals=EVERY_ROUTE, proofs=KEY,
        ),
        Operation(
            "POST", "/v1/groups", groups.make_group, wire.FilledGroup,
            "Make a watchlist", description=texts.MAKE, takes_key=True,
            refusals=MAKING, status=201, proofs=KEY, body=wire.NewGroup,
        ),
        Operation(
            "GET", "/v1/groups/{groupId}", groups.get_group, wire.FilledGroup,
            "A watchlist and its mints", description=texts.GET,
            refusals=(*EVERY_ROUTE, ErrorCode.NOT_FOUND), proofs=KEY,
        ),
        Operation(
            "PATCH", "/v1/groups/{groupId}", groups.rename_group, wire.FilledGroup,
            "Give a watchlist another name", description=texts.RENAME,
            refusals=(*WITH_BODY, ErrorCode.NOT_FOUND),
            proofs=KEY, body=wire.NewGroup,
        ),
        Operation(
            "DELETE", "/v1/groups/{groupId}", groups.delete_group, wire.Groups,
            "Delete a watchlist", description=texts.DELETE,
            refusals=(*EVERY_ROUTE, ErrorCode.NOT_FOUND), proofs=KEY,
        ),
    ]
    # fmt: on


def _of_mints(groups: GroupRoutes) -> list[Operation]:
    # fmt: off
    return [
        Operation(
            "PUT", "/v1/groups/{groupId}/mints/{mint}", groups.add_group_mint, wire.FilledGroup,
            "Put a mint on a watchlist", description=texts.ADD,
            refusals=OF_A_MINT, proofs=KEY,
        ),
        Operation(
            "DELETE", "/v1/groups/{groupId}/mints/{mint}", groups.remove_group_mint,
            wire.FilledGroup, "Take a mint off a watchlist", description=texts.REMOVE,
            refusals=OF_A_MINT, proofs=KEY,
        ),
    ]
    # fmt: on
