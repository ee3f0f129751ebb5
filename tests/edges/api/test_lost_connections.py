"""A connection that breaks at any byte of a purchase, over a real server."""

from collections.abc import AsyncIterator
from typing import Final

import pytest

from mintscope.api.protocol import Bounds
from payment_world import World
from served import Served, served
from shopfront import PURCHASE, Shopfront

STEP: Final = 97  # bytes; together with the response's own some forty places to break at


@pytest.fixture
async def server(shop: Shopfront) -> AsyncIterator[Served]:
    async with served(shop.service.app, Bounds()) as server:
        yield server


def request(payment: str, key: str) -> bytes:
    return (
        f"POST {PURCHASE} HTTP/1.1\r\nHost: shop\r\nContent-Length: 0\r\n"
        f"Idempotency-Key: {key}\r\nPAYMENT-SIGNATURE: {payment}\r\n\r\n"
    ).encode()


async def redeem(shop: Shopfront, payment: str, key: str) -> str:
    """Send the payment again, whole, and a stranger's copy of it after that."""
    answer = await shop.send("POST", PURCHASE, payment, key=key)
    assert answer.status_code == 201, answer.text
    stolen = await shop.send("POST", PURCHASE, payment)
    assert stolen.status_code == 409
    return str(answer.json()["data"]["token"])


async def test_a_request_that_is_cut_short_costs_nothing(shop: Shopfront, server: Served) -> None:
    key = "the-key-of-the-first-buyer"
    payment = await shop.paid("POST", PURCHASE)
    whole = request(payment, key)
    for at in range(0, len(whole), STEP):
        async with server.connection() as client:
            await client.send(whole[:at])

    assert shop.world.calls == []
    await redeem(shop, payment, key)


async def test_an_answer_that_is_cut_short_is_given_again(
    shop: Shopfront, server: Served, world: World
) -> None:
    tokens = []
    length = 10**6
    for at in range(0, 10**6, STEP):
        if at >= length:
            break
        key = f"the-key-of-a-buyer-{at}"
        payment = await shop.paid("POST", PURCHASE)
        async with server.connection() as client:
            await client.send(request(payment, key))
            if at:
                await client.reader.readexactly(at)
        tokens.append(await redeem(shop, payment, key))
        if length == 10**6:
            length = await answer_length(shop, server)

    assert len(tokens) == len(set(tokens)) > 5
    assert world.received() == 25_000 * (len(tokens) + 1)


async def answer_length(shop: Shopfront, server: Served) -> int:
    async with server.connection() as client:
        await client.send(request(await shop.paid("POST", PURCHASE), "the-key-of-the-measurer"))
        head = await client.reader.readuntil(b"\r\n\r\n")
        return len(head) + int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])


async def test_a_body_is_read_from_a_real_connection(shop: Shopfront, server: Served) -> None:
    claim = f'{{"purchase":"{"1" * 64}","wallet":"{shop.world.buyer.pubkey()}"}}'.encode()
    async with server.connection() as client:
        await client.send(
            b"POST /v1/credits/rotate/challenge HTTP/1.1\r\nHost: shop\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(claim), claim)
        )
        status, _, body = await client.answer()

    assert status == 200, body
    assert b"Proof: " in body
