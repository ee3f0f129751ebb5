"""For any answers of sellers and any landing of payments, money that may be gone counts as spent.

The chain and the seller are simulated, and misbehave: the seller answers with any status, repeats
its memos, and offers blockhashes of any age with a false height; payments land late or never; and
the node with the history lags behind the node with the height.
"""

import json
from base64 import b64decode
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any, Final

import httpx
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from solders.hash import Hash
from solders.transaction import VersionedTransaction

from mintscope.payments.protocol.envelope import RecentBlockhash, Requirement, Resource
from mintscope.payments.protocol.headers import PAYMENT_REQUIRED, PAYMENT_SIGNATURE, encode_required
from mintscope_client.auth import PaymentAuth
from mintscope_client.calls.conversation import IDEMPOTENCY_KEY
from mintscope_client.journal import Journal
from mintscope_client.node import NODES_APART_BLOCKS
from mintscope_client.wallet import WillNotPay
from support.scenes.payments.payment_build import TERMS, payer_wallet

FINAL_BLOCKS: Final = 32
VALID_BLOCKS: Final = 150
LIMIT: Final = 10
STATUSES: Final = [200, 201, 302, 400, 402, 404, 408, 409, 429, 500, 503]
KEYS: Final = [f"the-secret-of-purchase-{number}" for number in range(2)]
AGES: Final = [None, None, 0, 40, 149, 300]
THREADS: Final = 4
ROUNDS: Final = 20
MEMOS: Final = ["a" * 32, "b" * 32, "ab", ""]


class Buying(RuleBasedStateMachine):
    """One wallet and two keys, with a hostile seller and unreliable nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.wallet = payer_wallet(TERMS, atoms_per_payment=LIMIT, atoms_in_all=LIMIT)
        self.auth = PaymentAuth(self.wallet, rpc_url="http://node/")
        self.height = 1_000
        self.lag = 0
        self.sent: dict[bytes, tuple[str, int, int]] = {}  # memo, amount, last valid height
        self.of_key = defaultdict[str, set[bytes]](set)  # since its last delivery
        self.landed: list[tuple[int, str]] = []  # slot and memo, oldest first
        self.gone: dict[bytes, int] = {}  # amounts of what landed

    @rule(
        key=st.sampled_from(KEYS),
        status=st.sampled_from(STATUSES),
        amount=st.integers(1, 4),
        memo=st.sampled_from(MEMOS),
        age=st.sampled_from(AGES),
    )
    def buy(self, key: str, status: int, amount: int, memo: str, age: int | None = None) -> None:
        """Send a request with *key*; the seller answers a payment with *status*.

        age    the age in blocks of the blockhash that the seller offers; None if it offers none
        """
        request = httpx.Request("GET", "http://shop/", headers={IDEMPOTENCY_KEY: key})
        flow = self.auth.auth_flow(request)
        asked = next(flow)
        try:
            while True:
                if PAYMENT_SIGNATURE in asked.headers:
                    self.of_key[key].add(self._receive(asked.headers[PAYMENT_SIGNATURE]))
                asked = flow.send(self._answer(asked, status, amount, memo, age))
        except (StopIteration, WillNotPay):
            pass
        mine = self.of_key[key] & {*self._able(), *self.gone}
        assert len(mine) <= 1
        if status < 300 and mine:
            assert not self.auth.holds(key)
            self.of_key[key].clear()  # the paid items were delivered

    @rule(blocks=st.sampled_from([1, 33, VALID_BLOCKS, 216]), lag=st.integers(0, FINAL_BLOCKS))
    def wait(self, blocks: int, lag: int) -> None:
        self.height += blocks
        self.lag = lag

    @rule(which=st.integers(0, 100))
    def land(self, which: int) -> None:
        """Make one of the payments land that still can, if any; *which* selects the payment."""
        able = [wire for wire in self._able() if wire not in self.gone]
        if able:
            wire = able[which % len(able)]
            memo, amount, _ = self.sent[wire]
            self.landed.append((self.height, memo))
            self.gone[wire] = amount

    @invariant()
    def what_may_be_gone_is_spent(self) -> None:
        at_risk = sum(self.sent[wire][1] for wire in {*self._able(), *self.gone})
        assert at_risk <= self.wallet.limit.spent <= LIMIT

    def _able(self) -> list[bytes]:
        return [wire for wire, (_, _, last) in self.sent.items() if self.height <= last]

    def _answer(
        self, request: httpx.Request, status: int, amount: int, memo: str, age: int | None
    ) -> httpx.Response:
        if request.url.host == "node":
            return self._node(json.loads(request.content))
        offered = None if age is None else self._offered(self.height - age)
        demand = {PAYMENT_REQUIRED: _demand(amount, memo, offered)}
        if PAYMENT_SIGNATURE not in request.headers:
            return httpx.Response(402, headers=demand)
        return httpx.Response(status, headers=demand)

    def _offered(self, height: int) -> RecentBlockhash:
        """Return the blockhash of the block at *height*, with a wrong last valid height."""
        return RecentBlockhash(blockhash=_blockhash(height), slot=1, last_valid_height=1)

    def _receive(self, payment: str) -> bytes:
        reported = json.loads(b64decode(payment))
        wire = b64decode(reported["payload"]["transaction"])
        message = VersionedTransaction.from_bytes(wire).message
        signed_at = int.from_bytes(bytes(message.recent_blockhash)[:8])
        memo = bytes(message.instructions[-1].data).decode()
        self.sent[wire] = memo, int(reported["accepted"]["amount"]), signed_at + VALID_BLOCKS
        return wire

    def _node(self, call: dict[str, Any]) -> httpx.Response:
        final = self.height - FINAL_BLOCKS
        result: Any
        match call["method"]:
            case "getLatestBlockhash":
                value = {
                    "blockhash": _blockhash(self.height),
                    "lastValidBlockHeight": self.height + VALID_BLOCKS,
                }
                result = {"context": {"slot": self.height}, "value": value}
            case "getBlockHeight":
                assert call["params"] == [{"commitment": "processed"}]
                result = self.height - self.lag
            case "getEpochInfo":
                assert call["params"] == [{"commitment": "finalized"}]
                result = {"absoluteSlot": final, "blockHeight": final}
            case _:  # getSignaturesForAddress
                if call["params"][1]["minContextSlot"] > final - self.lag:
                    return _error(-32016, "Minimum context slot has not been reached")
                result = [
                    {"signature": "s", "slot": slot, "err": None, "memo": f"[{len(memo)}] {memo}"}
                    for slot, memo in reversed(self.landed)
                    if slot <= final - self.lag
                ]
        return httpx.Response(200, json={"jsonrpc": "2.0", "id": 1, "result": result})


def _error(code: int, message: str) -> httpx.Response:
    error = {"code": code, "message": message}
    return httpx.Response(200, json={"jsonrpc": "2.0", "id": 1, "error": error})


def _blockhash(height: int) -> str:
    return str(Hash(height.to_bytes(8) + bytes(24)))


def _demand(amount: int, memo: str, offered: RecentBlockhash | None = None) -> str:
    requirement = Requirement(
        terms=TERMS, resource=Resource("/"), amount=amount, memo=memo, recent=offered
    )
    return encode_required(requirement, origin="http://shop", error="")


TestBuying = pytest.mark.storm(Buying.TestCase)
TestBuying.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)


def test_a_node_whose_history_lags_does_not_prove_that_a_payment_expired() -> None:
    """The payment lands in the last possible block; the history is FINAL_BLOCKS behind."""
    buying = Buying()
    buying.buy(KEYS[0], 402, 1, MEMOS[0])
    buying.wait(VALID_BLOCKS, 0)
    buying.land(0)
    buying.wait(FINAL_BLOCKS + 1, FINAL_BLOCKS)
    buying.buy(KEYS[0], 402, 1, MEMOS[0])

    buying.what_may_be_gone_is_spent()


@pytest.mark.parametrize("age", [None, 0])
def test_a_payment_is_replaced_only_after_182_final_blocks(age: int | None) -> None:
    """The blockhash comes from the node if *age* is None, otherwise from the seller."""
    buying = Buying()
    buying.buy(KEYS[0], 402, LIMIT, MEMOS[0], age)
    buying.buy(KEYS[0], 402, LIMIT, MEMOS[0], age)  # now its last height is known
    buying.wait(VALID_BLOCKS + NODES_APART_BLOCKS + FINAL_BLOCKS, 0)
    buying.buy(KEYS[0], 402, LIMIT, MEMOS[0], age)
    assert len(buying.sent) == 1
    buying.wait(1, 0)
    buying.buy(KEYS[0], 402, LIMIT, MEMOS[0], age)

    assert len(buying.sent) == 2  # the first one counts as spent no longer


def test_threads_that_send_the_same_key_at_once_send_one_payment(tmp_path: Path) -> None:
    wallet = payer_wallet(TERMS, atoms_per_payment=LIMIT, atoms_in_all=ROUNDS)
    offered = RecentBlockhash(blockhash=_blockhash(1), slot=1, last_valid_height=1)
    demand = httpx.Response(402, headers={PAYMENT_REQUIRED: _demand(1, "a" * 32, offered)})
    demanded = Barrier(THREADS)

    with Journal(tmp_path) as journal, ThreadPoolExecutor(THREADS) as threads:
        auth = PaymentAuth(wallet, journal=journal)

        def pay(key: str) -> str:
            """Return the payment that answers a 402; all threads continue at the same time."""
            flow = auth.auth_flow(
                httpx.Request("GET", "http://shop/", headers={IDEMPOTENCY_KEY: key})
            )
            next(flow)
            demanded.wait()
            return str(flow.send(demand).headers[PAYMENT_SIGNATURE])

        for number in range(ROUNDS):
            payments = set(threads.map(pay, [f"a-secret-key-of-purchase-{number}"] * THREADS))
            assert len(payments) == 1
        assert wallet.limit.spent == journal.atoms == ROUNDS

    assert len(list(tmp_path.iterdir())) == ROUNDS
