"""Fuzz targets for data from strangers: wallets, ids of purchases, webhook URLs and budgets."""

import json
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, Final

import httpx

from mintscope.accounts.factors import plain
from mintscope.accounts.wallets import api as wallets
from mintscope.alerts.deliveries import url_flaw
from mintscope.api import credits as rotate
from mintscope.api.wire import Claimed
from mintscope.kit.errors import BadRequest
from mintscope.mcp.budget import UnreadableBudget, read_budget
from prove.fuzz.inputs import changed_bytes, changed_json
from prove.fuzz.target import KEY, Target

SIGNATURE: Final = "1" * 64
CLAIM: Final[dict[str, Any]] = {"wallet": KEY, "purchase": SIGNATURE}
SELLER: Final = SimpleNamespace(origin="https://shop.example")


def claim(text: bytes) -> None:
    """Parse *text* as the JSON body with which a wallet claims the credits of a purchase."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(given, dict) and all(isinstance(given.get(name), str) for name in CLAIM):
        asked = Claimed(**{name: given[name] for name in CLAIM})
        read = vars(rotate)["_claim"](SELLER, asked)
        again = Claimed(wallet=read.wallet, purchase=read.purchase)
        assert vars(rotate)["_claim"](SELLER, again) == read


def wallet(text: bytes) -> None:
    """Parse *text* as a wallet's address, a wallet's signature, and a code typed by a user."""
    shown = text.decode("latin-1")
    for read in ("_wallet", "_signature"):
        with suppress(BadRequest):
            vars(wallets)[read](shown)
    assert plain(plain(shown)) == plain(shown)


def webhook(text: bytes) -> None:
    """Check *text* as the URL of an alert's webhook; an accepted URL must use https."""
    url = text.decode("latin-1")
    if url_flaw(url, allows_loopback=False) is None:
        assert httpx.URL(url).scheme == "https"


def budget(text: bytes) -> None:
    """Read *text* as the header with a budget of an MCP client, once and split into several."""
    for values in ([text.decode("latin-1")], text.decode("latin-1").split(";")):
        with suppress(UnreadableBudget):
            read_budget(values)


WEBHOOKS: Final = [
    b"https://receiver.example/hook?x=1",
    b"https://receiver.example:8443",
    b"https://[2001:db8::1]/a%20b",
    b"https://127.1/",
    b"https://0x7f000001/",
]

TARGETS: Final = {
    "claim of a purchase": Target(changed_json([CLAIM]), claim, (BadRequest,)),
    "wallet to link": Target(
        changed_bytes([KEY.encode(), SIGNATURE.encode(), b"abcd-efgh 1234"]), wallet
    ),
    "address of a webhook": Target(changed_bytes(WEBHOOKS), webhook, (httpx.InvalidURL,)),
    "budget of an MCP client": Target(
        changed_bytes([b"credits=20, usd=0.05, session=any name", b"usd=1e-9;credits=1"]), budget
    ),
}
