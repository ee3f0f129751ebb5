"""Descriptions of the operations under /v1/signals for programs."""

from typing import Final

LIST: Final = (
    "Returns the signals of the account of the API key, in the order in which they were made."
    " Costs nothing."
)
MAKE: Final = (
    "Makes an alert rule over one number of a token's report, checked after every slot with a trade"
    " of it. It fires when the number crosses a level or another number, or moves so many percent"
    " within a window: once, hourly or each time, as `fires` says; the first look fires nothing."
    " With candles=closed it is checked as each minute ends. Webhooks are signed with"
    " webhookSecret, shown only here (Standard Webhooks), and retried for 24 hours. An account may"
    " hold 20. Costs nothing."
)
GET: Final = "Returns a signal. One of another account is not found. Costs nothing."
CHANGE: Final = (
    "Changes what is named, and nothing else; the mint, the fields and the kind stay. After another"
    " level, margin, percent, window, candles, fires or expiresAt, and after being inactive, the"
    " signal begins again:"
    " its first look fires nothing. A webhook that was disabled is tried again once it has another"
    " address, or was inactive and is active again. Costs nothing."
)
DELETE: Final = (
    "Deletes a signal and its events, and returns the signals that are left. Costs nothing."
)
EVENTS: Final = (
    "Returns what a signal has fired in the last 30 days, newest first, and what became of the"
    " webhook and the e-mail. Costs nothing."
)
RENEW: Final = (
    "Makes another webhook secret and returns it, this once. For 24 hours webhooks are signed with"
    " both. Costs nothing."
)
TEST: Final = (
    "Notifies the owner of a signal now, as if it fired, with a made-up"
    " number; the webhook has the type `signal.test`. Ten times an hour. Costs nothing."
)
