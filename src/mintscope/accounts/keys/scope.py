"""The scopes of API keys: permissions such as `signals:read`."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple


class Scope(StrEnum):
    """A permission, `area:verb`; the members are in the order in which they are shown."""

    TRADE_READ = "trade:read"
    TRADE_WRITE = "trade:write"
    WALLETS_READ = "wallets:read"
    WALLETS_WRITE = "wallets:write"
    SIGNALS_READ = "signals:read"
    SIGNALS_WRITE = "signals:write"
    GROUPS_READ = "groups:read"
    GROUPS_WRITE = "groups:write"

    @property
    def area(self) -> str:
        """The part of the scope before the colon, such as `trade`."""
        return self.value.partition(":")[0]

    @property
    def is_write(self) -> bool:
        """Whether the scope allows changes."""
        return self.value.endswith(":write")


class Area(NamedTuple):
    """A part of the API, such as alerts, with a scope for reading and a scope for writing.

    name    the part of the scopes before the colon
    title   the area's name on pages
    read    what a key with the read scope may do, as a sentence on pages
    write   what a key with the write scope may do, as a sentence on pages
    """

    name: str
    title: str
    read: str
    write: str


# The areas whose scopes people and agents can request.
AREAS: Final = (
    Area(
        "trade",
        "Data and credits",
        "Spend the credits of your account on data, and see its spending.",
        "Buy credits, move credits between your account and credit tokens, and lower caps.",
    ),
    Area(
        "wallets",
        "Wallets",
        "See linked wallets and their payments.",
        "Link and unlink wallets.",
    ),
    Area(
        "signals",
        "Alerts",
        "See alerts and their firings.",
        "Make, change, test and delete alerts.",
    ),
    Area("groups", "Watchlists", "See watchlists.", "Make, change and delete watchlists."),
)
OPEN_SCOPES: Final = frozenset(
    scope for scope in Scope if scope.area in {area.name for area in AREAS}
)
READ_SCOPES: Final = frozenset(scope for scope in Scope if not scope.is_write)


class UnknownScope(ValueError):
    """A text that is not the name of a scope."""


def parse_scopes(texts: Iterable[str]) -> frozenset[Scope]:
    """Return the scopes named in *texts*.  Raises UnknownScope, which lists the valid scopes."""
    scopes = set()
    for text in texts:
        try:
            scopes.add(Scope(text))
        except ValueError:
            known = ", ".join(Scope)
            raise UnknownScope(f"expected scopes among {known}; was {text!r}") from None
    return frozenset(scopes)


def in_order(scopes: Iterable[Scope]) -> list[Scope]:
    """Return *scopes* in the order in which they are shown."""
    wanted = frozenset(scopes)
    return [scope for scope in Scope if scope in wanted]


def with_reads(scopes: Iterable[Scope]) -> frozenset[Scope]:
    """Return *scopes* and, for each write scope, the read scope of the same area."""
    chosen = frozenset(scopes)
    return chosen | {Scope(f"{scope.area}:read") for scope in chosen}
