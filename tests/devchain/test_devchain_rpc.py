"""The RPC of the devchain returns the results and errors of a node."""

import json
from collections.abc import AsyncIterator, MutableMapping
from typing import Any, cast, get_args

import httpx
import pytest

from mintscope_devchain.addresses import VOTE
from mintscope_devchain.blockstore import CommitmentLevel
from mintscope_devchain.chain import FIRST_SLOT, Devchain
from mintscope_devchain.methods.params import RpcError
from mintscope_devchain.methods.table import Methods
from support.oracles.devchain_blocks import NOW

Error = dict[str, Any]


class Node:
    """An RPC client of one devchain."""

    def __init__(self, chain: Devchain, client: httpx.AsyncClient) -> None:
        self.chain = chain
        self.client = client

    async def send(self, body: bytes | object) -> Any:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = await self.client.post("/", content=content)
        assert answer.status_code == 200
        return answer.json()

    async def call(self, method: str, *params: object) -> Any:
        answer = await self.send(
            {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        )
        assert answer["id"] == 1
        assert answer["jsonrpc"] == "2.0"
        return answer["result"]

    async def refusal(self, method: str, *params: object) -> Error:
        answer = await self.send(
            {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        )
        assert "result" not in answer
        error: Error = answer["error"]
        return error


@pytest.fixture
async def node(history: Devchain) -> AsyncIterator[Node]:
    transport = httpx.ASGITransport(history.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://devchain") as client:
        yield Node(history, client)


def missing_after(chain: Devchain, slot: int) -> int:
    """Return the first slot from *slot* on that has no block."""
    while chain.blockstore.block(slot) is not None:
        slot += 1
    return slot


async def test_get_slot_obeys_the_commitment_and_is_finalized_by_default(node: Node) -> None:
    reached = {each: node.chain.blockstore.reached(each) for each in get_args(CommitmentLevel)}

    for commitment, slot in reached.items():
        assert await node.call("getSlot", {"commitment": commitment}) == slot
    assert await node.call("getSlot") == reached["finalized"]
    assert len(set(reached.values())) == 3


async def test_performance_samples_count_the_slots_of_the_last_minutes(node: Node) -> None:
    newest, before = await node.call("getRecentPerformanceSamples", 2)

    assert newest["slot"] == node.chain.blockstore.tip
    assert newest["slot"] - newest["numSlots"] == before["slot"]
    for sample in (newest, before):
        assert 60 <= sample["samplePeriodSecs"] <= 120
        assert sample["samplePeriodSecs"] / sample["numSlots"] == pytest.approx(0.2, rel=0.05)
    assert len(await node.call("getRecentPerformanceSamples", 5)) == 5


async def test_a_new_chain_has_no_performance_samples() -> None:
    chain = Devchain(now=NOW, history_days=0)
    chain.tick()

    assert Methods(chain.vm, chain).call("getRecentPerformanceSamples", []) == []


async def test_the_alpenglow_certificate_exists_only_if_finality_is_fast(
    node: Node, tower: Devchain
) -> None:
    certificate = await node.call("getAgGenesisCert")

    assert certificate["block"]["slot"] < FIRST_SLOT
    assert len(certificate["block"]["blockId"]) == 32
    assert len(certificate["signature"]["signature"]) == 192
    assert Methods(tower.vm, tower).call("getAgGenesisCert", []) is None


@pytest.mark.parametrize(
    ("slot_ms", "finality_ms", "is_alpenglow"),
    [
        (200, 150, True),
        (800, 150, True),
        (800, 0, True),
        (800, 1_000, True),
        (200, 1_001, False),
        (100, 12_800, False),
    ],
)
def test_a_finality_of_at_most_one_second_makes_an_alpenglow_chain(
    slot_ms: int, finality_ms: int, *, is_alpenglow: bool
) -> None:
    """The blocks of an Alpenglow chain have no votes, even if two slots take over a second."""
    chain = Devchain(now=NOW, history_days=0, slot_ms=slot_ms, finality_ms=finality_ms)
    for _ in range(9):
        chain.tick()
    methods = Methods(chain.vm, chain)
    certificate = methods.call("getAgGenesisCert", [])
    options = {"maxSupportedTransactionVersion": 0, "commitment": "confirmed"}
    block: Any = methods.call("getBlock", [chain.blockstore.reached("confirmed"), options])
    votes = [
        each
        for each in block["transactions"]
        if VOTE in each["transaction"]["message"]["accountKeys"]
    ]

    assert (certificate is not None) == is_alpenglow
    assert (votes == []) == is_alpenglow


def faulty_node(fault: str) -> Devchain:
    chain = Devchain(now=NOW, history_days=0)
    for _ in range(9):
        chain.tick()
    Methods(chain.vm, chain).call("devchain_setFaults", [{"confirmed": fault}])
    return chain


def test_the_fault_refused_rejects_the_commitment_confirmed() -> None:
    chain = faulty_node("refused")
    methods = Methods(chain.vm, chain)

    confirmed = {"commitment": "confirmed"}
    for params in ([confirmed], [chain.blockstore.tip, confirmed]):
        with pytest.raises(RpcError, match="unknown variant `confirmed`") as refusal:
            methods.call("getSlot" if len(params) == 1 else "getBlock", params)
        assert refusal.value.code == -32602
    finalized = chain.blockstore.reached("finalized")
    assert methods.call("getSlot", [{"commitment": "finalized"}]) == finalized
    methods.call("devchain_setFaults", [{}])
    assert methods.call("getSlot", [{"commitment": "confirmed"}]) > finalized  # type: ignore[operator]


def test_the_fault_finalized_treats_confirmed_as_finalized() -> None:
    chain = faulty_node("finalized")
    methods, confirmed = Methods(chain.vm, chain), {"commitment": "confirmed"}
    finalized = chain.blockstore.reached("finalized")

    assert methods.call("getSlot", [confirmed]) == finalized
    with pytest.raises(RpcError, match="Block not available"):
        methods.call("getBlock", [chain.blockstore.reached("confirmed"), confirmed])


async def test_blocks_contain_votes_only_before_alpenglow(young: Devchain, tower: Devchain) -> None:
    for chain, count in ((young, 0), (tower, 2)):
        slot = chain.tick()
        block = chain.blockstore.block(slot)
        assert block is not None
        programs = [
            entry["transaction"]["message"]["accountKeys"][-1]
            for entry in cast("list[Any]", chain.entries(block))
        ]
        assert programs.count(VOTE) == count


async def test_get_blocks_lists_only_slots_with_a_block(node: Node) -> None:
    slots = [slot for slot in node.chain.blockstore.slots if slot > FIRST_SLOT]
    first, last = slots[3], slots[20]

    assert await node.call("getBlocks", first, last, {"commitment": "confirmed"}) == slots[3:21]
    assert await node.call("getBlocks", last, first, {"commitment": "confirmed"}) == []
    assert (
        await node.call("getBlocksWithLimit", first, 5, {"commitment": "confirmed"}) == slots[3:8]
    )


async def test_get_blocks_ends_at_the_newest_slot_of_the_commitment(node: Node) -> None:
    first = FIRST_SLOT + 1
    for commitment in ("confirmed", "finalized"):
        listed = await node.call("getBlocks", first, {"commitment": commitment})
        assert listed[-1] == node.chain.blockstore.reached(commitment)
    assert await node.call("getBlocks", first) == listed
    assert await node.call("getBlocks", first, None) == listed


async def test_get_blocks_accepts_a_range_of_at_most_500_000_slots(node: Node) -> None:
    first = node.chain.blockstore.first

    assert await node.call("getBlocks", first, first + 500_000)
    error = await node.refusal("getBlocks", first, first + 500_001)
    assert error == {"code": -32602, "message": "Slot range too large; max 500000"}


async def test_get_block_returns_the_links_and_transactions_of_a_block(node: Node) -> None:
    slot = node.chain.blockstore.slots[-40]
    block = node.chain.blockstore.block(slot)
    assert block is not None
    shown = await node.call("getBlock", slot, {"maxSupportedTransactionVersion": 0})

    assert shown["blockhash"] == block.blockhash
    assert shown["previousBlockhash"] == block.parent_blockhash
    assert shown["parentSlot"] == block.parent_slot
    assert shown["blockTime"] == block.time
    assert shown["blockHeight"] == block.height
    assert len(shown["transactions"]) == len(block.transactions)
    assert shown["rewards"] == []


async def test_get_block_returns_signatures_or_no_transactions_on_request(node: Node) -> None:
    slot = node.chain.blockstore.slots[-40]
    full = await node.call(
        "getBlock", slot, {"maxSupportedTransactionVersion": 0, "rewards": False}
    )
    signatures = await node.call("getBlock", slot, {"transactionDetails": "signatures"})
    bare = await node.call("getBlock", slot, {"transactionDetails": "none", "rewards": False})

    assert "rewards" not in full
    assert signatures["signatures"] == [
        entry["transaction"]["signatures"][0] for entry in full["transactions"]
    ]
    assert set(bare) == {
        *("blockHeight", "blockTime", "blockhash"),
        *("parentSlot", "previousBlockhash"),
    }


async def test_get_block_fails_without_max_supported_transaction_version(node: Node) -> None:
    error = await node.refusal("getBlock", node.chain.blockstore.slots[-40])

    assert error["code"] == -32015
    assert "maxSupportedTransactionVersion" in error["message"]


async def test_calls_for_a_skipped_slot_return_error_32007_or_32009(node: Node) -> None:
    skipped = missing_after(node.chain, FIRST_SLOT)
    gap = node.chain.blockstore.first + 1

    assert await node.refusal("getBlock", skipped, {"commitment": "confirmed"}) == {
        "code": -32007,
        "message": f"Slot {skipped} was skipped, or missing due to ledger jump to recent snapshot",
    }
    assert await node.refusal("getBlockTime", gap) == {
        "code": -32009,
        "message": f"Slot {gap} was skipped, or missing in long-term storage",
    }


async def test_a_block_is_not_available_before_it_reaches_the_commitment(node: Node) -> None:
    tip = node.chain.blockstore.tip
    ahead = tip + 100
    for slot, commitment in ((ahead, "confirmed"), (tip, "finalized")):
        assert await node.refusal("getBlock", slot, {"commitment": commitment}) == {
            "code": -32004,
            "message": f"Block not available for slot {slot}",
        }


async def test_get_block_names_the_first_available_block_if_the_block_is_removed() -> None:
    chain = Devchain(now=NOW, history_days=0, kept_blocks=40)
    for _ in range(100):
        chain.tick()
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(chain.app), base_url="http://devchain"
    ) as client:
        node = Node(chain, client)
        error = await node.refusal("getBlock", FIRST_SLOT)
        assert await node.call("getFirstAvailableBlock") == chain.blockstore.first

    assert error["code"] == -32001
    assert error["message"].endswith(f"First available block: {chain.blockstore.first}")


async def test_health_genesis_hash_height_and_time_are_those_of_the_chain(node: Node) -> None:
    finalized = node.chain.blockstore.block(node.chain.blockstore.reached("finalized"))
    assert finalized is not None

    assert await node.call("getHealth") == "ok"
    assert await node.call("getGenesisHash") == node.chain.genesis_hash
    assert (await node.call("getVersion"))["solana-core"]
    assert await node.call("getBlockHeight") == finalized.height
    assert await node.call("getBlockTime", finalized.slot) == finalized.time
    assert await node.call("minimumLedgerSlot") == node.chain.blockstore.first
    assert (await node.client.get("/health")).text == "ok"


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("getBlock", []),
        ("getBlock", ["380000000"]),
        ("getBlock", [-1]),
        ("getBlock", [1.5]),
        ("getBlock", [True]),
        ("getBlock", [2**64]),
        ("getBlock", [380000000, {"commitment": "processed"}]),
        ("getBlock", [380000000, {"commitment": "max"}]),
        ("getBlock", [380000000, {"encoding": "base64"}]),
        ("getBlock", [380000000, "jsonParsed"]),
        ("getBlock", [380000000, {"transactionDetails": "accounts"}]),
        ("getBlock", [380000000, 7]),
        ("getBlocks", []),
        ("getBlocks", [1, "2"]),
        ("getBlocks", [1, 2, {"commitment": "processed"}]),
        ("getBlocksWithLimit", [1, 500_001]),
        ("getBlockTime", [None]),
        ("getSlot", [{"commitment": 1}]),
        ("getSlot", ["confirmed"]),
    ],
)
async def test_wrong_parameters_are_refused(node: Node, method: str, params: list[object]) -> None:
    error = await node.refusal(method, *params)

    assert error["code"] == -32602
    assert error["message"]


@pytest.mark.parametrize(
    ("body", "code", "call_id"),
    [
        (b"", -32700, None),
        (b"{", -32700, None),
        (b"\xff", -32700, None),
        (b"7", -32600, None),
        (b"[]", -32600, None),
        (b'{"id": 5}', -32600, 5),
        (b'{"jsonrpc": "1.0", "id": 5, "method": "getSlot"}', -32600, 5),
        (b'{"jsonrpc": "2.0", "id": 5, "method": 7}', -32600, 5),
        (b'{"jsonrpc": "2.0", "id": 5, "method": "getSlot", "params": {}}', -32600, 5),
        (b'{"jsonrpc": "2.0", "id": [1], "method": "getSlot"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": "x", "method": "sellEverything"}', -32601, "x"),
    ],
)
async def test_a_body_without_a_valid_request_is_refused(
    node: Node, body: bytes, code: int, call_id: object
) -> None:
    answer = await node.send(body)

    assert answer["error"]["code"] == code
    assert answer["id"] == call_id


async def test_a_batch_returns_its_answers_in_the_order_of_its_calls(node: Node) -> None:
    answers = await node.send(
        [
            {"jsonrpc": "2.0", "id": "a", "method": "getHealth"},
            {"jsonrpc": "2.0", "id": 2, "method": "none"},
            5,
            {"jsonrpc": "2.0", "id": 3, "method": "getSlot", "params": None},
        ]
    )

    assert [answer["id"] for answer in answers] == ["a", 2, None, 3]
    assert [answer.get("error", {}).get("code") for answer in answers] == [
        *(None, -32601, -32600, None),
    ]


async def test_a_batch_of_101_calls_is_refused(node: Node) -> None:
    answer = await node.send([{"jsonrpc": "2.0", "id": 1, "method": "getHealth"}] * 101)

    assert answer["error"]["code"] == -32600


async def test_a_body_of_60_000_bytes_is_refused_with_413(node: Node) -> None:
    answer = await node.client.post("/", content=b" " * 60_000)

    assert answer.status_code == 413


async def test_a_disconnect_during_the_request_ends_with_status_408(history: Devchain) -> None:
    # Ingest disconnects in this way if it is stopped during a request.
    statuses = []

    async def receive() -> dict[str, object]:
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        statuses.append(message.get("status"))

    scope = {"type": "http", "method": "POST", "path": "/", "headers": [], "query_string": b""}
    await history.app(scope, receive, send)
    assert statuses[0] == 408


async def test_a_get_request_is_refused_with_405(node: Node) -> None:
    assert (await node.client.get("/")).status_code == 405
