"""Descriptions of the account endpoints for programs."""

from typing import Final

APPLY: Final = (
    "Takes an application for an API key and returns its secret, shown once. An e-mail with a code"
    " goes to the mailbox; an administrator reviews the application once it is confirmed, usually"
    " within 24 to 48 hours. Costs nothing. With an Idempotency-Key, a lost answer is given again"
    " for ten minutes."
)
CONFIRM: Final = (
    "Confirms the mailbox of an application by the code of the e-mail; then it awaits its review."
    " Costs nothing."
)
STATUS: Final = (
    "Returns how far an application is, without spending an attempt at the exchange. Costs nothing."
)
EXCHANGE: Final = (
    "Returns the API key of an approved application, once: its secret is void from then on. At most"
    " one attempt in 5 seconds. Costs nothing. With an Idempotency-Key, a lost answer is given"
    " again for ten minutes."
)
ME: Final = "Returns the owner of the API key in Authorization, and its scopes. Costs nothing."
ROTATE: Final = (
    "Returns another API key, shown once, with the name, scopes, cap and end of the key in"
    " Authorization, which stays valid for `overlap`: 1h unless the body says 24h or 7d. With an"
    " Idempotency-Key, a lost answer is returned again while the old key is valid. Costs nothing."
)
REVOKE: Final = (
    "Revokes the API key in Authorization at once: rotate it first to keep access. Costs nothing."
)
ASK: Final = (
    "Asks the administrators to give the API key in Authorization, and the keys that it is rotated"
    " into, further scopes. GET /v1/me has its scopes, and in `scopesAskedFor` the undecided ones."
    " Costs nothing."
)
