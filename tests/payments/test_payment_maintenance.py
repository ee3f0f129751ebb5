"""Background tasks of the api process when fees run out, nodes fail, or payments are unreadable."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from mintscope.app.payments import Sales
from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS, HOUR_MS
from mintscope.payments.payment import PaidReport, Sighting, State, UnreadablePayment
from mintscope.payments.ports import (
    AlreadyUsed,
    Budget,
    Obstacle,
    Settled,
    Unavailable,
    Unresolved,
    Used,
)
from support.processes.listening import listening
from support.scenes.payments.payment_world import (
    AMOUNT,
    EXPIRY_SLOTS,
    KEY,
    RESOURCE,
    World,
    buy,
    config_of,
    selling,
)
from support.scenes.payments.restored import forget_everything

ENOUGH = Budget().fund_lamports_min


@pytest.fixture
async def sales(world: World) -> AsyncIterator[Sales]:
    async with listening(world.node) as url, selling(config_of(world, url), world.clock) as sales:
        yield sales


def metric(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def leave(world: World, lamports: int) -> None:
    """Set the balance of the fee payer to *lamports*."""
    key = world.vm.genesis.fee_payer.pubkey()
    account = world.vm.bank.account(key)
    assert account is not None
    world.vm.genesis.endow(world.vm.bank, key, lamports=lamports - account.lamports)


async def test_sales_close_if_the_fee_payer_runs_out_and_open_after_a_top_up(
    world: World, sales: Sales
) -> None:
    facilitator = world.facilitator()

    async def sell(name: str) -> Any:
        return await buy(
            facilitator, world.pay(facilitator.require(RESOURCE, AMOUNT)), key=KEY + name
        )

    leave(world, ENOUGH + 5_000)
    await sales.maintenance.look()
    assert metric("mintscope_sales_open") == 1
    assert isinstance(await sell("a"), Settled)
    assert await sell("b") == Unavailable(Obstacle.SALES_CLOSED)
    with capture_logs() as lines:
        await sales.maintenance.look()
    assert metric("mintscope_sales_open") == 0
    assert "sales wait for the fee payer to have more" in {line["event"] for line in lines}

    leave(world, 10**9)
    await sales.maintenance.look()
    assert metric("mintscope_sales_open") == 1
    assert isinstance(await sell("c"), Settled)


async def test_402s_have_a_blockhash_after_the_start_and_while_maintenance_runs(
    world: World, sales: Sales, monkeypatch: pytest.MonkeyPatch
) -> None:
    require, before = sales.facilitator.require, str(world.blockhash())
    assert require(RESOURCE, AMOUNT).recent is None
    await sales.expect_ready()
    offered = require(RESOURCE, AMOUNT).recent
    assert offered is not None
    assert offered.blockhash == before

    world.slots(40)
    assert require(RESOURCE, AMOUNT).recent is None
    refresh, was_asked = sales.chain.refresh_offer, asyncio.Event()

    async def watched() -> None:
        await refresh()
        was_asked.set()

    monkeypatch.setattr(sales.chain, "refresh_offer", watched)
    running = asyncio.create_task(sales.maintenance.run())
    async with asyncio.timeout(30):
        await was_asked.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    offered = require(RESOURCE, AMOUNT).recent
    assert offered is not None
    assert offered.blockhash == str(world.blockhash())


async def test_one_process_audits_and_the_others_measure(world: World, sales: Sales) -> None:
    del world
    is_turn = [False]

    async def is_auditor() -> bool:
        return is_turn[0]

    sales.maintenance.is_auditor = is_auditor
    before = metric("mintscope_audits_total", outcome="sound")
    await sales.maintenance.look()
    assert metric("mintscope_audits_total", outcome="sound") == before
    assert metric("mintscope_sales_open") == 1
    is_turn[0] = True
    await sales.maintenance.look()
    assert metric("mintscope_audits_total", outcome="sound") == before + 1


async def test_a_payment_without_a_row_is_reported_once_and_does_not_stop_sales(
    world: World, sales: Sales
) -> None:
    facilitator = world.facilitator()
    outcome = await buy(facilitator, world.pay(facilitator.require(RESOURCE, AMOUNT)))
    assert isinstance(outcome, Settled)
    forget_everything(world)
    world.seconds(60)
    with capture_logs() as lines:
        await sales.maintenance.look()
        await sales.maintenance.look()

    reported = [line for line in lines if line["event"] == "a payment on chain has no row"]
    assert [(line["signature"], line["bought"]) for line in reported] == [
        (outcome.payment.signature, RESOURCE)
    ]
    assert metric("mintscope_orphans") == 1
    assert metric("mintscope_sales_open") == 1


async def test_the_budget_of_sales_equals_the_settings(world: World) -> None:
    config = config_of(
        world,
        "http://127.0.0.1:9",
        failures_per_hour_max=1,
        in_flight_per_new_payer_max=6,
        in_flight_per_payer_max=2,
        in_flight_per_address_max=3,
        fees_per_hour_lamports=4,
        fees_in_flight_lamports=5,
    )
    async with selling(config, world.clock) as sales:
        assert sales.facilitator.budget == Budget(
            failures=1,
            in_flight_new_payer=6,
            in_flight_payer=2,
            in_flight_address=3,
            fee_lamports=4,
            in_flight_fee_lamports=5,
        )


async def test_an_audit_without_a_node_counts_as_blind(world: World, sales: Sales) -> None:
    world.facilitator()
    before = metric("mintscope_audits_total", outcome="blind")
    world.go_wrong(calls={"*": {"kind": "http"}})
    await sales.maintenance.look()
    assert metric("mintscope_audits_total", outcome="blind") == before + 1
    assert metric("mintscope_treasury_compared_age_s") == float("inf")
    world.go_wrong()
    await sales.maintenance.look()
    world.seconds(90)
    world.go_wrong(calls={"*": {"kind": "http"}})
    await sales.maintenance.look()

    assert metric("mintscope_treasury_compared_age_s") >= 90


async def test_an_unreadable_payment_is_retried_rarely_until_it_can_be_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other payments proceed; the unreadable payment is issued once it can be read."""
    facilitator = world.facilitator(patience_s=0.02)
    world.go_wrong(landing={"kind": "late", "ms": 4_000})
    payments = [world.pay(facilitator.require(RESOURCE, AMOUNT)) for _ in range(2)]
    for n, payment in enumerate(payments):
        assert isinstance(await buy(facilitator, payment, key=f"{KEY}{n}"), Unresolved)
    world.go_wrong()
    world.seconds(60)
    odd = str(world.sql("SELECT min(signature) FROM payment"))
    chain = world.chains[0]
    look, looks = chain.look, list[int]()

    async def misread(signatures: list[Any]) -> list[Sighting]:
        seen = await look(signatures)
        if odd in signatures:
            looks.append(clock.now())
        return [
            UnreadablePayment(why="a test") if signature == odd else each
            for signature, each in zip(signatures, seen, strict=True)
        ]

    monkeypatch.setattr(chain, "look", misread)
    clock = ManualClock(UnixMs(world.clock.now() + 60_000))
    reconciler = replace(world.reconciler(), clock=clock)
    for _ in range(1_000):
        await reconciler.once()
        clock.advance(10_000)
    assert world.unreadable[0] == (odd, "a test")
    assert 4 <= len(looks) <= 12
    assert looks[-1] - looks[-2] > 1_000_000
    states = world.sql("SELECT json_group_object(signature = '" + odd + "', state) FROM payment")
    assert states in {'{"0":"issued","1":"pending"}', '{"1":"pending","0":"issued"}'}

    monkeypatch.undo()
    clock.advance(3_600_000)
    await reconciler.once()
    assert world.sql("SELECT count(*) FROM payment WHERE state = 'issued'") == 2
    assert world.sql(f"SELECT state FROM payment WHERE signature = '{odd}'") == State.ISSUED


async def test_a_paid_report_survives_clock_steps_of_days(world: World, sales: Sales) -> None:
    """A step of the clock does not change a report's age; a wrong clock deletes no report."""
    facilitator = world.facilitator()
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT))
    report = PaidReport(body=b"1 2\n{}")
    assert isinstance(await buy(facilitator, payment, wanted=report), Settled)
    world.slots(EXPIRY_SLOTS)
    await world.reconciler().once()
    await sales.maintenance.look()
    for step_ms in (DAY_MS, 2 * DAY_MS, -3 * DAY_MS):
        world.clock.step(step_ms)
        await sales.maintenance.look()

    again = await buy(facilitator, payment, wanted=report)
    assert isinstance(again, Settled)
    assert again.payment.purchase == report


async def test_a_payment_whose_report_was_deleted_is_already_used(world: World) -> None:
    """The client gets the error for a used payment, not an internal error."""
    facilitator = world.facilitator()
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT))
    report = PaidReport(body=b"1 2\n{}")
    assert isinstance(await buy(facilitator, payment, wanted=report), Settled)
    world.sql("UPDATE payment SET body = NULL")

    assert await buy(facilitator, payment, wanted=report) == AlreadyUsed(Used.PAYMENT)


async def test_sales_close_to_new_payers_after_strangers_burned_their_fees(
    world: World, sales: Sales
) -> None:
    """Sales stay open to recent buyers, and open again to new payers after an hour."""
    facilitator = world.facilitator(budget=Budget(fee_lamports=100_010))
    sales.maintenance.budget = facilitator.budget
    await sales.maintenance.look_at_sales()
    await sales.expect_open()
    world.go_wrong(landing={"kind": "failed"})
    for name in "abcde":
        payment = world.pay(facilitator.require(RESOURCE, AMOUNT), world.fund(name))
        await buy(facilitator, payment, key=KEY + name, address=name)
    world.go_wrong()
    with capture_logs() as lines:
        await sales.maintenance.look_at_sales()

    assert "sales are closed" in {line["event"] for line in lines}
    assert metric("mintscope_sales_open_to_new_payers") == 0
    assert metric("mintscope_sales_open") == 1
    with pytest.raises(ServiceUnavailable, match="closed: to payers that bought nothing"):
        await sales.expect_open()
    with capture_logs() as lines:
        await sales.maintenance.look_at_sales()
        await sales.maintenance.books.stop_sales(now=world.clock.now(), why="a test")
        await sales.maintenance.look_at_sales()
        await sales.maintenance.books.resume_sales()
        await sales.maintenance.look_at_sales()
    reasons = [line["reason"][:10] for line in lines if line["event"] == "sales are closed"]
    assert reasons == ["stopped by", "to payers "]
    world.clock.advance(HOUR_MS)
    await sales.maintenance.look_at_sales()
    await sales.expect_open()
    assert metric("mintscope_sales_open_to_new_payers") == 1
