"""Transactions land later, in blocks, and become final; the same seed makes the same chain."""

from base64 import b64encode
from typing import Any

import pytest
from paying import PRICE, PayingChain
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import Message
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from mintscope_devchain.methods.params import RpcError

COMMITMENTS = ("processed", "confirmed", "finalized")


def test_a_payment_lands_in_the_next_block_and_becomes_final(chain: PayingChain) -> None:
    signature = chain.pay()
    at_once = chain.status(signature)
    chain.slots(1)
    landed, unconfirmed = chain.status(signature), chain.entry(signature)
    chain.slots(1)
    confirmed = chain.status(signature)
    chain.slots(31)
    final = chain.status(signature)

    assert at_once is None
    assert unconfirmed is None
    assert (landed["confirmationStatus"], landed["err"]) == ("processed", None)
    assert (confirmed["confirmationStatus"], confirmed["confirmations"]) == ("confirmed", 1)
    assert (final["confirmationStatus"], final["confirmations"]) == ("finalized", None)
    assert chain.received() == PRICE


def test_each_commitment_returns_the_balance_and_height_of_its_block(chain: PayingChain) -> None:
    chain.slots(40)
    chain.pay()
    chain.slots(1)
    seen = [chain.received(commitment) for commitment in COMMITMENTS]
    chain.slots(1)
    later = [chain.received(commitment) for commitment in COMMITMENTS]
    heights = [chain.call("getBlockHeight", {"commitment": each}) for each in COMMITMENTS]

    assert seen == [PRICE, 0, 0]
    assert later == [PRICE, PRICE, 0]
    assert heights == [42, 41, 40]


def test_equal_payments_in_one_block_differ_by_their_memo(chain: PayingChain) -> None:
    same = chain.payment("one")
    signatures = {chain.send(same), chain.send(same), chain.send(chain.payment("two"))}
    chain.slots(1)

    assert len(signatures) == 2
    assert all(chain.status(signature)["err"] is None for signature in signatures)
    assert chain.received() == 2 * PRICE


def test_a_resent_payment_is_paid_once_and_preflight_refuses_it(chain: PayingChain) -> None:
    payment = chain.payment()
    signature = chain.send(payment)
    chain.slots(1)
    again = chain.send(payment, skipPreflight=True)
    with pytest.raises(RpcError, match="already been processed") as refused:
        chain.send(payment)
    chain.slots(2)

    assert again == signature
    assert refused.value.code == -32002
    assert chain.received() == PRICE


@pytest.mark.parametrize(("age", "lands"), [(1, True), (100, True), (150, True), (151, False)])
def test_a_blockhash_is_valid_for_150_blocks(chain: PayingChain, *, age: int, lands: bool) -> None:
    payment = chain.payment()
    chain.slots(age - 1)
    signature = chain.send(payment, skipPreflight=True)
    chain.slots(1)

    assert (chain.status(signature) is not None) is lands
    assert chain.received() == (PRICE if lands else 0)


def test_preflight_refuses_an_old_blockhash(chain: PayingChain) -> None:
    payment = chain.payment()
    last = chain.call("getLatestBlockhash", {"commitment": "processed"})["value"]
    chain.slots(151)

    with pytest.raises(RpcError, match="Blockhash not found"):
        chain.send(payment)
    assert chain.call("isBlockhashValid", last["blockhash"])["value"] is True
    chain.slots(40)
    assert chain.call("isBlockhashValid", last["blockhash"])["value"] is False
    assert chain.call("getBlockHeight") > last["lastValidBlockHeight"]


def test_a_failed_transaction_lands_with_its_error_and_pays_its_fee(chain: PayingChain) -> None:
    fee_payer = str(chain.vm.genesis.fee_payer.pubkey())
    before = chain.call("getBalance", fee_payer, {"commitment": "processed"})["value"]
    signature = chain.pay(amount=10**12)  # more than the buyer has
    chain.slots(2)
    after = chain.call("getBalance", fee_payer, {"commitment": "processed"})["value"]
    error = {"InstructionError": [2, {"Custom": 1}]}

    assert chain.status(signature)["err"] == error
    assert chain.entry(signature)["meta"]["err"] == error
    assert before - after == 10_001
    assert chain.received() == 0


def test_the_fee_includes_the_priority_fee(chain: PayingChain) -> None:
    # The price is in millionths of a lamport: one lamport for each of the 60,000 units.
    budget = [set_compute_unit_limit(60_000), set_compute_unit_price(1_000_000)]
    message = Message.new_with_blockhash(budget, chain.buyer.pubkey(), chain.blockhash())
    reported = chain.call("getFeeForMessage", b64encode(bytes(message)).decode())["value"]
    signature = chain.send(VersionedTransaction(message, [chain.buyer]))
    chain.slots(2)
    meta = chain.entry(signature)["meta"]

    assert reported == meta["fee"] == 65_000
    assert meta["preBalances"][0] - meta["postBalances"][0] == 65_000


def test_a_transaction_that_cannot_pay_its_fee_never_lands(chain: PayingChain) -> None:
    poor = Keypair.from_seed(b"p" * 32)
    message = Message.new_with_blockhash([], poor.pubkey(), chain.blockhash())
    signature = chain.send(VersionedTransaction(message, [poor]), skipPreflight=True)
    chain.slots(2)

    assert chain.status(signature) is None


def test_a_transaction_that_cannot_run_never_lands_and_costs_nothing(chain: PayingChain) -> None:
    owner = chain.buyer.pubkey()
    nothing_there = Instruction(Keypair().pubkey(), b"", [])
    message = Message.new_with_blockhash(
        [set_compute_unit_price(10**9), nothing_there], owner, chain.blockhash()
    )
    signature = chain.send(VersionedTransaction(message, [chain.buyer]), skipPreflight=True)
    chain.slots(2)

    assert chain.status(signature) is None
    balance = chain.call("getBalance", str(owner), {"commitment": "processed"})
    assert balance["value"] == 10**9


def test_a_wrong_signature_never_lands(chain: PayingChain) -> None:
    good = chain.payment()
    forged = VersionedTransaction.populate(good.message, list(reversed(good.signatures)))
    with pytest.raises(RpcError, match="signature verification") as refused:
        chain.send(forged)
    signature = chain.send(forged, skipPreflight=True)
    same_name = VersionedTransaction.populate(chain.payment("x").message, good.signatures)
    chain.send(same_name, skipPreflight=True)
    honest = chain.send(good)
    chain.slots(2)

    assert refused.value.code == -32003
    assert chain.status(signature) is None
    assert chain.status(honest)["err"] is None


def test_a_legacy_transaction_lands(chain: PayingChain) -> None:
    stranger = Keypair.from_seed(b"s" * 32).pubkey()
    given = TransferParams(from_pubkey=chain.buyer.pubkey(), to_pubkey=stranger, lamports=1_000_000)
    message = Message.new_with_blockhash([transfer(given)], chain.buyer.pubkey(), chain.blockhash())
    signature = chain.send(VersionedTransaction(message, [chain.buyer]))
    chain.slots(2)

    shown = chain.call("getTransaction", signature, {"commitment": "confirmed"})
    assert "version" not in shown
    assert "addressTableLookups" not in shown["transaction"]["message"]
    balance = chain.call("getBalance", str(stranger), {"commitment": "confirmed"})
    assert balance["value"] == 1_000_000


def test_the_same_seed_makes_the_same_chain() -> None:
    assert _story(PayingChain(seed=3)) == _story(PayingChain(seed=3))
    chains = [PayingChain(seed) for seed in (3, 4)]

    assert len({chain.blockhash() for chain in chains}) == 2
    assert len({chain.vm.genesis.mint for chain in chains}) == 2
    assert len({chain.vm.genesis.treasury_tokens for chain in chains}) == 2


def _story(chain: PayingChain) -> list[Any]:
    signatures = [chain.pay("first"), chain.pay("second", amount=10**12)]
    chain.slots(3)
    info = chain.call("devchain_getInfo")
    return [chain.blockhash(), info, *(chain.entry(signature) for signature in signatures)]


def test_an_unknown_blockhash_is_not_valid(chain: PayingChain) -> None:
    unknown = str(Hash(b"\x07" * 32))

    assert chain.call("isBlockhashValid", unknown)["value"] is False


def test_epoch_info_agrees_with_slot_and_block_height(chain: PayingChain) -> None:
    for commitment in COMMITMENTS:
        reported = chain.call("getEpochInfo", {"commitment": commitment})
        slot, height = (
            chain.call(each, {"commitment": commitment}) for each in ("getSlot", "getBlockHeight")
        )
        assert (reported["absoluteSlot"], reported["blockHeight"]) == (slot, height)
        assert reported["epoch"] * reported["slotsInEpoch"] + reported["slotIndex"] == slot
