"""The bodies under /v1/groups."""

from typing import Annotated

import msgspec

from mintscope.base.primitives import PRINTABLE, about
from mintscope.base.solana import WSOL
from mintscope.core.accounts.holdings.watchlists import WATCHLIST_NAME_LENGTH_MAX
from mintscope.edges.api.wire import Wire

EXAMPLE_NAME = "Dogs"
GroupName = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=WATCHLIST_NAME_LENGTH_MAX,
        description="Its name, printable; names may repeat.",
        examples=[EXAMPLE_NAME],
        extra_json_schema={"pattern": PRINTABLE},
    ),
]


class GroupLine(Wire):
    """A watchlist, without its mints."""

    group_id: Annotated[int, about("The number of the watchlist.", 7)]
    name: Annotated[str, about("The name its owner gave it.", EXAMPLE_NAME)]
    mint_count: Annotated[int, about("How many mints are on it.", 1)]
    created_at: Annotated[int, about("When it was made, Unix seconds.", 1_763_460_000)]


class Groups(Wire):
    """The watchlists of an account."""

    groups: Annotated[list[GroupLine], about("In the order in which they were made.")]


class FilledGroup(GroupLine):
    """A watchlist with its mints."""

    mints: Annotated[list[str], about("Base58, in the order in which they were added.", [WSOL])]


class NewGroup(Wire, forbid_unknown_fields=True):
    """The name that a watchlist is given."""

    name: GroupName
