"""Descriptions of the operations under /v1/groups for programs."""

from typing import Final

LIST: Final = (
    "Returns the watchlists of the account of the API key, each with the number of its mints, in"
    " the order in which they were made. Costs nothing."
)
MAKE: Final = (
    "Makes a watchlist without mints in the account of the API key, which may hold 20. Costs"
    " nothing."
)
GET: Final = (
    "Returns a watchlist and its mints, in the order in which they were added. One of another"
    " account is not found. Costs nothing."
)
RENAME: Final = "Gives a watchlist another name; its number and its mints stay. Costs nothing."
DELETE: Final = "Deletes a watchlist and returns those that are left. Costs nothing."
ADD: Final = (
    "Puts a mint at the end of a watchlist, which may hold 200; if it is there, nothing changes. It"
    " need not be tracked. Costs nothing."
)
REMOVE: Final = "Takes a mint off a watchlist; not found if it is not on it. Costs nothing."
