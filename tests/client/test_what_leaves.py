"""A transaction signed by the fee payer leaves the process only after its row is stored."""

from base64 import b64decode
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from typing_extensions import override

from mintscope.payments.ports import Settled, Trial, Unresolved
from mintscope.payments.protocol.envelope import Envelope
from mintscope.payments.settlement import RpcSettlement
from support.scenes.payments.payment_world import (
    AMOUNT,
    RESOURCE,
    MovingTransport,
    World,
    buy,
    world_at,
)


class RecordingNode(MovingTransport):
    """Records requests with a payment; `leaks` has signed payments whose row is not stored."""

    def __init__(self, world: World) -> None:
        super().__init__(world, world.node)
        self.shown: list[str] = []  # methods that were shown a payment
        self.leaks: list[str] = []  # and those that were shown it signed before its row

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        question = msgspec.json.decode(await request.aread())
        for transaction in transactions(question["params"]):
            self.shown.append(question["method"])
            if transaction.verify_with_results()[0] and not self._is_written_down(transaction):
                self.leaks.append(question["method"])
        return await super().handle_async_request(request)

    def _is_written_down(self, transaction: VersionedTransaction) -> bool:
        signature = transaction.signatures[0]
        rows = f"SELECT count(*) FROM payment WHERE signature = '{signature}'"
        return bool(self._world.sql(rows))


def transactions(params: list[Any]) -> list[VersionedTransaction]:
    """Return each of *params* that is a transaction."""
    found = []
    for each in params:
        try:
            found.append(VersionedTransaction.from_bytes(b64decode(each, validate=True)))
        except (TypeError, ValueError):
            continue
    return found


class ShowsItSigned(RpcSettlement):
    """A faulty settlement that signs a transaction before simulating it: the node could send it."""

    world: World

    @override
    async def simulate(self, envelope: Envelope, source: Pubkey) -> Trial:
        signed = envelope.sign(self.world.vm.genesis.fee_payer)
        await self._node.simulate(signed.wire, source)
        return await super().simulate(envelope, source)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with world_at(tmp_path) as world:
        world.transport = RecordingNode(world)
        yield world


def node(world: World) -> RecordingNode:
    assert isinstance(world.transport, RecordingNode)
    return world.transport


async def test_no_signed_transaction_leaves_before_its_row_is_stored(world: World) -> None:
    """A payment is sent only when its row with the chosen signature is stored (invariant I6)."""
    facilitator = world.facilitator()
    outcome = await buy(facilitator, world.pay(facilitator.require(RESOURCE, AMOUNT)))

    assert isinstance(outcome, Settled)
    assert node(world).shown == ["simulateTransaction", "sendTransaction"]
    assert node(world).leaks == []


async def test_no_signed_transaction_leaves_before_its_row_at_a_resend(world: World) -> None:
    world.go_wrong(landing={"kind": "dropped", "times": 4})
    facilitator = world.facilitator(patience_s=0.02)
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT))

    assert isinstance(await buy(facilitator, payment), Unresolved)
    assert isinstance(await buy(world.facilitator(), payment), Settled)
    assert node(world).leaks == []


async def test_a_false_signature_of_the_fee_payer_from_the_client_does_not_leave(
    world: World,
) -> None:
    """A client can write any bytes in the place of the fee payer's signature."""
    facilitator = world.facilitator()
    payment = world.pay(facilitator.require(RESOURCE, AMOUNT))
    filled = b"\2" + b"\7" * 64 + payment.transaction[65:]
    outcome = await buy(facilitator, replace(payment, transaction=filled))

    assert isinstance(outcome, Settled)
    assert node(world).leaks == []


async def test_the_recording_node_finds_a_simulated_signed_transaction(world: World) -> None:
    facilitator = world.facilitator()
    chain = facilitator.chain
    chain.__class__ = ShowsItSigned
    chain.world = world  # type: ignore[attr-defined]
    await buy(facilitator, world.pay(facilitator.require(RESOURCE, AMOUNT)))

    assert node(world).leaks == ["simulateTransaction"]
