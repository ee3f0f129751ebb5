"""Every invariant holds after payments with any outcome; an audit reports each broken invariant."""

from base64 import b64encode
from contextlib import suppress
from typing import Final

import apsw
import pytest
from solders.instruction import AccountMeta, Instruction
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM
from solders.transaction import VersionedTransaction

from mintscope.app.stores.stores import Money
from mintscope.credits.invariants import Invariant, Violation
from mintscope.kit.primitives import CreditAccount, Signature
from mintscope.kit.time import DAY_MS
from mintscope.payments.audit import PAGES_MAX, Scan, ScanScope, compare
from mintscope.payments.payment import TopUp
from mintscope.payments.ports import (
    ChainUnavailable,
    Obstacle,
    Settled,
    Unavailable,
    Unresolved,
)
from mintscope.payments.reconciler import Secrets
from support.scenes.payments.payment_world import (
    AMOUNT,
    EXPIRY_SLOTS,
    KEY,
    RESOURCE,
    World,
    buy,
    on_older_chain,
)

ASSOCIATED_TOKEN: Final = Pubkey.from_string("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL")
CREATE_IDEMPOTENT: Final = b"\x01"


async def trade(world: World) -> None:
    """Make payments with every outcome: bought, topped up, reverted, vanished, never landed."""
    facilitator = world.facilitator()

    async def one(key: str, **landing: object) -> None:
        world.go_wrong(landing={"times": 1, **landing} if landing else None)
        await buy(facilitator, world.pay(facilitator.require(RESOURCE, AMOUNT)), key=KEY + key)

    await one("bought")
    world.sql(
        "INSERT INTO credit_entry (account, kind, delta, balance, at) VALUES (1, 'spend', -4, 6, 0)"
    )
    await one("reverted", kind="failed")
    await one("vanished", kind="vanish", ms=400)
    await one("never", kind="never")
    world.go_wrong()
    topped_up = world.pay(facilitator.require(RESOURCE, AMOUNT))
    await buy(facilitator, topped_up, key=None, wanted=TopUp(credits=50, account=CreditAccount(1)))
    await world.miss()
    world.slots(EXPIRY_SLOTS)
    await world.miss()


@on_older_chain
async def test_an_audit_finds_no_violation_after_every_kind_of_payment(
    world: World, money: Money
) -> None:
    await trade(world)

    assert await world.audit() == []
    assert await world.audit() == []
    assert await world.audit(full=True) == []
    assert sorted(world.ledger().values()) == [0, 56]
    assert await money.books.why_stopped() is None


BREAKS = {
    Invariant.ISSUED_IS_ENTERED: "DROP TRIGGER payment_is_as_promised;"
    " UPDATE payment SET credits = 11 WHERE id = 1",
    Invariant.ENTRY_IS_PAID: "INSERT INTO credit_entry (account, kind, delta, balance, at)"
    " SELECT id, 'payment', 5, balance + 5, 0 FROM credit_account LIMIT 1",
    Invariant.PAID_IS_ENOUGH: "UPDATE payment SET paid = amount - 1 WHERE id = 1",
    Invariant.BALANCE_IS_SUM: "UPDATE credit_account SET balance = balance + 1",
    Invariant.ROTATIONS_CANCEL: "INSERT INTO credit_entry (account, kind, delta, balance, at)"
    " SELECT id, 'rotate', 5, balance + 5, 0 FROM credit_account LIMIT 1",
    Invariant.FREEZES_CANCEL: "UPDATE payment SET frozen = frozen + 1 WHERE id = 1",
}


@pytest.mark.storm
@pytest.mark.parametrize("invariant", BREAKS)
async def test_every_contradiction_in_the_books_is_found(
    world: World, money: Money, invariant: Invariant
) -> None:
    await trade(world)
    db = apsw.Connection(str(world.path))
    db.execute("PRAGMA ignore_check_constraints = ON")
    db.execute(BREAKS[invariant])
    db.close()
    found = await world.audit()

    assert {violation.invariant for violation in found} == {invariant}
    why = await money.books.why_stopped()
    assert why is not None
    assert why.startswith(invariant)


async def test_a_violation_closes_sales_until_the_operator_resumes_them(
    world: World, money: Money
) -> None:
    """A later audit without a violation does not reopen sales."""
    await trade(world)
    facilitator = world.facilitator()
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT))
    closed = Unavailable(Obstacle.SALES_CLOSED)
    world.sql("UPDATE credit_account SET balance = balance + 1")
    broken = await world.audit()
    assert {violation.invariant for violation in broken} == {Invariant.BALANCE_IS_SUM}
    assert await buy(facilitator, payment) == closed
    world.sql("UPDATE credit_account SET balance = balance - 1")
    assert await world.audit() == []
    assert await buy(facilitator, payment) == closed
    await money.books.resume_sales()

    assert isinstance(await buy(facilitator, payment), Settled)


async def test_an_audit_issues_a_landed_payment_instead_of_reporting_it(
    world: World, money: Money
) -> None:
    facilitator = world.facilitator(patience_s=0.05)
    world.go_wrong(blind=["getSignatureStatuses"])
    await buy(facilitator, world.pay(facilitator.require(RESOURCE, AMOUNT)))
    world.slots(EXPIRY_SLOTS)
    await world.reconciler().once()
    world.go_wrong()

    assert await world.audit() == []
    assert list(world.ledger().values()) == [10]
    scan = await money.books.scan(ScanScope.NEW)
    assert scan is not None
    assert scan.mark is not None


async def test_a_payment_without_a_row_is_found(world: World) -> None:
    """The payment landed, its row is deleted, and its quote is invalid under the new pepper."""
    facilitator = world.facilitator()
    outcome = await buy(facilitator, world.pay(facilitator.require(RESOURCE, AMOUNT)))
    assert isinstance(outcome, Settled)
    world.sql("DROP TRIGGER payment_is_never_deleted")
    world.sql("PRAGMA foreign_keys = OFF")
    world.sql("DELETE FROM payment")
    world.slots(60)
    world.secrets = Secrets.derive(b"another".ljust(32))
    found = await world.audit()

    assert Violation(Invariant.LANDED_IS_KNOWN, outcome.payment.signature) in found


async def test_the_fee_payer_may_have_opened_the_treasurys_account(world: World) -> None:
    """`spl-token create-account --fee-payer` with the service's key makes no orphan."""
    world.facilitator()
    fee_payer, terms = world.vm.genesis.fee_payer, world.terms
    accounts = [
        AccountMeta(fee_payer.pubkey(), is_signer=True, is_writable=True),
        AccountMeta(terms.treasury, is_signer=False, is_writable=True),
        *(
            AccountMeta(Pubkey.from_string(key), is_signer=False, is_writable=False)
            for key in (terms.pay_to, terms.asset, str(SYSTEM), terms.token_program)
        ),
    ]
    opening = Instruction(ASSOCIATED_TOKEN, CREATE_IDEMPOTENT, accounts)
    message = MessageV0.try_compile(fee_payer.pubkey(), [opening], [], world.blockhash())
    wire = bytes(VersionedTransaction(message, [fee_payer]))
    world.methods.call("sendTransaction", [b64encode(wire).decode(), {"encoding": "base64"}])
    world.slots(60)

    assert len((await world.chains[0].arrivals(after=None, before=None)).succeeded) == 1
    assert await world.audit(full=True) == []


def test_transfers_from_others_are_not_payments() -> None:
    assert compare([], {Signature("a gift"): False, Signature("a riddle"): None}) == []
    assert compare([], {Signature("ours"): True}) == [Violation(Invariant.LANDED_IS_KNOWN, "ours")]


async def test_the_first_audit_after_a_long_outage_raises_no_false_alarm(world: World) -> None:
    """The api died right after a sale, and the reconciler has not run for ten minutes."""
    await buy(world.facilitator(), world.pay(world.facilitator().require(RESOURCE, AMOUNT)))
    world.seconds(600)

    assert await world.audit() == []
    assert world.sql("SELECT final FROM payment") == 1
    assert world.sql("SELECT count(*) FROM doubt") == 0


async def test_an_outage_of_the_node_is_not_a_violation(world: World) -> None:
    """The books are still checked during the outage."""
    await buy(world.facilitator(), world.pay(world.facilitator().require(RESOURCE, AMOUNT)))
    world.go_wrong(calls={"*": {"kind": "http"}})
    for _ in range(6):
        world.seconds(120)
        with pytest.raises(ChainUnavailable):
            await world.audit()
    world.sql("UPDATE credit_account SET balance = balance + 1")
    broken = await world.audit(full=True)
    world.sql("UPDATE credit_account SET balance = balance - 1")
    world.go_wrong()

    assert [violation.invariant for violation in broken] == [Invariant.BALANCE_IS_SUM]
    assert await world.audit() == []


async def test_a_silent_node_only_delays_the_daily_comparison(world: World, money: Money) -> None:
    await buy(world.facilitator(), world.pay(world.facilitator().require(RESOURCE, AMOUNT)))
    world.seconds(60)
    await world.audit()
    world.go_wrong(calls={"*": {"kind": "http"}})
    with pytest.raises(ChainUnavailable):
        await world.audit(full=True)
    world.go_wrong()
    under_way = await money.books.scan(ScanScope.ALL)
    await world.audit()
    await world.audit()
    ended = await money.books.scan(ScanScope.ALL)

    assert under_way == Scan()
    assert ended is not None
    assert ended.finished_at == world.clock.now()


@pytest.mark.parametrize("blind", ["getSignatureStatuses", "getTransaction"])
async def test_an_arrival_is_not_a_violation_while_the_node_cannot_show_it(
    world: World, blind: str
) -> None:
    facilitator = world.facilitator(patience_s=0.02)
    world.go_wrong(blind=[blind])
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT))
    assert isinstance(await buy(facilitator, payment), Unresolved)
    world.seconds(60)
    for _ in range(3):
        assert await world.audit() == []
        world.seconds(60)
    world.go_wrong()

    assert await world.audit() == []
    assert list(world.ledger().values()) == [10]
    assert world.sql("SELECT count(*) FROM doubt") == 0


async def test_a_landed_payment_that_cannot_be_issued_is_eventually_reported(
    world: World, money: Money
) -> None:
    facilitator = world.facilitator(patience_s=0.02)
    world.go_wrong(blind=["getTransaction"])
    await buy(facilitator, world.pay(facilitator.require(RESOURCE, AMOUNT)))
    world.seconds(60)
    reported = []
    for _ in range(11):
        reported.append(bool(await world.audit()))
        world.seconds(60)

    assert reported == [False] * 7 + [True] * 4
    assert str(await money.books.why_stopped()).startswith(Invariant.LANDED_IS_ISSUED)


async def test_an_issued_payment_that_never_becomes_final_is_eventually_reported(
    world: World, money: Money
) -> None:
    """The node no longer returns the transaction, so no check can find that it is final."""
    facilitator = world.facilitator()
    await buy(facilitator, world.pay(facilitator.require(RESOURCE, AMOUNT)))
    world.go_wrong(blind=["getTransaction"])
    reported = []
    for _ in range(14):
        world.seconds(60)
        reported.append([violation.invariant for violation in await world.audit()])

    assert [] in reported[5:9]
    assert reported[-1] == [Invariant.ISSUED_IS_FINAL]
    assert await money.books.why_stopped() is not None


async def test_a_long_history_is_compared_over_many_audits(
    world: World, money: Money, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each audit reads one page of two signatures, and the node fails in every other audit."""
    monkeypatch.setattr("mintscope.payments.node.PAGE", 2)
    monkeypatch.setitem(PAGES_MAX, ScanScope.NEW, 1)
    facilitator = world.facilitator()
    for n in range(5):
        await buy(facilitator, world.pay(facilitator.require(RESOURCE, AMOUNT)), key=f"{KEY}{n}")
    world.slots(60)
    cursors = []
    for n in range(8):
        world.go_wrong(calls={"getSignaturesForAddress": {"kind": "http"}} if n % 2 else {})
        with suppress(ChainUnavailable):
            assert await world.audit() == []
        scan = await money.books.scan(ScanScope.NEW)
        assert scan is not None
        cursors.append(scan.cursor)
        assert (scan.mark is None) == (n < 6)

    assert len(set(cursors)) == 4
    assert cursors[6] is None
    world.go_wrong()
    assert await world.audit(full=True) == []
    everything = await money.books.scan(ScanScope.ALL)
    assert everything is not None
    assert everything.finished_at is None
    for _ in range(3):
        assert await world.audit() == []
    everything = await money.books.scan(ScanScope.ALL)
    assert everything is not None
    assert everything.finished_at is not None


async def test_an_audit_at_a_start_skips_the_full_walk_if_one_ended_within_a_day(
    world: World,
) -> None:
    """Otherwise, starts would take longer the older the service is."""
    await buy(world.facilitator(), world.pay(world.facilitator().require(RESOURCE, AMOUNT)))
    world.seconds(180)
    assert await world.audit(is_start=True) == []
    world.sql("UPDATE credit_account SET balance = balance + 1")

    assert await world.audit(full=True, is_start=True) == []
    world.sql(f"UPDATE audit_walk SET finished_at = finished_at - {DAY_MS}")
    broken = await world.audit(full=True, is_start=True)
    assert [violation.invariant for violation in broken] == [Invariant.BALANCE_IS_SUM]
