"""Known attacks on sellers that take x402 payments, and the tests that try each of them.

replay, one after the other           test_refused_payments  a_replay_is_409
replay, 20 at once, 1 to 4 processes  test_refused_payments  one_payment_sent_twenty_times_at_once
replay, whole processes               e2e test_payments      a_hundred_times, four_processes_settle
20 payments, funds for one            test_refused_payments, e2e test_payments  with_funds_for_one
other payee, mint, amount; overpaid   test_refused_payments  ATTACKS
the same in `accepted`                test_refused_payments  changed_requirements_are_402
old blockhash, no funds, no account,
  flipped signature                   test_refused_payments  ATTACKS; test_settling
payer, stranger as fee payer; fee
  payer as authority                  test_refused_payments  ATTACKS
1.4 M compute units at 5 lamports     test_refused_payments  ATTACKS
seven more signers                    test_refused_payments  ATTACKS
the fee payer in a memo or a guard    test_refused_payments  ATTACKS
a lookup table, a memo not UTF-8      test_refused_payments  ATTACKS
garbage, a list, {}, version 1        test_refused_payments  an_invalid_payment_header_is_400
X-PAYMENT                             test_refused_payments  a_client_of_x402_version_1
a header of 1 MB                      here, over a real connection
a quote for another resource          test_refused_payments  a_quote_buys_only
killed between broadcast and answer   test_lost_answers  at_any_await, of_a_dead_process
killed in the middle of settling      e2e test_payment_kills, test_payment_storm
the client leaves while it settles    test_lost_answers  at_any_await; test_lost_connections
dropped by the network                test_lost_answers  dropped; the loop stays free: here
the node is down                      test_refused_payments  not_answer_is_503; test_chain_faults
the landed transaction, copied        test_refused_payments  from_the_chain; test_lost_answers
every fault of chain and node         test_chain_faults
every deviation of a transaction      core test_verify  CORPUS, and any bytes
a mint that takes a fee               core test_mint; edges test_ready_to_sell
a database that freezes               edges test_frozen_store
"""

import asyncio
from collections.abc import AsyncIterator

import pytest

from mintscope.kit.http.response import Bounds
from support.fakes.reports import TRACKED
from support.processes.served import Served, served
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import KEY, PURCHASE, SellingApi, opened

REPORT = f"/v1/token/{TRACKED}"


@pytest.fixture
async def server(shop: SellingApi) -> AsyncIterator[Served]:
    async with served(shop.service.app, Bounds()) as server:
        yield server


def request(payment: str) -> bytes:
    return (
        f"POST {PURCHASE} HTTP/1.1\r\nHost: shop\r\nContent-Length: 0\r\n"
        f"Idempotency-Key: {KEY}\r\nPAYMENT-SIGNATURE: {payment}\r\n\r\n"
    ).encode()


@pytest.mark.parametrize(
    ("size", "expected"), [(8_193, 400), (16_000, 400), (17_000, 431), (1_000_000, 431)]
)
async def test_an_oversized_payment_header_is_refused_before_any_node_is_called(
    shop: SellingApi, server: Served, world: World, size: int, expected: int
) -> None:
    payment = await shop.paid("POST", PURCHASE)
    async with server.connection() as client:
        await client.send(request(payment + "A" * (size - len(payment))))
        status, _, _ = await client.answer()

    assert status == expected
    assert world.calls == []
    async with server.connection() as client:
        await client.send(request(payment))
        status, _, _ = await client.answer()
    assert status == 201


@pytest.mark.parametrize(
    ("method", "fault"),
    [
        ("sendTransaction", {"landing": {"kind": "never", "times": 1}}),
        ("sendTransaction", {"calls": {"sendTransaction": {"kind": "hang", "times": 1}}}),
        ("simulateTransaction", {"calls": {"simulateTransaction": {"kind": "hang", "times": 1}}}),
    ],
    ids=["it never lands", "the broadcast hangs", "the trial hangs"],
)
async def test_a_request_that_waits_for_the_chain_delays_no_other(
    world: World, method: str, fault: dict[str, object]
) -> None:
    """While the request waits, others are answered, and another payment is accepted."""
    async with opened(world, patience_s=60) as shop:
        payments = [await shop.paid("POST", PURCHASE) for _ in range(2)]
        world.go_wrong(**fault)
        waiting = asyncio.create_task(shop.send("POST", PURCHASE, payments[0], key=KEY))
        await world.until_called(method)
        health = await shop.client.get("/v1/health")
        unpaid = await shop.client.get(REPORT)
        bought = await shop.send("POST", PURCHASE, payments[1], key=f"{KEY}-2")

        assert not waiting.done()
        assert (health.status_code, unpaid.status_code, bought.status_code) == (200, 402, 201)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_the_error_of_a_failing_store_speaks_only_of_this_request(
    shop: SellingApi,
) -> None:
    """An earlier request sent the payment: if the error denied this, the buyer would pay twice."""
    payment = await shop.paid("POST", PURCHASE)
    assert (await shop.send("POST", PURCHASE, payment, key=KEY)).status_code == 201
    shop.world.sql("ALTER TABLE payment RENAME TO gone")
    answer = await shop.send("POST", PURCHASE, payment, key=KEY)

    assert answer.status_code == 503
    message = answer.json()["error"]["message"]
    assert "this request sent nothing: send the same payment again" in message
