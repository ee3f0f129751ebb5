"""The contract of every `RotationStore`, which replaces credit tokens.

To test another engine, add it to `ENGINES`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from mintscope.app.stores import postgres as openers
from mintscope.app.stores.sqlite import payment_store
from mintscope.credits.ledger import CreditLedger, Spent
from mintscope.credits.postgres import PostgresCreditLedger
from mintscope.credits.rotation import RotationDenied, RotationStore
from mintscope.credits.sqlite import SqliteCreditLedger
from mintscope.kit.clock import ManualClock
from mintscope.kit.credentials import CreditToken, hash_credential, hint
from mintscope.kit.primitives import CreditAccount, Signature, UnixMs, Wallet
from mintscope.kit.time import DAY_MS
from mintscope.payments.payment import Dead, NewToken, TopUp
from mintscope.payments.ports import PaymentStore
from support.scenes.payments.pending_payments import AGAIN_MS, DEAD, LANDED, NOW, new_payment
from support.scenes.postgres import dsn_in
from support.scenes.service import credit_token
from support.scenes.stores import PEPPER

OLD, NEW, NEWER = credit_token(1), credit_token(2), credit_token(3)
BOUGHT = Signature("signature of a")
LATER = UnixMs(NOW + 1_000)
NEXT_DAY = UnixMs(NOW + DAY_MS + 2_000)


@dataclass
class Engine:
    """The stores of one engine with which credits are bought, spent and rotated."""

    rotations: RotationStore
    payments: PaymentStore
    ledger: CreditLedger
    known: dict[CreditToken, CreditAccount] = field(default_factory=dict)


def sqlite(folder: Path) -> tuple[Engine, list[Any]]:
    path = folder / "money.sqlite"
    store = payment_store(path)
    ledger = SqliteCreditLedger(path, pepper=PEPPER, clock=ManualClock(NOW))
    return Engine(store, store, ledger), [store, ledger]


def postgres(folder: Path) -> tuple[Engine, list[Any]]:
    dsn = dsn_in(folder)
    store = openers.payment_store(dsn)
    ledger = PostgresCreditLedger(dsn, pepper=PEPPER, clock=ManualClock(NOW))
    return Engine(store, store, ledger), [store, ledger]


ENGINES: dict[str, Callable[[Path], tuple[Engine, list[Any]]]] = {
    "sqlite": sqlite,
    "postgresql": postgres,
}


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
    await engine.payments.resolve(pending.payment.message_hash, LANDED, now=NOW, again_ms=AGAIN_MS)


async def account_of(engine: Engine, token: CreditToken = OLD) -> CreditAccount:
    account = await found(engine, token)
    assert account is not None
    return account


async def found(engine: Engine, token: CreditToken) -> CreditAccount | None:
    """Return the account of *token*, also after *token* was rotated; None if it was never found."""
    account = await engine.ledger.find(token)
    if account is not None:
        engine.known[token] = account
    return engine.known.get(token)


async def top_up(engine: Engine, name: str, *, payer: str, token: CreditToken = OLD) -> None:
    """Let *payer* buy 50 credits onto *token*."""
    pending = new_payment(name, purchase=TopUp(credits=50, account=await account_of(engine, token)))
    pending = replace(pending, payment=replace(pending.payment, payer=Wallet(payer)))
    await engine.payments.begin(pending)
    await engine.payments.resolve(pending.payment.message_hash, LANDED, now=NOW, again_ms=AGAIN_MS)


async def spend(engine: Engine, count: int, token: CreditToken = OLD) -> None:
    account = await account_of(engine, token)
    for _ in range(count):
        assert isinstance(await engine.ledger.spend(account), Spent)


async def claim(
    engine: Engine,
    token: CreditToken = NEW,
    *,
    now: UnixMs = NEXT_DAY,
    purchase: Signature = BOUGHT,
) -> int | RotationDenied:
    digest = hash_credential(token, pepper=PEPPER)
    return await engine.rotations.claim(purchase, digest, hint(token), now=now)


async def rotate(
    engine: Engine, old: CreditToken = OLD, new: CreditToken = NEW, *, now: UnixMs = LATER
) -> int | RotationDenied:
    account, digest = await account_of(engine, old), hash_credential(new, pepper=PEPPER)
    return await engine.rotations.rotate(account, digest, hint(new), now=now)


async def left(engine: Engine, *tokens: CreditToken) -> list[int | None]:
    """Return the balance of each of *tokens*; None for a credit token that does not exist."""
    accounts = [await found(engine, token) for token in tokens]
    return [None if each is None else await engine.ledger.balance(each) for each in accounts]


async def test_a_purchase_is_found_once_it_is_issued(engine: Engine) -> None:
    assert await engine.rotations.find_purchase(BOUGHT) is None
    await engine.payments.begin(new_payment("b"))
    assert await engine.rotations.find_purchase(Signature("signature of b")) is None
    await engine.payments.resolve(
        new_payment("b").payment.message_hash, DEAD, now=NOW, again_ms=AGAIN_MS
    )
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


async def test_a_wallet_can_claim_only_the_credits_that_it_bought(engine: Engine) -> None:
    await buy(engine)
    await top_up(engine, "b", payer="bob")

    assert await claim(engine) == 10
    assert await left(engine, OLD, NEW) == [50, 10]
    assert await claim(engine, NEWER) is RotationDenied.TOO_SOON
    assert await left(engine, NEWER) == [None]


async def test_the_oldest_credits_are_spent_first(engine: Engine) -> None:
    await buy(engine)
    await top_up(engine, "b", payer="bob")
    await spend(engine, 4)
    assert await claim(engine) == 6
    assert await left(engine, OLD, NEW) == [50, 6]
    await top_up(engine, "c", payer="alice")
    await spend(engine, 20)

    bought = Signature("signature of c")
    assert await claim(engine, NEWER, purchase=bought) == 50
    assert await left(engine, OLD) == [30]


async def test_spent_credits_cannot_be_claimed(engine: Engine) -> None:
    await buy(engine)
    await top_up(engine, "b", payer="bob")
    await spend(engine, 10)

    assert await claim(engine) is RotationDenied.EMPTY
    assert await left(engine, OLD, NEW) == [50, None]


async def test_claimed_credits_can_be_claimed_again_a_day_later(engine: Engine) -> None:
    await buy(engine)
    assert await claim(engine, now=LATER) == 10
    await top_up(engine, "b", payer="bob", token=NEW)

    assert await claim(engine, NEWER) == 10
    assert await left(engine, OLD, NEW, NEWER) == [0, 50, 10]
    assert await claim(engine, credit_token(4)) is RotationDenied.TOO_SOON


async def test_a_claim_leaves_the_credits_that_another_wallet_has_moved(engine: Engine) -> None:
    """Alice's credits on a token stay hers after Bob has claimed his from the same token."""
    await buy(engine)
    assert await claim(engine, now=LATER) == 10
    await top_up(engine, "b", payer="bob", token=NEW)
    bought = Signature("signature of b")
    assert await claim(engine, NEWER, purchase=bought) == 50

    assert await engine.rotations.find_credits(Wallet("alice")) == await account_of(engine, NEW)
    assert await claim(engine, credit_token(4)) == 10
    assert await left(engine, NEW, NEWER, credit_token(4)) == [0, 50, 10]


async def test_credits_that_their_holder_rotated_cannot_be_claimed(engine: Engine) -> None:
    await buy(engine)
    assert await rotate(engine) == 10
    await top_up(engine, "b", payer="bob", token=NEW)

    assert await claim(engine, NEWER) is RotationDenied.EMPTY
    assert await left(engine, OLD, NEW, NEWER) == [0, 60, None]


async def test_credits_of_a_vanished_payment_cannot_be_claimed(engine: Engine) -> None:
    await buy(engine)
    await top_up(engine, "b", payer="bob")
    message = new_payment("a").payment.message_hash
    for height in (1_000, 1_032, 1_064):
        await engine.payments.resolve(message, Dead(height=height), now=LATER, again_ms=AGAIN_MS)

    assert await claim(engine) is RotationDenied.EMPTY
    assert await left(engine, OLD) == [50]


async def test_a_rotated_or_empty_token_is_not_rotated(engine: Engine) -> None:
    await buy(engine)
    assert await rotate(engine) == 10
    assert await rotate(engine, new=NEWER) is RotationDenied.ROTATED
    await spend(engine, 10, NEW)

    assert await rotate(engine, NEW, NEWER) is RotationDenied.EMPTY
    assert await left(engine, NEWER) == [None]


async def test_the_root_of_every_rotated_account_is_the_first_account(engine: Engine) -> None:
    await buy(engine)
    first = await account_of(engine)
    assert await engine.ledger.root(first) == first
    await rotate(engine)
    await rotate(engine, NEW, NEWER)
    assert await engine.ledger.root(await account_of(engine, NEW)) == first
    assert await engine.ledger.root(await account_of(engine, NEWER)) == first


@pytest.mark.parametrize("again", [rotate, claim])
async def test_the_same_rotation_sent_several_times_moves_the_credits_once(
    engine: Engine, again: Callable[[Engine], Awaitable[int | RotationDenied]]
) -> None:
    await buy(engine)

    assert await asyncio.gather(*(again(engine) for _ in range(4))) == [10] * 4
    assert await left(engine, OLD, NEW) == [0, 10]


@pytest.mark.parametrize("wallet_first", [False, True])
async def test_at_most_one_of_simultaneous_rotations_moves_the_credits(
    engine: Engine,
    wallet_first: bool,  # noqa: FBT001 - pytest names it
) -> None:
    await buy(engine)
    account = await account_of(engine)
    tokens = [credit_token(number) for number in range(10, 20)]
    jobs = [rotate(engine, new=token) for token in tokens]
    jobs.insert(0 if wallet_first else len(jobs), claim(engine))
    spends = [engine.ledger.spend(account) for _ in range(5)]
    outcomes, spent = await asyncio.gather(asyncio.gather(*jobs), asyncio.gather(*spends))
    moved = [each for each in outcomes if not isinstance(each, RotationDenied)]

    assert len(moved) <= 1
    left_now = [each or 0 for each in await left(engine, OLD, NEW, *tokens)]
    assert sum(left_now) == 10 - sum(isinstance(each, Spent) for each in spent)
    assert await left(engine, OLD) == [0]
