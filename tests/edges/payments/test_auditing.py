"""Each invariant holds after anything that happens, and each is missed when it is broken."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import apsw
import pytest

from mintscope.credits.ledger import CreditAccount
from mintscope.payments.invariants import Auditor, Invariant, Violation, compare
from mintscope.payments.outcome import Obstacle, Settled, Unavailable
from mintscope.payments.payment import TopUp
from mintscope.primitives import Signature
from mintscope.storage.sqlite.payment_books import SqlitePaymentBooks
from payment_world import (
    AMOUNT,
    EXPIRY_SLOTS,
    KEY,
    RESOURCE,
    World,
    buy,
    world_at,
)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with world_at(tmp_path) as world:
        yield world


@pytest.fixture
def books(world: World) -> Iterator[SqlitePaymentBooks]:
    books = SqlitePaymentBooks(world.path)
    yield books
    books.close()


def auditor(world: World, books: SqlitePaymentBooks) -> Auditor:
    return Auditor(
        books=books,
        history=world.chains[0],
        reconciler=world.reconciler(),
        clock=world.clock,
    )


async def trade(world: World) -> None:
    """Buy, top up, revert, expire, vanish: everything that may happen."""
    cashier = world.cashier()

    async def one(key: str, **landing: object) -> None:
        world.go_wrong(landing={"times": 1, **landing} if landing else None)
        await buy(cashier, world.pay(cashier.require(RESOURCE, AMOUNT)), key=KEY + key)

    await one("bought")
    world.sql(
        "INSERT INTO credit_entry (account, kind, delta, balance, at) VALUES (1, 'spend', -4, 6, 0)"
    )
    await one("reverted", kind="failed")
    await one("vanished", kind="vanish", ms=400)
    await one("never", kind="never")
    world.go_wrong()
    topped_up = world.pay(cashier.require(RESOURCE, AMOUNT))
    await buy(cashier, topped_up, key=None, wanted=TopUp(credits=50, account=CreditAccount(1)))
    world.slots(EXPIRY_SLOTS)
    while await world.reconciler().once():
        pass


async def test_nothing_that_may_happen_is_a_violation(
    world: World, books: SqlitePaymentBooks
) -> None:
    await trade(world)
    audit = auditor(world, books)

    assert await audit.audit() == []
    assert await audit.audit() == []
    assert await audit.audit(full=True) == []
    assert sorted(world.ledger().values()) == [0, 56]
    assert await books.why_stopped() is None


BREAKS = {
    Invariant.ISSUED_IS_FINAL: "UPDATE payment SET final = 0, resolved_at = 0 WHERE id = 1",
    Invariant.ISSUED_IS_ENTERED: "UPDATE payment SET credits = 11 WHERE id = 1",
    Invariant.ENTRY_IS_PAID: "INSERT INTO credit_entry (account, kind, delta, balance, at)"
    " SELECT id, 'payment', 5, balance + 5, 0 FROM credit_account LIMIT 1",
    Invariant.PAID_IS_ENOUGH: "UPDATE payment SET paid = amount - 1 WHERE id = 1",
    Invariant.BALANCE_IS_SUM: "UPDATE credit_account SET balance = balance + 1",
    Invariant.ROTATIONS_CANCEL: "INSERT INTO credit_entry (account, kind, delta, balance, at)"
    " SELECT id, 'rotate', 5, balance + 5, 0 FROM credit_account LIMIT 1",
    Invariant.FREEZES_CANCEL: "UPDATE payment SET frozen = frozen + 1 WHERE id = 1",
}


@pytest.mark.parametrize("invariant", BREAKS)
async def test_every_contradiction_in_the_books_is_found(
    world: World, books: SqlitePaymentBooks, invariant: Invariant
) -> None:
    await trade(world)
    db = apsw.Connection(str(world.path))
    db.execute("PRAGMA ignore_check_constraints = ON")
    db.execute(BREAKS[invariant])
    db.close()
    found = await auditor(world, books).audit()

    assert {violation.invariant for violation in found} == {invariant}
    why = await books.why_stopped()
    assert why is not None
    assert why.startswith(invariant)


async def test_a_violation_stops_sales_until_the_operator_resumes_them(
    world: World, books: SqlitePaymentBooks
) -> None:
    await trade(world)
    await books.stop_sales(now=world.clock.now(), why="a test")
    cashier = world.cashier()
    payment = world.pay(cashier.require(RESOURCE, AMOUNT))
    assert await buy(cashier, payment) == Unavailable(Obstacle.SALES_CLOSED)
    await books.resume_sales()

    assert isinstance(await buy(cashier, payment), Settled)


async def test_what_arrived_unnoticed_is_issued_not_reported(
    world: World, books: SqlitePaymentBooks
) -> None:
    cashier = world.cashier(patience_s=0.05)
    world.go_wrong(blind=["getSignatureStatuses"])
    await buy(cashier, world.pay(cashier.require(RESOURCE, AMOUNT)))
    world.slots(EXPIRY_SLOTS)
    await world.reconciler().once()
    world.go_wrong()

    assert await auditor(world, books).audit() == []
    assert list(world.ledger().values()) == [10]
    assert await books.treasury_mark() is not None


async def test_a_payment_without_a_row_is_found(world: World, books: SqlitePaymentBooks) -> None:
    """The database was restored from before the payment: its money has come, its row is gone."""
    cashier = world.cashier()
    outcome = await buy(cashier, world.pay(cashier.require(RESOURCE, AMOUNT)))
    assert isinstance(outcome, Settled)
    world.sql("DROP TRIGGER payment_is_never_deleted")
    world.sql("PRAGMA foreign_keys = OFF")
    world.sql("DELETE FROM payment")
    world.slots(60)
    found = await auditor(world, books).audit()

    assert Violation(Invariant.LANDED_IS_KNOWN, outcome.payment.signature) in found


def test_what_others_send_us_is_no_payment() -> None:
    assert compare([Signature("a gift")], [], []) == []
