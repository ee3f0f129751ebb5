"""A credit is taken for an answer that was sent; a client that left before gets its credit back."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from mintscope.accounts.wallets.credits import Deposited
from mintscope.kit.audit import UserId
from mintscope.kit.http.request import GONE, ClientDisconnected
from mintscope.kit.http.response import Bounds
from mintscope.mcp.arguments import ApiExchange
from mintscope.mcp.calls import PATH
from support.fakes.reports import TRACKED
from support.processes.served import Served, served
from support.scenes.conversations import (
    ROUTES,
    add_swap,
    half_close,
    left_count,
    list_token,
    reset,
    settled,
    standing_still,
    until_left,
    until_seen,
    written,
)
from support.scenes.mcp_service import mcp_beside
from support.scenes.people.agent import Agent
from support.scenes.service import Service, bearer, running_service

CLIENTS = 12
BALANCE = "/v1/credits/balance"


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Service]:
    async with running_service(tmp_path) as service:
        service.remembers = True
        add_swap(service)
        await list_token(service)
        yield service


@pytest.fixture
async def server(shop: Service) -> AsyncIterator[Served]:
    async with served(shop.app, Bounds(pause_s=0.0), clock=shop.clock) as server:
        yield server


async def test_the_table_of_routes_has_every_route_that_takes_credits(shop: Service) -> None:
    """Two are left out: a stream takes credits by the minute, a purchase takes only payments."""
    router: Any = vars(shop.app)["router"]
    charged = {(each.method, each.path) for each in router if each.is_charged}
    tried = set()
    for method, url, _ in ROUTES.values():
        route, _ = router.find(method, url.partition("?")[0])
        tried.add((method, route.path))

    assert charged - tried == {("GET", "/v1/stream"), ("POST", "/v1/credits/purchase")}
    assert tried <= charged


@pytest.mark.parametrize("route", ROUTES)
async def test_an_answer_that_was_sent_costs_the_credits_of_its_route(
    shop: Service, server: Served, route: str
) -> None:
    token = await shop.issue(10)
    async with server.connection() as client:
        await client.send(written(route, token))
        status, headers, body = await client.answer()

    assert status == 200, body
    assert headers["x-credits-remaining"] == str(10 - ROUTES[route][2])
    await settled(shop)
    assert await shop.left(token) == 10 - ROUTES[route][2]


@pytest.mark.parametrize("route", ROUTES)
async def test_a_half_closed_client_pays_if_it_is_answered(
    shop: Service, server: Served, route: str
) -> None:
    token, since = await shop.issue(10), left_count()
    async with server.connection() as client:
        async with standing_still(shop) as store:
            await client.send(written(route, token))
            await store.until_taken()
            await half_close(client)
            await until_seen(server, 5)
        answer = await client.rest()

    assert not answer or b"200 OK" in answer
    await until_left(since + (not answer))
    await settled(shop)
    assert await shop.left(token) == (10 - ROUTES[route][2] if answer else 10)


@pytest.mark.parametrize("route", ROUTES)
async def test_clients_that_leave_while_the_store_is_blocked_get_their_credits_back(
    shop: Service, server: Served, route: str
) -> None:
    token, since = await shop.issue(100), left_count()
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(server.connection()) for _ in range(CLIENTS)]
        async with standing_still(shop) as store:
            for client in clients:
                await client.send(written(route, token))
            await store.until_taken()
            await until_seen(server, 5)
            for client in clients:
                await reset(client)
            await until_seen(server, 20)

    await until_left(since + CLIENTS)
    await settled(shop)
    assert await shop.left(token) == 100


async def test_an_mcp_tool_call_costs_nothing_if_its_client_has_left(shop: Service) -> None:
    """The tool's call has no connection; only the client's own request shows that it has left."""
    token = await shop.issue(10)
    before_the_debit = iter([False])
    client: dict[str, Any] = {
        "type": "http",
        "http_version": "1.1",
        "scheme": "http",
        "client": ("192.0.2.1", 1),
        "server": ("shop", 80),
        "headers": [(b"authorization", f"Bearer {token}".encode())],
        "extensions": {GONE: lambda: next(before_the_debit, True)},
    }
    _, path, _ = ROUTES["candles"]
    with pytest.raises(ClientDisconnected):
        await ApiExchange(shop.app).ask("GET", path, client=client)
    await settled(shop)

    assert await shop.left(token) == 10


@pytest.mark.parametrize("leaves", [True, False])
async def test_a_tool_call_is_free_if_the_client_leaves_before_its_result(
    shop: Service, *, leaves: bool
) -> None:
    """The client disconnects after the API has answered the tool, before it gets the result."""
    token = await shop.issue(10)
    has_left = False

    async def api(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal has_left
        await shop.app(scope, receive, send)
        has_left = leaves and scope["path"] == f"/v1/token/{TRACKED}"

    call = {"name": "get_token", "arguments": {"mint": TRACKED}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    client: dict[str, Any] = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": PATH,
        "raw_path": PATH.encode(),
        "query_string": b"",
        "scheme": "http",
        "client": ("192.0.2.1", 1),
        "server": ("shop", 80),
        "headers": [
            (b"authorization", f"Bearer {token}".encode()),
            (b"accept", b"application/json, text/event-stream"),
            (b"content-type", b"application/json"),
        ],
        "extensions": {GONE: lambda: has_left},
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": json.dumps(message).encode(), "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    async with mcp_beside(api, shop.clock) as app:
        await app(client, receive, send)
    await settled(shop)

    assert await shop.left(token) == (10 if leaves else 9)
    assert [each.get("status") for each in sent] == ([] if leaves else [200, None])


async def test_an_api_key_gets_its_credits_back_if_the_answer_was_not_sent(
    shop: Service, server: Served
) -> None:
    key = await Agent(shop).key()
    ((user_id,),) = shop.accounts.rows('SELECT id FROM "user"')
    bought = await shop.ledger.find(await shop.issue(100))
    assert bought is not None
    credits_ = shop.accounts.built.credits
    assert isinstance(await credits_.deposit(UserId(user_id), bought, None, None), Deposited)
    since = left_count()
    async with server.connection() as client, standing_still(shop) as store:
        await client.send(written("batch", key))
        await store.until_taken()
        await until_seen(server, 5)
        await reset(client)
        await until_seen(server, 20)

    await until_left(since + 1)
    await settled(shop)
    balance = await shop.client.get(BALANCE, headers=bearer(key))
    assert balance.json()["data"] == {"balance": 100}
    assert shop.accounts.rows("SELECT sum(credits) FROM key_month") == [(0,)]
