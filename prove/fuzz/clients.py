"""Fuzz targets for input from clients and operators: paths, forms, headers and tables."""

import json
import sys
from base64 import b64encode
from contextlib import suppress
from typing import Final

import httpx
from msgspec.structs import astuple
from solders.keypair import Keypair

from mintscope.accounts.factor_rows import PasskeyRefused, passkeys_at
from mintscope.accounts.signups.application import parse_form as parse_signup
from mintscope.accounts.wallets.api import PaymentPosition
from mintscope.alerts.wire import EventPosition
from mintscope.api.routes import ListPosition
from mintscope.api.series.wire import BeforeSwap
from mintscope.api.wire import decode_cursor
from mintscope.app.cli.table import BadTable, rows
from mintscope.dex import base58
from mintscope.dex.outcome import Unreadable
from mintscope.kit.errors import BadRequest, ServiceError
from mintscope.kit.http.request import ClientAddresses
from mintscope.site.routes import InvalidForm, parse_form
from mintscope_client.wallet import PayerWallet, Pin, SpendLimit, WillNotPay
from prove.fuzz.inputs import changed_bytes, changed_json
from prove.fuzz.payments import HEADERS
from prove.fuzz.target import FOLDER, KEY, LOOP, Target
from prove.recipe import ROOT

sys.path.insert(0, str(ROOT / "tests"))
from support.scenes.payments.payment_build import TERMS
from support.scenes.service import running_service

PATHS: Final = [
    path.encode()
    for path in (
        "/v1/token/So11111111111111111111111111111111111111112",
        "/v1/credits/balance",
        "/v1/credits/bundles/10",
        "/openapi.json",
        "/api/beta-signup",
        "/healthz",
        "/%2e%2e/v1/%2Ftoken//x?y=%00&&",
    )
]


class Site:
    """A whole service; it must answer every path with one of a few HTTP statuses."""

    def __init__(self) -> None:
        self._opened = running_service(FOLDER)
        self._client = LOOP.run_until_complete(self._opened.__aenter__()).client

    def get(self, path: bytes) -> None:
        """Request *path*, bytes as in a request line; its status must be an expected one."""
        target = b"/" + path.lstrip(b"/").replace(b"#", b"")
        url = httpx.URL("http://test").copy_with(raw_path=target)
        status = LOOP.run_until_complete(self._client.get(url)).status_code
        assert status in {200, 400, 401, 402, 404, 405, 429, 503}, status


SITE: Final[list[Site]] = []


def path(text: bytes) -> None:
    """Request the path *text* from the site, without bytes that a request line cannot contain."""
    if not SITE:
        SITE.append(Site())
    printable = bytes(byte for byte in text if 0x20 < byte < 0x7F)
    SITE[0].get(printable)


def base58_text(text: bytes) -> None:
    """Decode *text* from base58, and compare the bytes with the result of integer arithmetic."""
    try:
        decoded = base58.decode(text.decode("latin-1"))
    except Unreadable:
        return
    number = 0
    for digit in text.decode():
        number = number * 58 + ALPHABET.index(digit)
    assert int.from_bytes(decoded) == number
    assert base58.head(text.decode()) == decoded[:8]


ALPHABET: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
TABLE: Final = [b"time,open,high,low,close\n1,2,3,1,2\n60,2,3,1,2.5\n", b"a;b\n1;2\n", b'"x""y",\n']


def table(text: bytes) -> None:
    """Read *text* as a CSV file of candles; its cells may raise only BadTable."""
    file = FOLDER / "table.csv"
    file.write_bytes(text)
    for row in rows(file, ["time", "close"]):
        with suppress(BadTable):
            row.integer("time", 0, 2**63)
        with suppress(BadTable):
            row.number("close", 1e12)


SIGNUP: Final = {
    "email": "agent@example.org",
    "name": "an agent",
    "motivation": "to trade",
    "telegram": "@agent",
    "twitter": "@agent",
}


def signup(text: bytes) -> None:
    """Parse *text* as the JSON body of an application for an API key."""
    fields = json.loads(text)
    if isinstance(fields, dict):
        parse_signup(fields)


def forwarded(text: bytes) -> None:
    """Find the address of a client behind proxies that send *text* as X-Forwarded-For."""
    scope = {"client": ("127.0.0.1", 1), "headers": [(b"x-forwarded-for", text)]}
    assert ClientAddresses(["127.0.0.0/8", "::1/128"]).key(scope)


def demand(text: bytes) -> None:
    """Read *text* as the payment demand of a seller; sign a payment if the wallet allows that."""
    limit = SpendLimit(atoms_per_payment=30_000, atoms_in_all=30_000)
    wallet = PayerWallet(keypair=PAYER, pin=PIN, limit=limit)
    required, offer = wallet.choose(b64encode(text).decode())
    wallet.pay(required, offer, KEY)
    assert limit.spent == int(offer.amount) <= limit.atoms_per_payment


PAYER: Final = Keypair.from_seed(bytes(32))
PIN: Final = Pin(network=TERMS.network, asset=TERMS.asset, decimals=6, pay_to=TERMS.pay_to)
DEMAND: Final = {
    "x402Version": 2,
    "resource": {"url": "https://shop.example/v1/token/x"},
    "accepts": [HEADERS[0]["accepted"]],
}


def cursor(text: bytes) -> None:
    """Decode *text* as a cursor of each kind of list; its integers must fit into 64 bits."""
    for shape in (BeforeSwap, EventPosition, ListPosition, PaymentPosition):
        with suppress(BadRequest):
            read = decode_cursor(b64encode(text).decode(), shape)
            numbers = [each for each in astuple(read) if isinstance(each, int)]
            assert all(-(2**63) <= number < 2**63 for number in numbers)


CURSORS: Final = [
    [BeforeSwap.__struct_config__.tag, 380_000_000, 1, 0, -1, 0],
    {"type": EventPosition.__struct_config__.tag, "event_id": 7},
    {"type": PaymentPosition.__struct_config__.tag, "begun_at": 7, "signature": KEY},
]


def passkey(text: bytes) -> None:
    """Read *text* as the answers of a browser that registers a passkey, or signs in with one."""
    verifier = passkeys_at(["https://mintscope.example"], "mintscope")
    assert verifier is not None
    with suppress(PasskeyRefused):
        verifier.credential_of(text.decode("latin-1"))
    verifier.registered(text.decode("latin-1"), bytes(32), "phone")


PASSKEY: Final = {
    "id": "aWlpaWlpaWlpaWlpaWlpaQ",
    "rawId": "aWlpaWlpaWlpaWlpaWlpaQ",
    "type": "public-key",
    "response": {
        "clientDataJSON": b64encode(
            json.dumps(
                {
                    "type": "webauthn.create",
                    "challenge": "A" * 43,
                    "origin": "https://mintscope.example",
                }
            ).encode()
        ).decode(),
        "attestationObject": "o2NmbXRkbm9uZWdhdHRTdG10oGhhdXRoRGF0YUA",
    },
}


TARGETS: Final = {
    "cursor": Target(changed_json(CURSORS), cursor),
    "passkey": Target(changed_json([PASSKEY]), passkey, (PasskeyRefused,)),
    "demand of a seller": Target(changed_json([DEMAND]), demand, (WillNotPay,)),
    "path": Target(changed_bytes(PATHS), path),
    "base58": Target(changed_bytes([KEY.encode(), b"z" * 44, b"1" * 80]), base58_text),
    "CSV": Target(changed_bytes(TABLE), table, (BadTable,)),
    "sign-up": Target(changed_json([SIGNUP]), signup, (ValueError, RecursionError, ServiceError)),
    "form of a page": Target(
        changed_bytes([b"email=a%40example.org&csrf=x&csrf=y", b"a=%ff&b"]),
        parse_form,
        (BadRequest, InvalidForm),
    ),
    "X-Forwarded-For": Target(changed_bytes([b"1.2.3.4, ::1, 2001:db8::1"]), forwarded),
}
