"""Support searches for a payment on chain, with or without its row."""

from pathlib import Path
from typing import Final

import pytest

from mintscope.app.payments import ChainAnswers, ask_chain
from mintscope.app.stores.stores import open_money
from mintscope.kit.primitives import Signature
from mintscope.payments.payment import Landed, Unseen
from mintscope.payments.ports import Settled
from mintscope.payments.search import Finding, Wanted, advise_unknown, chain_says
from support.processes.listening import listening
from support.scenes.payments.payment_build import keypair
from support.scenes.payments.payment_world import (
    AMOUNT,
    KEY,
    RESOURCE,
    World,
    buy,
    config_of,
    world_at,
)
from support.scenes.payments.restored import forget_everything

FINAL_S: Final = 30
UNKNOWN: Final = Signature(str(keypair("anyone").sign_message(b"unknown")))


async def asked(
    world: World, signatures: list[Signature], *, has_row: bool, url: str | None = None
) -> ChainAnswers:
    async with listening(world.node) as found:
        config = config_of(world, url or found)
        async with open_money(config, world.clock) as money:
            return await ask_chain(config, money, world.clock, signatures, has_row=has_row)


async def bought(world: World) -> Signature:
    facilitator = world.facilitator()
    outcome = await buy(facilitator, world.pay(facilitator.require(RESOURCE, AMOUNT, KEY)))
    assert isinstance(outcome, Settled)
    world.seconds(FINAL_S)
    return outcome.payment.signature


async def test_a_search_shows_the_arrived_amount_of_a_payment_with_a_row(tmp_path: Path) -> None:
    async with world_at(tmp_path) as world:
        signature = await bought(world)
        answers = await asked(world, [signature], has_row=True)

    assert answers.why_not == ""
    assert answers.seen[signature].sighting == Landed(paid=AMOUNT, final=True)


async def test_a_payment_that_lost_its_row_is_recognised_and_may_be_adopted(
    tmp_path: Path,
) -> None:
    async with world_at(tmp_path) as world:
        signature = await bought(world)
        forget_everything(world)
        answers = await asked(world, [signature], has_row=False)
        async with open_money(config_of(world, "http://127.0.0.1:1"), world.clock) as money:
            kept = await money.read_books.search(Wanted(signatures=[signature]))

    advice = advise_unknown(signature, answers.seen[signature])
    assert kept.payments == []
    assert answers.seen[signature].bought == RESOURCE
    assert advice.finding is Finding.LOST_ROW
    assert f"mintscope sales adopt {signature}" in advice.do


async def test_an_unknown_signature_is_not_found_and_a_silent_node_is_reported(
    tmp_path: Path,
) -> None:
    async with world_at(tmp_path) as world:
        unknown = await asked(world, [UNKNOWN], has_row=False)
        away = await asked(world, [UNKNOWN], has_row=False, url="http://127.0.0.1:1")

    assert isinstance(unknown.seen[UNKNOWN].sighting, Unseen)
    assert advise_unknown(UNKNOWN, unknown.seen[UNKNOWN]).finding is Finding.NOT_FOUND
    assert away.seen == {}
    assert "does not answer" in away.why_not
    assert chain_says(None, away.why_not).startswith("not asked: the chain's node does not answer")


@pytest.mark.parametrize("changes", [{"fee_payer_key": None}, {"pay_to": None}])
async def test_a_search_names_the_missing_setting_if_payments_are_off(
    tmp_path: Path, changes: dict[str, None]
) -> None:
    async with world_at(tmp_path) as world:
        config = config_of(world, "http://127.0.0.1:1", **changes)
        async with open_money(config, world.clock) as money:
            answers = await ask_chain(config, money, world.clock, [UNKNOWN], has_row=False)

    assert answers.why_not.startswith("payments.")
