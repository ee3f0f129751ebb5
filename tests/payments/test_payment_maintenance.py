"""Tasks beside the api: fees that run out, nodes that fail, payments that cannot be read."""

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
    """Leave the fee payer so much."""
    key = world.vm.genesis.fee_payer.pubkey()
    account = world.vm.bank.account(key)
    assert account is not None
    world.vm.genesis.endow(world.vm.bank, key, lamports=lamports - account.lamports)


async def test_a_fee_payer_that_runs_out_closes_sales_until_it_has_more(
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


async def test_402s_carry_a_blockhash_from_the_start_and_while_it_runs(
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


async def test_a_payment_without_a_row_is_reported_once_and_stops_nothing(
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


async def test_the_budget_of_sales_is_that_of_the_settings(world: World) -> None:
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


async def test_without_a_node_the_books_are_checked(world: World, sales: Sales) -> None:
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


async def test_one_payment_that_cannot_be_read_is_set_aside(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others go on; it is looked at ever more rarely, and issued once it can be read."""
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


async def test_a_clock_that_steps_a_day_and_back_loses_no_paid_report(
    world: World, sales: Sales
) -> None:
    """Reports are forgotten by an age that no step changes, and not while the clock is wrong."""
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


async def test_a_report_that_is_forgotten_is_used_up(world: World) -> None:
    """Its payment was used before: that is what the client hears, and not of an error of ours."""
    facilitator = world.facilitator()
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT))
    report = PaidReport(body=b"1 2\n{}")
    assert isinstance(await buy(facilitator, payment, wanted=report), Settled)
    world.sql("UPDATE payment SET body = NULL")

    assert await buy(facilitator, payment, wanted=report) == AlreadyUsed(Used.PAYMENT)


async def test_fees_that_strangers_burned_are_seen_as_closed_sales(
    world: World, sales: Sales
) -> None:
    """To new payers, within the hour; it is no reason not to be ready."""
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
