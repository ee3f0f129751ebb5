"""Descriptions of the operations under /v1/account for programs."""

from typing import Final

HOLDINGS: Final = (
    "Returns the credits of the account of the API key, and of each of its active keys what it"
    " has spent this month and may spend. Costs nothing."
)
CAP: Final = (
    "Lowers what an API key of the account may spend in a calendar month (UTC), or sets a cap"
    " where there is none; only its owner can raise it, on the pages. Costs nothing."
)
DEPOSIT: Final = (
    "Moves credits of a credit token into the account of the API key, all of them unless the body"
    " says how many. With an Idempotency-Key a repeated request moves nothing twice. Costs"
    " nothing."
)
WITHDRAW: Final = (
    "Moves credits of the account of the API key to a new credit token, which the answer shows."
    " A key that has a cap cannot. With an Idempotency-Key a repeated request returns the same"
    " token again. Costs nothing."
)
WALLETS: Final = (
    "Returns the wallets whose owner has proven to be the user of the API key. Costs nothing."
)
CHALLENGE: Final = (
    "Returns a text for a wallet to sign, good for 5 minutes; signed, it links the wallet to the"
    " account. Costs nothing."
)
LINK: Final = (
    "Links the wallet that has signed the challenge to the account, so that its payments are"
    " listed there. Costs nothing."
)
UNLINK: Final = (
    "Unlinks a wallet from the account; its payments are not listed there any more. Costs nothing."
)
PAYMENTS: Final = (
    "Returns the payments of the wallets that are linked to the account, newest first: what was"
    " asked for, what arrived, and what became of it. Costs nothing."
)
