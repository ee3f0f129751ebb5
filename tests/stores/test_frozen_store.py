"""The database freezes during purchases, for longer than every time limit and every lease.

Another connection holds the write lock, or the writer's thread hangs in a transaction: either
before the pending payment is stored, or before the purchase is.  The chain goes on meanwhile.  A
purchase that is answered with 201 must be in the books at that moment, and in the end the landed
payments, the issued payments and the credit tokens must agree exactly.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, islice, product
from pathlib import Path
from threading import Event
from typing import Any, Final, Literal

import apsw
import pytest
from solders.pubkey import Pubkey

from mintscope.app.stores.sqlite import payment_store
from mintscope.credits.ledger import Spent
from mintscope.credits.sqlite import SqliteCreditLedger
from mintscope.kit.credentials import hint
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import Signature, UnixMs
from mintscope.payments.facilitator import Facilitator
from mintscope.payments.payment import Sighting
from mintscope.payments.ports import AlreadyUsed, Outcome, Settled, Trial, Unresolved
from mintscope.payments.protocol.envelope import Envelope, RecentBlockhash, Refused, Signed
from mintscope.payments.protocol.headers import Presented
from mintscope.payments.settlement import RpcSettlement
from mintscope.payments.store.payments import SqlPaymentStore
from support.scenes.payments.payment_world import (
    AMOUNT,
    EXPIRY_SLOTS,
    KEY,
    RESOURCE,
    SECRETS,
    World,
    buy,
    world_at,
)

FULL = os.environ.get("STORM") == "full"  # noqa: TID251 - only how long to storm
FREEZES = 200 if FULL else 20
STORE_S: Final = 0.03  # the patience of every store
HANG_S: Final = 30
Place = Literal["begin", "issue"]
Freeze = Callable[[], Awaitable[None]]


@dataclass
class Freezing:
    """A chain after whose answer the database freezes, at *place* of a purchase.

    place   "begin": before the pending payment is stored; "issue": before the purchase is
    """

    chain: RpcSettlement
    place: Place = "begin"
    freeze: Freeze | None = None

    def offer(self) -> RecentBlockhash | None:
        return self.chain.offer()

    async def simulate(self, envelope: Envelope, source: Pubkey) -> Trial:
        trial = await self.chain.simulate(envelope, source)
        await self._strike("begin")
        return trial

    async def broadcast(self, signed: Signed) -> None:
        await self.chain.broadcast(signed)

    async def wait(self, signature: Signature, *, patience_s: float) -> Sighting:
        sighting = await self.chain.wait(signature, patience_s=patience_s)
        await self._strike("issue")
        return sighting

    async def look(self, signatures: Sequence[Signature]) -> Sequence[Sighting]:
        return await self.chain.look(signatures)

    async def _strike(self, place: Place) -> None:
        if self.place == place and self.freeze is not None:
            freeze, self.freeze = self.freeze, None
            await freeze()


@dataclass
class Town:
    """Two processes that sell on one file, and a client that spends credits."""

    world: World
    store: SqlPaymentStore
    chain: Freezing
    facilitators: list[Facilitator]
    ledger: SqliteCreditLedger
    tokens: dict[str, str] = field(default_factory=dict)  # by key
    spent: int = 0

    async def present(
        self, facilitator: Facilitator, payment: Presented, key: str
    ) -> Outcome | None:
        """Buy with *payment*, and check that the ledger has the token that is sold; None: a 503."""
        try:
            outcome = await buy(facilitator, payment, key=key)
        except ServiceUnavailable:
            return None  # a 503
        if isinstance(outcome, Settled):
            assert outcome.token is not None
            assert hint(outcome.token) in self.world.ledger()
            assert self.tokens.setdefault(key, outcome.token) == outcome.token
        return outcome

    async def spend(self, token: str) -> None:
        try:
            account = await self.ledger.find(token)
            assert account is not None
            self.spent += isinstance(await self.ledger.spend(account), Spent)
        except ServiceUnavailable:
            pass

    async def spend_at_last(self, token: str) -> None:
        """Spend one credit; repeat until it succeeds, even on a busy machine."""
        spent_before = self.spent
        async with asyncio.timeout(HANG_S):
            while self.spent == spent_before:
                await self.spend(token)

    async def reconcile(self) -> None:
        with suppress(ServiceUnavailable):
            await self.world.reconciler().once()

    async def reconcile_at_last(self) -> None:
        """Reconcile after the freeze; repeat it until it succeeds, even on a busy machine."""
        await self.thawed()
        async with asyncio.timeout(HANG_S):
            while True:
                with suppress(ServiceUnavailable):
                    await self.world.reconciler().once()
                    return

    async def thawed(self) -> None:
        """Wait until every writer has finished its delayed work."""
        idle = [store.lease for store in (self.store, self.world.stores[0])]
        writers: list[Callable[[], Awaitable[object]]] = [self.ledger.expect_writable]
        writers += [partial(lease, now=UnixMs(0), until=UnixMs(0), count_max=1) for lease in idle]
        for write in writers:
            async with asyncio.timeout(HANG_S):
                while True:
                    with suppress(ServiceUnavailable):
                        await write()
                        break
                    await asyncio.sleep(0.01)


@asynccontextmanager
async def town_at(folder: Path) -> AsyncIterator[Town]:
    async with world_at(folder) as world:
        store = payment_store(world.path, patience_s=STORE_S)
        other = payment_store(world.path, patience_s=STORE_S)
        chain = Freezing(world.chain())
        ledger = SqliteCreditLedger(
            world.path, pepper=SECRETS.pepper, clock=world.clock, patience_s=STORE_S
        )
        facilitators = [world.facilitator(store=store, chain=chain), world.facilitator(store=other)]
        world.stores[0], idle = other, world.stores[0]
        yield Town(world, store, chain, facilitators, ledger)
        await chain.chain.aclose()
        await ledger.close()
        await store.close()
        await idle.close()


@asynccontextmanager
async def locked(town: Town, place: Place) -> AsyncIterator[None]:
    """In the block, another connection locks the file for writes once the chain is at *place*."""
    db = apsw.Connection(str(town.world.path))
    db.set_busy_timeout(5_000)

    async def freeze() -> None:
        db.execute("BEGIN IMMEDIATE")

    town.chain.place, town.chain.freeze = place, freeze
    yield
    if db.in_transaction:
        db.execute("ROLLBACK")
    db.close()


@asynccontextmanager
async def hung(town: Town, place: Place) -> AsyncIterator[None]:
    """Let the writer's thread hang, in another transaction, from *place* until the block ends."""
    stuck, thaw = Event(), Event()
    hanging: list[Any] = []

    def hang() -> None:
        stuck.set()
        thaw.wait(HANG_S)

    async def freeze() -> None:
        while not stuck.is_set():  # on a busy machine the job may be refused before it is taken
            with suppress(ServiceUnavailable):
                hanging.append(town.store._group.submit(hang))  # noqa: SLF001
            await asyncio.to_thread(stuck.wait, STORE_S)

    town.chain.place, town.chain.freeze = place, freeze
    yield
    thaw.set()
    await asyncio.gather(*hanging, return_exceptions=True)


WAYS: Final = list(product((locked, hung), ("begin", "issue"), (3, EXPIRY_SLOTS)))


async def freeze_once(town: Town, number: int, way: Any) -> None:
    """Buy during a freeze of the store; repeat every action during the freeze and after it."""
    how, place, slots = way
    world, key = town.world, f"{KEY}-{number:04}"
    payment = world.pay(town.facilitators[0].require(RESOURCE, AMOUNT))
    async with how(town, place):
        first = await town.present(town.facilitators[0], payment, key)
        if town.chain.freeze is not None:  # the machine was too busy for the store's patience
            town.chain.freeze = None
            return
        assert first is None or isinstance(first, Unresolved)
        world.slots(slots)
        for token in list(town.tokens.values())[-2:]:
            await town.spend(token)
        await town.reconcile()
        assert not isinstance(await town.present(town.facilitators[1], payment, key), Settled)
    await town.thawed()
    for _ in range(20):
        outcome = await town.present(town.facilitators[number % 2], payment, key)
        if isinstance(outcome, Settled | Refused):
            break
        world.slots(EXPIRY_SLOTS // 4)
        await town.reconcile()
    assert isinstance(outcome, Settled | Refused)
    stolen = await town.present(town.facilitators[1], payment, "a-guess-of-a-stranger")
    assert isinstance(stolen, AlreadyUsed | Refused)


@pytest.mark.storm
async def test_payments_credits_and_tokens_agree_after_freezes_of_the_database(
    tmp_path: Path,
) -> None:
    async with town_at(tmp_path) as town:
        for number, way in enumerate(islice(cycle(WAYS), FREEZES)):
            await freeze_once(town, number, way)
        await town.thawed()
        for token in town.tokens.values():
            await town.spend_at_last(token)
        town.world.slots(EXPIRY_SLOTS)
        await town.reconcile_at_last()
        await town.thawed()  # all pending reversals are stored

    world = town.world
    landed = {each.signature for each in world.vm.history() if each.outcome.error is None}
    issued = world.sql("SELECT json_group_array(signature) FROM payment WHERE state = 'issued'")
    assert set(json.loads(issued)) == landed
    assert len(world.ledger()) == len(town.tokens) == len(landed) >= FREEZES // 4
    assert world.received() == AMOUNT * len(landed)
    assert world.fees() == 10_001 * len(landed)
    assert min(world.ledger().values()) >= 0
    assert sum(world.ledger().values()) == 10 * len(landed) - town.spent
    assert town.spent >= len(town.tokens)
    assert world.sql("SELECT count(*) FROM payment WHERE state NOT IN ('issued', 'failed')") == 0
