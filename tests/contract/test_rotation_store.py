"""What every RotationStore must do.  Add an engine to `ENGINES`, nothing else."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mintscope.base.clock import ManualClock
from mintscope.base.credentials import hash_credential, hint
from mintscope.base.primitives import Signature, UnixMs
from mintscope.core.credits.ledger import CreditLedger
from mintscope.core.credits.rotation import RotationStore
from mintscope.core.payments.payment import NewToken
from mintscope.core.payments.store import PaymentStore
from mintscope.edges.storage.sqlite.money.credit_ledger import SqliteCreditLedger
from mintscope.edges.storage.sqlite.money.payments import SqlitePaymentStore
from support.scenes.payments.pending_payments import DEAD, LANDED, NOW, new_payment
from support.scenes.service import credit_token
from support.scenes.stores import PEPPER

OLD, NEW = credit_token(1), credit_token(2)
BOUGHT = Signature("signature of a")
LATER = UnixMs(NOW + 1_000)


@dataclass
class Engine:
    """The store, the payments that fill it, and the ledger that shows where credits are."""

    rotations: RotationStore
    payments: PaymentStore
    ledger: CreditLedger


def sqlite(folder: Path) -> tuple[Engine, list[Any]]:
    path = folder / "money.sqlite"
    store = SqlitePaymentStore(path)
    ledger = SqliteCreditLedger(path, pepper=PEPPER, clock=ManualClock(NOW))
    return Engine(store, store, ledger), [store, ledger]


ENGINES: dict[str, Callable[[Path], tuple[Engine, list[Any]]]] = {"sqlite": sqlite}


@pytest.fixture(params=ENGINES)
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Engine]:
    engine, opened = ENGINES[request.param](tmp_path)
    yield engine
    for each in opened:
        await each.close()


async def buy(engine: Engine) -> None:
    bought = NewToken(credits=10, token_hash=hash_credential(OLD, pepper=PEPPER), hint=hint(OLD))
    pending = new_payment("a", purchase=bought)
    await engine.payments.begin(pending)
    await engine.payments.resolve(pending.payment.message_hash, LANDED, now=NOW)


async def test_a_purchase_is_found_once_it_is_issued(engine: Engine) -> None:
    assert await engine.rotations.find_purchase(BOUGHT) is None
    await engine.payments.begin(new_payment("b"))
    assert await engine.rotations.find_purchase(Signature("signature of b")) is None
    await engine.payments.resolve(new_payment("b").payment.message_hash, DEAD, now=NOW)
    assert await engine.rotations.find_purchase(Signature("signature of b")) is None
    await buy(engine)

    found = await engine.rotations.find_purchase(BOUGHT)
    assert found is not None
    assert (found.payer, found.bought_at) == ("alice", NOW)
    assert (found.rotated_at, found.is_used) == (None, False)
    assert found.holder == await engine.ledger.find(OLD)


async def test_a_purchase_is_used_once_a_credit_of_it_is_spent(engine: Engine) -> None:
    await buy(engine)
    account = await engine.ledger.find(OLD)
    assert account is not None
    await engine.ledger.spend(account)

    found = await engine.rotations.find_purchase(BOUGHT)
    assert found is not None
    assert found.is_used


async def test_a_rotation_moves_all_credits_and_their_purchase(engine: Engine) -> None:
    await buy(engine)
    old = await engine.ledger.find(OLD)
    assert old is not None
    digest = hash_credential(NEW, pepper=PEPPER)

    assert await engine.rotations.rotate(old, digest, hint(NEW), now=LATER) == 10
    new = await engine.ledger.find(NEW)
    assert new is not None
    assert (await engine.ledger.balance(old), await engine.ledger.balance(new)) == (0, 10)
    found = await engine.rotations.find_purchase(BOUGHT)
    assert found is not None
    assert (found.holder, found.rotated_at) == (new, LATER)
