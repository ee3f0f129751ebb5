"""Each fault of the devchain has its documented effect until it is cleared."""

from base64 import b64encode
from collections.abc import AsyncIterator

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from paying import PRICE, TOWER, PayingChain, served

from mintscope_devchain.methods.params import RpcError

LOST_BLOCKS = 4  # of the transaction, of its confirmation, and of 800 ms


@pytest.fixture
def tower() -> PayingChain:
    """Return a chain at the pace before Alpenglow: confirmed blocks stay unfinal for a while."""
    return PayingChain(pace=TOWER)


def set_landing(chain: PayingChain, kind: str, **more: int) -> None:
    chain.call("devchain_setFaults", {"landing": {"kind": kind, **more}})


def test_a_late_payment_lands_after_the_set_delay(chain: PayingChain) -> None:
    # The delay is 100 slots of 200 ms; the payment is in the block after them.
    set_landing(chain, "late", ms=20_000)
    signature = chain.pay()
    chain.slots(100)
    early = chain.status(signature)
    chain.slots(1)

    assert early is None
    assert chain.status(signature)["err"] is None


def test_a_payment_later_than_its_blockhash_never_lands(chain: PayingChain) -> None:
    # A blockhash is valid for 150 blocks, 30 seconds: half of the delay.
    set_landing(chain, "late", ms=60_000)
    signature = chain.pay()
    chain.slots(200)

    assert chain.status(signature) is None


def test_a_failed_payment_pays_only_its_fee(chain: PayingChain) -> None:
    set_landing(chain, "failed")
    signature = chain.pay()
    chain.slots(2)
    meta = chain.entry(signature)["meta"]

    assert chain.status(signature)["err"] == {"InstructionError": [2, {"Custom": 1}]}
    assert meta["preBalances"][0] - meta["postBalances"][0] == meta["fee"] == 10_001
    assert meta["preTokenBalances"] == meta["postTokenBalances"]
    assert chain.received() == 0


def test_the_fault_never_keeps_a_payment_from_landing_even_after_a_resend(
    chain: PayingChain,
) -> None:
    set_landing(chain, "never", times=1)
    payment = chain.payment()
    signature = chain.send(payment)
    chain.slots(5)
    chain.send(payment)
    other = chain.pay("another")
    chain.slots(5)

    assert chain.status(signature) is None
    assert chain.status(other) is not None


def test_a_dropped_payment_lands_after_a_resend(chain: PayingChain) -> None:
    set_landing(chain, "dropped", times=1)
    payment = chain.payment()
    signature = chain.send(payment)
    chain.slots(5)
    lost = chain.status(signature)
    chain.send(payment)
    chain.slots(1)

    assert lost is None
    assert chain.status(signature)["err"] is None


def test_a_vanish_fault_undoes_only_its_confirmed_payment(
    tower: PayingChain,
) -> None:
    old = tower.blockhash()
    before = tower.pay("before")
    tower.slots(1)
    set_landing(tower, "vanish", ms=800, times=1)
    gone = tower.pay("gone")
    tower.slots(1)
    kept = tower.send(tower.payment("kept", blockhash=old))
    tower.slots(1)
    confirmed, slot = tower.status(gone), tower.status(kept)["slot"]
    tower.slots(1)
    at_its_best = tower.received()
    tower.slots(2)

    assert confirmed["confirmationStatus"] == "confirmed"
    assert at_its_best == 3 * PRICE
    assert tower.status(gone) is None
    assert tower.entry(gone) is None
    assert tower.status(before)["confirmationStatus"] == "confirmed"
    assert tower.status(kept)["slot"] > slot
    assert tower.received() == 2 * PRICE
    tip = tower.vm.block("processed")
    assert tip.height == tip.slot - 1 - LOST_BLOCKS


def test_a_vanished_payment_lands_after_a_resend(tower: PayingChain) -> None:
    set_landing(tower, "vanish", times=1)
    payment = tower.payment()
    signature = tower.send(payment)
    tower.slots(3)
    gone = tower.status(signature)
    tower.send(payment)
    tower.slots(40)

    assert gone is None
    assert tower.status(signature)["confirmationStatus"] == "finalized"
    assert tower.received() == PRICE


def test_a_final_transaction_does_not_vanish(chain: PayingChain) -> None:
    # When the fault is due, after 60 seconds, the block has long been final.
    set_landing(chain, "vanish", ms=60_000)
    signature = chain.pay()
    chain.slots(200)

    assert chain.status(signature)["confirmationStatus"] == "finalized"


@given(st.lists(st.tuples(st.sampled_from([1, 400 * 10**6, 10**12]), st.booleans()), max_size=8))
@example([(1, True), *[(400 * 10**6, False)] * 3])
@pytest.mark.storm
@settings(max_examples=20, derandomize=True, deadline=None)
def test_vanished_payments_and_payments_that_never_land_leave_equal_states(
    story: list[tuple[int, bool]],
) -> None:
    assert _reported(story, "vanish") == _reported(story, "never")


def _reported(story: list[tuple[int, bool]], fate: str) -> tuple[list[object], list[object]]:
    """Send the payments of *story*, some with the fault *fate*; return accounts and errors."""
    chain = PayingChain(pace=TOWER)
    genesis, first = chain.vm.genesis, chain.blockhash()
    signatures = []
    for number, (amount, struck) in enumerate(story):
        chain.call("devchain_setFaults", {})
        if struck:
            set_landing(chain, fate, **({"ms": 2_000} if fate == "vanish" else {}))
        payment = chain.payment(f"payment {number}", amount=amount, blockhash=first)
        signatures.append(chain.send(payment, skipPreflight=True))
        chain.slots(1)
    chain.slots(60)
    addresses = [
        *(genesis.treasury_tokens, genesis.tokens_of(chain.buyer.pubkey())),
        *(genesis.fee_payer.pubkey(), genesis.mint),
    ]
    held = [chain.call("getAccountInfo", str(a), {"encoding": "base64"}) for a in addresses]
    errors = [(chain.status(signature) or {"err": "gone"})["err"] for signature in signatures]
    return [each["value"] for each in held], errors


def test_blind_methods_find_no_payment_until_faults_are_cleared(chain: PayingChain) -> None:
    signature = chain.pay()
    chain.slots(2)
    knobs = {"blind": ["getSignatureStatuses", "getTransaction"]}
    chain.call("devchain_setFaults", knobs)
    blind = [chain.status(signature), chain.entry(signature)]
    chain.call("devchain_setFaults", {})

    assert blind == [None, None]
    assert chain.received() == PRICE
    assert chain.status(signature) is not None
    assert chain.entry(signature) is not None


@pytest.mark.parametrize(
    "knobs",
    [
        {"landing": {"kind": "explode"}},
        {"landing": {"kind": "late", "ms": -1}},
        {"landing": {"kind": "late", "times": 0}},
        {"calls": {"getSlot": {"kind": "http", "status": 200}}},
        {"blind": ["getSlot"]},
        {"latency_ms": {"*": "slow"}},
        {"latency": {}},
        [],
        "late",
    ],
)
def test_invalid_faults_are_refused(chain: PayingChain, knobs: object) -> None:
    with pytest.raises(RpcError, match="Invalid params: ") as refused:
        chain.call("devchain_setFaults", knobs)

    assert refused.value.code == -32602


@pytest.fixture
async def node(chain: PayingChain) -> AsyncIterator[httpx.AsyncClient]:
    async with served(chain) as url, httpx.AsyncClient(base_url=url, timeout=5) as client:
        yield client


async def ask(node: httpx.AsyncClient, method: str = "getBlockHeight") -> httpx.Response:
    return await node.post("/", json={"jsonrpc": "2.0", "id": 7, "method": method, "params": []})


async def test_an_answer_is_unchanged_without_faults(node: httpx.AsyncClient) -> None:
    answer = await ask(node)

    assert answer.status_code == 200
    assert answer.json() == {"jsonrpc": "2.0", "result": 0, "id": 7}


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_an_http_fault_refuses_the_set_number_of_calls(
    node: httpx.AsyncClient, chain: PayingChain, status: int
) -> None:
    fault = {"kind": "http", "status": status, "times": 2}
    chain.call("devchain_setFaults", {"calls": {"getBlockHeight": fault}})
    statuses = [(await ask(node)).status_code for _ in range(3)]
    other = await ask(node, "getSlot")

    assert statuses == [status, status, 200]
    assert other.status_code == 200


async def test_an_rpc_fault_has_the_id_of_the_call(
    node: httpx.AsyncClient, chain: PayingChain
) -> None:
    fault = {"kind": "rpc", "code": -32005, "message": "Node is behind by 42 slots"}
    chain.call("devchain_setFaults", {"calls": {"*": fault}})

    error = {"code": -32005, "message": "Node is behind by 42 slots"}
    assert (await ask(node)).json() == {"jsonrpc": "2.0", "id": 7, "error": error}


async def test_an_rpc_fault_of_a_batch_is_a_list_of_errors(
    node: httpx.AsyncClient, chain: PayingChain
) -> None:
    fault = {"kind": "rpc", "code": -32005, "message": "Node is behind by 42 slots"}
    chain.call("devchain_setFaults", {"calls": {"getSlot": fault}})
    calls = [{"jsonrpc": "2.0", "id": number, "method": "getSlot"} for number in (1, 2)]
    answers = [(await node.post("/", json=calls[:count])).json() for count in (1, 2)]

    error = {"code": -32005, "message": "Node is behind by 42 slots"}
    refused = [{"jsonrpc": "2.0", "id": number, "error": error} for number in (1, 2)]
    assert answers == [refused[:1], refused]


async def test_a_hang_fault_sends_no_answer(node: httpx.AsyncClient, chain: PayingChain) -> None:
    chain.call("devchain_setFaults", {"calls": {"*": {"kind": "hang", "times": 1}}})
    with pytest.raises(httpx.ReadTimeout):
        await node.post("/", json={"method": "getSlot"}, timeout=0.2)

    assert (await ask(node)).status_code == 200


async def test_a_lost_answer_cuts_the_connection_but_the_payment_lands(
    node: httpx.AsyncClient, chain: PayingChain
) -> None:
    chain.call("devchain_setFaults", {"calls": {"sendTransaction": {"kind": "lost"}}})
    payment = chain.payment()
    text = b64encode(bytes(payment)).decode()
    params = [text, {"encoding": "base64"}]
    call = {"jsonrpc": "2.0", "id": 1, "method": "sendTransaction", "params": params}
    with pytest.raises(httpx.RemoteProtocolError):
        await node.post("/", json=call)
    chain.slots(1)

    assert chain.status(str(payment.signatures[0]))["err"] is None


async def test_latency_delays_only_its_method(node: httpx.AsyncClient, chain: PayingChain) -> None:
    chain.call("devchain_setFaults", {"latency_ms": {"getSlot": 80}})
    slow = await ask(node, "getSlot")
    chain.call("devchain_setFaults", {"latency_ms": {"getSlot": 600_000}})
    other = await ask(node)

    assert slow.elapsed.total_seconds() >= 0.08
    assert other.status_code == 200


async def test_an_invalid_request_gets_the_error_of_the_server(node: httpx.AsyncClient) -> None:
    assert (await node.post("/", content=b"{")).json()["error"]["code"] == -32700
    assert (await node.post("/", content=b"x" * 200_000)).status_code == 413
    assert (await node.get("/")).status_code == 405
