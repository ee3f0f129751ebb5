"""The contract of every AdoptionStore, in memory and on each engine alike."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from payment_engines import ENGINES, Engine, resolve

from mintscope.kit.audit import COMMAND_LINE
from mintscope.payments.payment import Payment, Reverted, State, TopUp
from mintscope.payments.ports import KEY_TAKEN, AlreadyUsed, PendingPayment, Used
from support.scenes.payments.pending_payments import (
    LANDED_FOR_GOOD,
    NOW,
    key_hash,
    new_payment,
    new_token,
)


@pytest.fixture(params=ENGINES)
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Engine]:
    async with ENGINES[request.param](tmp_path) as engine:
        yield engine


async def adopt(engine: Engine, asked: PendingPayment) -> Payment | AlreadyUsed:
    return await engine.store.adopt(asked.payment, LANDED_FOR_GOOD, by=COMMAND_LINE, now=NOW)


async def test_an_adopted_payment_is_issued_and_final_at_once(engine: Engine) -> None:
    asked = new_payment("a", last_valid_height=1)
    adopted = await adopt(engine, asked)

    assert isinstance(adopted, Payment)
    assert (adopted.state, adopted.final) == (State.ISSUED, True)
    assert engine.credits(new_token("a")) == 10
    assert (await engine.store.find(asked.payment.message_hash)).payment == adopted
    assert list(await engine.store.lease(now=NOW, until=NOW, count_max=9)) == []


async def test_a_payment_is_credited_once_if_it_is_adopted_twice(engine: Engine) -> None:
    asked = new_payment("a")
    first = await adopt(engine, asked)
    again = await adopt(engine, new_payment("a", key_hash=key_hash("another")))

    assert first == again
    assert engine.credits(new_token("a")) == 10


async def test_a_payment_that_has_begun_keeps_its_row_if_it_is_adopted(engine: Engine) -> None:
    await engine.store.begin(new_payment("a"))
    adopted = await adopt(engine, new_payment("a", key_hash=key_hash("another")))

    assert isinstance(adopted, Payment)
    assert (adopted.state, adopted.key_hash) == (State.ISSUED, key_hash("a"))
    assert engine.credits(new_token("a")) == 10


async def test_an_adoption_issues_a_payment_that_was_recorded_as_reverted(engine: Engine) -> None:
    await engine.store.begin(new_payment("a"))
    await resolve(engine, new_payment("a"), Reverted(final=False))
    adopted = await adopt(engine, new_payment("a"))

    assert isinstance(adopted, Payment)
    assert adopted.state is State.ISSUED


async def test_a_payment_is_adopted_while_sales_are_closed_and_the_fund_is_empty(
    engine: Engine,
) -> None:
    engine.close_sales()
    engine.fill_fund(0)

    assert isinstance(await adopt(engine, new_payment("a")), Payment)


async def test_an_adoption_with_the_key_of_another_payment_is_refused(engine: Engine) -> None:
    await engine.store.begin(new_payment("a"))
    asked = new_payment("b", key_hash=key_hash("a"))

    assert await adopt(engine, asked) == KEY_TAKEN
    assert (await engine.store.find(asked.payment.message_hash)).payment is None


async def test_an_adopted_top_up_is_credited_to_its_account(engine: Engine) -> None:
    account = engine.open_account(5)
    top_up = TopUp(credits=10, account=account)

    assert isinstance(await adopt(engine, new_payment("a", purchase=top_up)), Payment)
    assert engine.credits(top_up) == 15


async def test_a_payment_that_an_operator_acknowledged_is_not_adopted(engine: Engine) -> None:
    asked = new_payment("a")
    engine.acknowledge(asked.payment.signature)

    assert await adopt(engine, asked) == AlreadyUsed(Used.ACKNOWLEDGED)
    assert (await engine.store.find(asked.payment.message_hash)).payment is None
