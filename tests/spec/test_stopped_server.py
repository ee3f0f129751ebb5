"""A server that stops while requests are open answers them, also if they wait for the chain."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from mintscope.kit.http.application import LAST_S, Draining
from mintscope.kit.http.response import Bounds
from mintscope.kit.limits import MovingWindow
from support.fakes.reports import TRACKED
from support.processes.served import PATIENCE_S, Client, Served, served
from support.scenes.engine import writing
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import KEY, PURCHASE, SellingApi, opened
from support.scenes.service import bearer

REPORT = f"/v1/token/{TRACKED}"
ROTATION = "/v1/credits/rotate"


async def ask(client: Client, method: str, path: str, *headers: str) -> None:
    lines = [f"{method} {path} HTTP/1.1", "Host: shop", "Content-Length: 0", *headers, "", ""]
    await client.send("\r\n".join(lines).encode())


def stopping(shop: SellingApi) -> AbstractAsyncContextManager[Served]:
    """Serve *shop*, and end the waits for the chain at once when the block ends."""
    draining = Draining(at_last=shop.world.chains[-1].stop)
    return served(shop.service.app, Bounds(), draining=draining, grace_s=LAST_S)


@contextmanager
def stalled(table: Any, method: str) -> Iterator[threading.Event]:
    """Delay the return of *method* of *table* until the block ends; the event is set on a call."""
    has_begun, may_end = threading.Event(), threading.Event()
    write = getattr(table, method)

    def write_and_stall(*values: Any) -> Any:
        written = write(*values)
        has_begun.set()
        assert may_end.wait(PATIENCE_S)
        return written

    setattr(table, method, write_and_stall)
    try:
        yield has_begun
    finally:
        may_end.set()
        setattr(table, method, write)


@pytest.mark.parametrize(("method", "path"), [("POST", PURCHASE), ("GET", REPORT)])
@pytest.mark.parametrize("after", ["sendTransaction", "getSignatureStatuses"])
async def test_a_payment_that_is_pending_when_the_server_stops_is_503_with_its_key(
    world: World, method: str, path: str, after: str
) -> None:
    world.moving.clear()
    if after == "sendTransaction":
        world.go_wrong(latency_ms={"sendTransaction": 4_000})
    async with opened(world, patience_s=PATIENCE_S) as stopped, AsyncExitStack() as stack:
        payment = await stopped.paid(method, path)
        async with stopping(stopped) as server:
            client = await stack.enter_async_context(server.connection())
            await ask(client, method, path, f"PAYMENT-SIGNATURE: {payment}")
            await world.until_called(after)
        status, headers, body = await client.answer()

    answer = json.loads(body)
    assert (status, answer["error"]["code"]) == (503, "PAYMENT_PENDING")
    assert answer["meta"]["requestId"] == headers["x-request-id"]
    assert headers["retry-after"] == "2"
    world.go_wrong()
    world.moving.add("getSignatureStatuses")
    async with opened(world) as restarted:
        redeemed = await restarted.send(method, path, payment, key=headers["idempotency-key"])
    assert redeemed.is_success, redeemed.text
    assert world.fees() == 10_001


async def test_a_key_of_the_client_redeems_a_payment_of_a_stopped_server(world: World) -> None:
    world.moving.clear()
    sent = f"Idempotency-Key: {KEY}"
    async with opened(world, patience_s=PATIENCE_S) as stopped, AsyncExitStack() as stack:
        payment = await stopped.paid("POST", PURCHASE)
        async with stopping(stopped) as server:
            client = await stack.enter_async_context(server.connection())
            await ask(client, "POST", PURCHASE, f"PAYMENT-SIGNATURE: {payment}", sent)
            await world.until_called("getSignatureStatuses")
        status, headers, body = await client.answer()

    assert (status, json.loads(body)["error"]["code"]) == (503, "PAYMENT_PENDING")
    assert "idempotency-key" not in headers
    world.moving.add("getSignatureStatuses")
    async with opened(world) as restarted:
        redeemed = await restarted.send("POST", PURCHASE, payment, key=KEY)
    assert redeemed.status_code == 201


async def test_a_payment_that_may_be_stored_when_the_server_stops_is_503_with_its_key(
    world: World,
) -> None:
    async with opened(world) as stopped, AsyncExitStack() as stack:
        payment = await stopped.paid("POST", PURCHASE)
        with writing(world.path):
            async with served(stopped.service.app, Bounds(), grace_s=0) as server:
                client = await stack.enter_async_context(server.connection())
                await ask(client, "POST", PURCHASE, f"PAYMENT-SIGNATURE: {payment}")
                await world.until_called("simulateTransaction")
            status, headers, body = await client.answer()

    assert (status, json.loads(body)["error"]["code"]) == (503, "PAYMENT_PENDING")
    async with opened(world) as restarted:
        key = headers["idempotency-key"]
        redeemed = await restarted.send("POST", PURCHASE, payment, key=key)
    assert redeemed.status_code == 201


async def test_a_payment_that_was_not_sent_when_the_server_stops_can_be_sent_again(
    world: World,
) -> None:
    world.go_wrong(latency_ms={"simulateTransaction": 4_000})
    async with opened(world) as stopped, AsyncExitStack() as stack:
        payment = await stopped.paid("POST", PURCHASE)
        async with served(stopped.service.app, Bounds(), grace_s=0) as server:
            client = await stack.enter_async_context(server.connection())
            await ask(client, "POST", PURCHASE, f"PAYMENT-SIGNATURE: {payment}")
            await world.until_called("simulateTransaction")
        status, headers, body = await client.answer()

    answer = json.loads(body)
    assert (status, answer["error"]["code"]) == (503, "SERVICE_UNAVAILABLE")
    assert answer["meta"]["requestId"] == headers["x-request-id"]
    assert headers["retry-after"] == "2"
    assert "sendTransaction" not in world.calls
    world.go_wrong()
    async with opened(world) as restarted:
        assert (await restarted.send("POST", PURCHASE, payment)).status_code == 201


async def test_a_rotation_of_unknown_outcome_when_the_server_stops_is_503_with_its_key(
    world: World,
) -> None:
    async with opened(world) as stopped, AsyncExitStack() as stack:
        bought = await stopped.buy()
        old = bearer(bought.json()["data"]["token"])
        table = vars(world.stores[-1])["_table"].purchase
        with stalled(table, "rotate") as has_begun:
            async with served(stopped.service.app, Bounds(), grace_s=0) as server:
                client = await stack.enter_async_context(server.connection())
                await ask(client, "POST", ROTATION, f"Authorization: {old['authorization']}")
                assert await asyncio.to_thread(has_begun.wait, PATIENCE_S)
            status, headers, body = await client.answer()

    answer = json.loads(body)
    assert (status, answer["error"]["code"]) == (503, "SERVICE_UNAVAILABLE")
    assert "may have been moved" in answer["error"]["message"]
    async with opened(world) as restarted:
        key = {"Idempotency-Key": headers["idempotency-key"]}
        rotated = await restarted.client.post(ROTATION, headers={**old, **key})
        found = rotated.json()["data"]
        balance = await restarted.client.get("/v1/credits/balance", headers=bearer(found["token"]))
    assert balance.json()["data"]["balance"] == found["credits"] > 0


@pytest.mark.parametrize(("method", "path"), [("POST", PURCHASE), ("GET", REPORT)])
async def test_a_payment_that_may_be_settled_when_the_server_stops_is_503_with_its_key(
    world: World, method: str, path: str
) -> None:
    async with opened(world) as stopped, AsyncExitStack() as stack:
        payment = await stopped.paid(method, path)
        with stalled(vars(world.stores[-1])["_table"], "resolve") as has_begun:
            async with served(stopped.service.app, Bounds(), grace_s=0) as server:
                client = await stack.enter_async_context(server.connection())
                await ask(client, method, path, f"PAYMENT-SIGNATURE: {payment}")
                assert await asyncio.to_thread(has_begun.wait, PATIENCE_S)
            status, headers, body = await client.answer()

    assert (status, json.loads(body)["error"]["code"]) == (503, "PAYMENT_PENDING")
    async with opened(world) as restarted:
        redeemed = await restarted.send(method, path, payment, key=headers["idempotency-key"])
    assert redeemed.is_success, redeemed.text


@pytest.mark.parametrize(("method", "path"), [("POST", PURCHASE), ("GET", REPORT)])
@pytest.mark.parametrize("is_in_queue", [True, False])
async def test_a_settled_payment_is_answered_even_if_a_stopping_server_cancels_its_request(
    world: World, monkeypatch: pytest.MonkeyPatch, method: str, path: str, *, is_in_queue: bool
) -> None:
    """The request waits for its turn, or for the store of the rate limits, when it is cancelled."""
    has_begun = asyncio.Event()

    async def stall(*_values: Any) -> None:
        if "sendTransaction" in world.calls:
            has_begun.set()
            await asyncio.Event().wait()

    if is_in_queue:
        queue = SimpleNamespace(next=stall)
        monkeypatch.setattr("mintscope.api.checkout.FairQueue", lambda: queue)
    else:
        monkeypatch.setattr(MovingWindow, "give_back", stall)
    async with opened(world) as stopped, AsyncExitStack() as stack:
        payment = await stopped.paid(method, path)
        async with served(stopped.service.app, Bounds(), grace_s=0) as server:
            client = await stack.enter_async_context(server.connection())
            await ask(client, method, path, f"PAYMENT-SIGNATURE: {payment}")
            async with asyncio.timeout(PATIENCE_S):
                await has_begun.wait()
        status, headers, body = await client.answer()

    assert status in {200, 201}, body
    assert "payment-response" in headers
