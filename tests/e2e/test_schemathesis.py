"""Schemathesis sends valid and invalid requests to every operation, and checks the answers.

It runs all its checks: anonymously, with credits, with an API key, and with payments.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpx
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mintscope.accounts.keys.scope import Scope as KeyScope
from mintscope.kit.clock import ManualClock
from mintscope.kit.http.response import OUTLET_MESSAGE
from mintscope.kit.time import DAY_MS
from support.fakes import reports
from support.processes.listening import listening
from support.scenes.conversations import list_token
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import SellingApi, demanded, opened
from support.scenes.people.agent import Agent
from support.scenes.service import bearer
from support.scenes.whole_report import whole_report

FULL: Final = os.environ.get("STORM") == "full"  # noqa: TID251 - only how long it goes on
TOOL: Final = Path(sys.executable).parent / "schemathesis"
FORMATS: Final = Path(__file__).with_name("schemathesis_formats.py")
# Hypothesis keeps tables of Unicode here.  To compute them takes each process a fifth of its time.
TABLES: Final = Path(__file__).parents[2] / ".hypothesis"
# 402 counts as a refusal, because problems of a payment's headers are reported only to clients that
# pay.  It is also the answer to a well-formed request without a payment.  OpenAPI cannot express
# that a rotation needs either a token or a purchase, that a code comes by e-mail, which parameters
# and ranges an indicator has, what a condition is, that an alert compares two numbers of one unit,
# or what a network is.
CONFIG: Final = """
[checks.negative_data_rejection]
expected-statuses = [400, 401, 402, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429, "5xx"]
[checks.positive_data_acceptance]
expected-statuses = ["2xx", 304, 401, 402, 403, 404, 409, 503]
[[operations]]
include-name = "POST /v1/credits/rotate"
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", 400, 401, 409, 503]
[[operations]]
include-name = "GET /v1/token/{tokenAddress}/indicators"
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", 304, 400, 401, 402, 403, 404, 409, 503]
[[operations]]
include-name = "GET /v1/screen"
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", 304, 400, 401, 402, 403, 404, 409, 503]
[[operations]]
include-name = "GET /v1/token/{tokenAddress}/backtest"
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", 304, 400, 401, 402, 403, 404, 409, 503]
[[operations]]
include-name = "POST /v1/backtest"
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", 304, 400, 401, 402, 403, 404, 409, 503]
[[operations]]
include-name = "POST /v1/screen"
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", 304, 400, 401, 402, 403, 404, 409, 503]
[[operations]]
include-name = "POST /v1/signals"
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", 400, 401, 402, 403, 404, 409, 503]
[[operations]]
include-name = "PATCH /v1/account/keys/{keyId}"
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", 400, 401, 402, 403, 404, 409, 503]
[[operations]]
include-name = "POST /api/auth/confirm-email"
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", 400, 401, 409, 503]
"""
# The key of the caller is valid again, and the key it was rotated into is deleted.
GOOD_AGAIN: Final = (
    "UPDATE api_key SET revoked_at = NULL, expires_at = NULL, replaced_by = NULL",
    "UPDATE api_key SET key_hash = randomblob(32) WHERE application IS NULL",
)
KEPT: Final = ("signal_firing", "signal", "watched_mint", "watchlist")  # limited in number
LENGTH: Final = (
    ["--max-examples", "50", "--phases", "examples,coverage,fuzzing"]
    if FULL
    else ["--max-examples", "2", "--phases", "examples,fuzzing", "--seed", "1"]
)


def door_of(shop: SellingApi, limit_clock: ManualClock, *, pays: bool) -> ASGIApp:
    """Return an application that passes requests to the shop, and leaves streams early.

    A stream is left after its first event.  Each request comes a day after the previous one, so
    that no rate limit is reached; tables in KEPT are emptied before a request that adds rows.

    pays   whether the application pays if the shop demands it, and sends the request again; the
           payment that the demo demands cannot be paid
    """

    async def door(scope: Scope, receive: Receive, send: Send) -> None:
        limit_clock.advance(DAY_MS)
        if scope["method"] == "POST" and scope["path"] in {"/v1/groups", "/v1/signals"}:
            for table in KEPT:
                shop.service.accounts.change(f"DELETE FROM {table}")
        if scope["path"] == "/v1/stream":
            await _leave_soon(shop.service.app, scope, receive, send)
        elif pays and scope["path"].startswith("/v1/") and "/demo/" not in scope["path"]:
            await _pay(shop, scope, receive, send)
        else:
            await shop.service.app(scope, receive, send)
        if scope["path"].startswith("/v1/me/key"):  # or later requests would have no key
            for statement in GOOD_AGAIN:
                shop.service.accounts.change(statement)

    return door


class FirstEvents:
    """The outlet of a stream whose client leaves with its first event."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []

    def write(self, chunk: bytes) -> None:
        self.chunks.append(chunk)

    def end(self, chunk: bytes) -> None:
        self.chunks.append(chunk)

    def is_behind(self) -> bool:
        return False

    def is_gone(self) -> bool:
        return bool(self.chunks)

    async def wait_gone(self) -> None:
        assert self.chunks


async def _leave_soon(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    outlet = FirstEvents()

    async def tell(message: Message) -> None:
        if message["type"] == OUTLET_MESSAGE:
            message["take"](outlet)
        else:
            await send(message)

    await app(scope, receive, tell)
    if outlet.chunks:
        await send({"type": "http.response.body", "body": b"".join(outlet.chunks)})


async def _pay(shop: SellingApi, scope: Scope, receive: Receive, send: Send) -> None:
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    transport = httpx.ASGITransport(shop.service.app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        target = scope["raw_path"].decode() + "?" + scope["query_string"].decode()
        asked = httpx.Request(
            scope["method"],
            f"http://shop{target}".rstrip("?"),
            headers=[pair for pair in scope["headers"] if pair[0] != b"accept-encoding"],
            content=body,
        )
        answer = await client.send(asked)
        if "payment-required" in answer.headers and "payment-signature" not in asked.headers:
            asked.headers["PAYMENT-SIGNATURE"] = shop.pay(demanded(answer))
            answer = await client.send(asked)
    headers = [(name.lower(), value) for name, value in answer.headers.raw]
    start = {"type": "http.response.start", "status": answer.status_code, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": answer.content})


async def credential_of(shop: SellingApi, who: str) -> str:
    """Return a credit token ("with credits"), an API key with credits ("with a key"), or ""."""
    service = shop.service
    match who:
        case "with credits":
            return await service.issue(1_000_000)
        case "with a key":
            key = await Agent(service).key(*KeyScope)
            token = await service.issue(1_000_000)
            moved = await service.client.post(
                "/v1/account/credits/deposit", json={"creditToken": token}, headers=bearer(key)
            )
            assert moved.is_success, moved.text
            return key
        case _:
            return ""


@asynccontextmanager
async def visited(world: World, who: str) -> AsyncIterator[tuple[str, str]]:
    """Serve a shop with a list of tokens; yield its address, and the credential of *who*."""
    limit_clock = ManualClock(world.clock.now())
    async with opened(world, limit_clock=limit_clock) as shop:
        await list_token(shop.service)
        await shop.service.lister.refresh()
        door = door_of(shop, limit_clock, pays=who == "with payments")
        async with listening(door) as url:
            yield url, await credential_of(shop, who)


@pytest.mark.storm
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("who", ["anonymous", "with credits", "with a key", "with payments"])
async def test_every_answer_conforms_to_the_api_description(
    world: World, monkeypatch: pytest.MonkeyPatch, who: str, tmp_path: Path
) -> None:
    monkeypatch.setattr(reports, "REPORT", whole_report())
    async with visited(world, who) as (url, credential):
        shown = ["--header", f"Authorization: Bearer {credential}"] if credential else []
        (tmp_path / "schemathesis.toml").write_text(CONFIG)
        running = await asyncio.create_subprocess_exec(
            str(TOOL),
            "run",
            f"{url}/openapi.json",
            *("--url", url),
            *("--checks", "all"),
            *("--generation-database", "none", "--no-color"),
            *LENGTH,
            *shown,
            cwd=tmp_path,
            env=dict(os.environ)  # noqa: TID251 - handed on
            | {"SCHEMATHESIS_HOOKS": str(FORMATS), "HYPOTHESIS_STORAGE_DIRECTORY": str(TABLES)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        answered, _ = await asyncio.wait_for(running.communicate(), 1_100)

    assert running.returncode == 0, answered.decode()
