"""A connection breaks after each number of bytes of the answer to a purchase, on a real server."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from typing import Final

import pytest

from mintscope.kit.credentials import CreditToken, hint
from mintscope.kit.http.response import Bounds
from support.processes.served import Client, Served, served
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import PURCHASE, SellingApi

FULL: Final = os.environ.get("STORM") == "full"  # noqa: TID251 - only how many
EVERY: Final = 1 if FULL else 8  # bytes of an answer between two cuts: each cut costs a purchase
AT_ONCE: Final = 8  # as many payments as a payer without a history may have in flight
FEE_LAMPORTS: Final = 10_001


@pytest.fixture
async def server(shop: SellingApi) -> AsyncIterator[Served]:
    async with served(shop.service.app, Bounds()) as server:
        yield server


def request(payment: str, key: str) -> bytes:
    return (
        f"POST {PURCHASE} HTTP/1.1\r\nHost: shop\r\nContent-Length: 0\r\nConnection: close\r\n"
        f"Idempotency-Key: {key}\r\nPAYMENT-SIGNATURE: {payment}\r\n\r\n"
    ).encode()


async def redeem(shop: SellingApi, payment: str, key: str) -> CreditToken:
    """Send *payment* again with *key*, and return the token of the answer.

    Without *key*, or with another key, *payment* must be refused.
    """
    answer = await shop.send("POST", PURCHASE, payment, key=key)
    assert answer.status_code == 201, answer.text
    for other in (None, "the-guess-of-a-stranger"):
        stolen = await shop.send("POST", PURCHASE, payment, key=other)
        assert stolen.status_code == 409
    return CreditToken(answer.json()["data"]["token"])


async def cut_request(server: Served, part: bytes) -> None:
    async with server.connection() as client:
        await client.send(part)
        client.writer.transport.abort()


@pytest.mark.storm
async def test_a_request_that_is_cut_at_any_byte_costs_nothing(
    shop: SellingApi, server: Served
) -> None:
    key = "the-key-of-the-first-buyer"
    payment = await shop.paid("POST", PURCHASE)
    whole = request(payment, key)
    for ats in batched(range(len(whole))):
        await asyncio.gather(*(cut_request(server, whole[:at]) for at in ats))

    assert len(whole) > 1_500
    assert shop.world.calls == []
    await cut_request(server, whole)
    await shop.world.until_called("sendTransaction")
    await redeem(shop, payment, key)
    assert shop.world.fees() == FEE_LAMPORTS


@pytest.mark.storm
async def test_an_answer_that_is_cut_at_any_byte_is_sent_again(
    shop: SellingApi, server: Served, world: World
) -> None:
    """Each cut of a 201 is a separate purchase, whose second answer has the token of the first.

    `make storm` cuts at every byte, `make test` at every eighth.
    """
    length, tokens = await answer_length(shop, server), list[CreditToken]()
    cuts = range(0, length, EVERY)

    async def buy(at: int) -> CreditToken:
        key = f"the-key-of-a-buyer-{at}"
        payment = await shop.paid("POST", PURCHASE)
        async with server.connection() as client:
            await client.send(request(payment, key))
            seen = await up_to(at, client)
            client.writer.transport.abort()
        token = await redeem(shop, payment, key)
        assert token.startswith(seen.partition(b'"token":"')[2].partition(b'"')[0].decode())
        return token

    for ats in batched(cuts):
        tokens += await asyncio.gather(*(buy(at) for at in ats))

    assert length > 500
    assert len(tokens) == len(set(tokens)) == len(cuts)
    assert {hint(token) for token in tokens} <= set(world.ledger())
    assert len(world.ledger()) == len(cuts) + 1
    assert world.received() == 25_000 * (len(cuts) + 1)
    assert world.fees() == FEE_LAMPORTS * (len(cuts) + 1)


async def up_to(count: int, client: Client) -> bytes:
    """Return the first *count* bytes that *client* receives, or fewer if the answer is shorter.

    The length of answers differs, because signatures differ in length.
    """
    try:
        return await client.reader.readexactly(count)
    except asyncio.IncompleteReadError as whole:
        return whole.partial


def batched(numbers: range) -> Iterator[range]:
    return (numbers[start : start + AT_ONCE] for start in range(0, len(numbers), AT_ONCE))


async def answer_length(shop: SellingApi, server: Served) -> int:
    async with server.connection() as client:
        await client.send(request(await shop.paid("POST", PURCHASE), "the-key-of-the-measurer"))
        head = await client.reader.readuntil(b"\r\n\r\n")
        return len(head) + int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])


async def test_a_body_is_read_from_a_real_connection(shop: SellingApi, server: Served) -> None:
    claim = f'{{"purchase":"{"1" * 64}","wallet":"{shop.world.buyer.pubkey()}"}}'.encode()
    async with server.connection() as client:
        await client.send(
            b"POST /v1/credits/rotate/challenge HTTP/1.1\r\nHost: shop\r\n"
            b"Content-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(claim), claim)
        )
        status, _, body = await client.answer()

    assert status == 200, body
    assert b"Proof: " in body
