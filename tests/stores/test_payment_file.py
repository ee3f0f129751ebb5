"""The payment tables: jobs that fail, and rules that the schema enforces."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import apsw
import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from mintscope.app.stores.sqlite import payment_store
from mintscope.kit.primitives import UnixMs
from mintscope.payments.payment import Dead, Landed, Payment, Reverted, State
from mintscope.payments.ports import Begun, Inconsistent
from mintscope.payments.store.payments import SqlPaymentStore
from support.scenes.payments.pending_payments import (
    AGAIN_MS,
    AMOUNT,
    LANDED,
    NOW,
    new_payment,
)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlPaymentStore]:
    store = payment_store(tmp_path / "money.sqlite")
    yield store
    await store.close()


async def resolve(
    store: SqlPaymentStore, name: str, *evidence: Landed | Dead | Reverted
) -> Payment:
    for each in evidence:
        payment = await store.resolve(
            new_payment(name).payment.message_hash, each, now=UnixMs(NOW), again_ms=AGAIN_MS
        )
    return payment


async def test_a_failed_job_undoes_only_itself(store: SqlPaymentStore) -> None:
    """All five jobs share one or two commits."""
    free = new_payment("free")
    outcomes = await asyncio.gather(
        store.begin(new_payment("a")),
        store.begin(replace(free, payment=replace(free.payment, fee_lamports=0))),
        store.resolve(
            new_payment("unknown").payment.message_hash, LANDED, now=NOW, again_ms=AGAIN_MS
        ),
        store.begin(replace(free, payment=replace(free.payment, amount=2**63))),
        store.begin(new_payment("b")),
        return_exceptions=True,
    )

    assert [type(outcome) for outcome in outcomes] == [
        Begun,
        Inconsistent,
        Inconsistent,
        OverflowError,
        Begun,
    ]
    for name, is_there in (("a", True), ("b", True), ("free", False)):
        found = await store.find(new_payment(name).payment.message_hash)
        assert (found.payment is not None) == is_there


async def test_a_job_that_fails_halfway_is_undone_completely(
    store: SqlPaymentStore, tmp_path: Path
) -> None:
    """The job enters credits before its row is refused: the credits are removed as well."""
    for name in ("bad", "good"):
        await store.begin(new_payment(name))
    db = apsw.Connection(str(tmp_path / "money.sqlite"))
    db.execute(
        "CREATE TRIGGER broken BEFORE UPDATE OF state ON payment"
        " WHEN OLD.signature = 'signature of bad' BEGIN SELECT raise(ABORT, 'a test'); END"
    )
    bad, good = await asyncio.gather(
        resolve(store, "bad", LANDED), resolve(store, "good", LANDED), return_exceptions=True
    )

    assert isinstance(bad, Inconsistent)
    assert isinstance(good, Payment)
    assert db.execute("SELECT count(*), sum(delta) FROM credit_entry").get == (1, 10)
    db.close()


async def test_payments_that_cannot_be_read_are_not_leased(
    store: SqlPaymentStore, tmp_path: Path
) -> None:
    """A refusal reason of a newer version is unreadable: the lease fails, and leases nothing."""
    for name in ("good", "new"):
        await store.begin(new_payment(name))
    await resolve(store, "new", Reverted(final=False))
    later = UnixMs(NOW + 60 * AGAIN_MS)
    db = apsw.Connection(str(tmp_path / "money.sqlite"))
    db.execute("UPDATE payment SET reason = 'newer' WHERE state = 'failed'")
    with pytest.raises(ValueError, match="newer"):
        await store.lease(now=later, until=UnixMs(later + 10), count_max=9)
    db.execute("UPDATE payment SET reason = 'transaction_failed' WHERE state = 'failed'")
    db.close()

    assert len(await store.lease(now=later, until=UnixMs(later + 10), count_max=9)) == 2


def freezes(change: str) -> float:
    labels = {"change": change, "reason": "transaction_vanished"}
    return REGISTRY.get_sample_value("mintscope_payment_freezes_total", labels) or 0.0


async def test_a_frozen_payment_is_logged_and_counted(store: SqlPaymentStore) -> None:
    await store.begin(new_payment("a"))
    before = freezes("frozen"), freezes("thawed")
    with capture_logs() as lines:
        await resolve(store, "a", LANDED, Dead(height=1_000))
        assert lines == []
        await resolve(store, "a", Dead(height=1_032), Dead(height=1_064))
        assert [(line["event"], line["log_level"]) for line in lines] == [
            ("a payment is frozen", "error")
        ]
        await resolve(store, "a", Landed(paid=AMOUNT, final=True))

    assert lines[-1]["event"] == "a frozen payment has come back"
    assert lines[-1]["signature"] == new_payment("a").payment.signature
    assert (freezes("frozen"), freezes("thawed")) == (before[0] + 1, before[1] + 1)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE payment SET amount = 1",
        "UPDATE payment SET credits = 1000",
        "UPDATE payment SET fee_lamports = 1",
        "UPDATE payment SET state = 'pending'",
        "UPDATE payment SET state = 'failed', reason = 'transaction_failed'",
        "UPDATE payment SET paid = amount - 1",
        "DELETE FROM payment",
        "UPDATE credit_account SET balance = -1",
    ],
)
async def test_the_schema_refuses_statements_that_break_the_books(
    store: SqlPaymentStore, tmp_path: Path, change: str
) -> None:
    await store.begin(new_payment("a"))
    await resolve(store, "a", LANDED)
    db = apsw.Connection(str(tmp_path / "money.sqlite"))
    with pytest.raises(apsw.ConstraintError):
        db.execute(change)
    db.close()


async def test_the_height_of_one_failed_look_up_is_stored(store: SqlPaymentStore) -> None:
    """Another process may make the second look-up; it reads this height from the store."""
    await store.begin(new_payment("a"))
    await resolve(store, "a", LANDED, Dead(height=1_000))
    found = (await store.find(new_payment("a").payment.message_hash)).payment

    assert found is not None
    assert (found.state, found.missed_height) == (State.ISSUED, 1_000)
