"""Doubts of an audit about payments: what causes them, and when they are resolved."""

import pytest

from mintscope.app.stores.stores import Money
from mintscope.credits.invariants import Invariant
from mintscope.kit.errors import ServiceUnavailable
from mintscope.payments.audit import PAGES_MAX, Auditor, ScanScope
from mintscope.payments.ports import Settled
from mintscope.payments.reconciler import Secrets
from support.scenes.payments.payment_world import AMOUNT, KEY, RESOURCE, World, buy
from support.scenes.payments.restored import forget_everything


async def bought(world: World, key: str = KEY) -> None:
    facilitator = world.facilitator()
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT, key))
    assert isinstance(await buy(facilitator, payment, key=key), Settled)


def doubts(world: World) -> int:
    return int(world.sql("SELECT count(*) FROM doubt"))


async def test_only_a_full_audit_finds_a_break_in_entries_audited_before(
    world: World, money: Money
) -> None:
    await bought(world)
    auditor = Auditor(
        books=money.books,
        recognise=world.recognise,
        treasury=money.books,
        history=world.chains[0],
        reconciler=world.reconciler(),
        clock=world.clock,
    )
    assert await auditor.audit() == []
    world.sql("DROP TRIGGER credit_entry_is_never_changed")
    world.sql("UPDATE credit_entry SET balance = balance + 1")

    assert await auditor.audit() == []
    assert await auditor.audit(full=True) != []


async def test_a_sale_that_arrived_is_not_doubted(world: World) -> None:
    await bought(world)
    world.slots(60)

    assert await world.audit() == []
    assert doubts(world) == 0


async def test_a_full_comparison_goes_on_if_it_is_requested_again(
    world: World, money: Money, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each audit reads one page of two signatures, so three payments take three audits."""
    monkeypatch.setattr("mintscope.payments.node.PAGE", 2)
    monkeypatch.setitem(PAGES_MAX, ScanScope.ALL, 1)
    for n in range(3):
        await bought(world, f"{KEY}{n}")
    world.slots(60)
    ends = []
    for _ in range(6):
        assert await world.audit(full=True) == []
        scan = await money.books.scan(ScanScope.ALL)
        assert scan is not None
        ends.append(scan.finished_at is not None)

    assert ends == [False, False, True] * 2


async def test_a_sale_is_doubted_only_after_five_minutes(world: World) -> None:
    await bought(world)
    world.go_wrong(blind=["getTransaction"])
    found = []
    for seconds in (120, 150, 60):
        world.seconds(seconds)
        assert await world.audit() == []
        found.append(doubts(world))

    assert found == [0, 0, 1]


async def lost_and_hidden(world: World) -> None:
    """Lose the row of a landed payment and its pepper, after an audit that did not see it."""
    await bought(world)
    forget_everything(world)
    world.seconds(60)
    world.secrets = Secrets.derive(b"another".ljust(32))
    world.go_wrong(blind=["getTransaction"])
    assert await world.audit() == []
    world.go_wrong()
    world.seconds(120)


async def test_an_arrival_is_in_doubt_until_it_can_be_read(world: World) -> None:
    await lost_and_hidden(world)
    assert doubts(world) == 1
    world.secrets = world.facilitator().secrets

    assert await world.audit() == []
    assert doubts(world) == 0


async def test_sales_are_stopped_before_a_doubt_is_deleted(world: World, money: Money) -> None:
    """The deletion of the doubt fails, as on a full disk, after sales were stopped."""
    await lost_and_hidden(world)
    world.sql(
        "CREATE TRIGGER full BEFORE DELETE ON doubt BEGIN SELECT RAISE(ABORT, 'no room'); END"
    )
    with pytest.raises(ServiceUnavailable):
        await world.audit()

    assert str(await money.books.why_stopped()).startswith(Invariant.LANDED_IS_KNOWN)
