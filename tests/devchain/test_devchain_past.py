"""The transactions of an address in pages, as a node lists them: newest first."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from mintscope_devchain.chain import Devchain

FINALIZED = {"commitment": "finalized"}
JSON = {"encoding": "json", "maxSupportedTransactionVersion": 0}


class Node:
    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def call(self, method: str, *params: object) -> Any:
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        return (await self._client.post("/", json=call)).json()["result"]

    async def past(self, address: str, limit: int) -> list[dict[str, Any]]:
        """Return the whole transaction history of *address*, read in pages of *limit*."""
        lines: list[dict[str, Any]] = []
        while True:
            before = {"before": lines[-1]["signature"]} if lines else {}
            options = {"limit": limit, **FINALIZED, **before}
            page = await self.call("getSignaturesForAddress", address, options)
            lines += page
            if len(page) < limit:
                return lines


@asynccontextmanager
async def opened(chain: Devchain) -> AsyncIterator[Node]:
    for _ in range(60):
        chain.tick()
    transport = httpx.ASGITransport(chain.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://devchain") as client:
        yield Node(client)


@pytest.fixture
async def node(young: Devchain) -> AsyncIterator[Node]:
    async with opened(young) as node:
        yield node


@pytest.fixture
async def tower_node(tower: Devchain) -> AsyncIterator[Node]:
    async with opened(tower) as node:
        yield node


def expected(chain: Devchain, address: str) -> list[tuple[int, str]]:
    """Return slot and signature of each final transaction that names *address*, newest first."""
    found = []
    for slot in chain.blockstore.slots:
        block = chain.blockstore.block(slot)
        if block is None or slot > chain.blockstore.reached("finalized"):
            continue
        for entry, signature in zip(chain.entries(block), chain.signatures(block), strict=True):
            if address in keys_of(entry):
                found.append((int(slot), str(signature)))
    return found[::-1]


def keys_of(entry: Any) -> list[str]:
    """Return all accounts that a transaction of getBlock names."""
    loaded = entry["meta"]["loadedAddresses"]
    keys = entry["transaction"]["message"]["accountKeys"]
    return [*keys, *loaded["writable"], *loaded["readonly"]]


def test_a_transaction_names_exactly_its_keys(young: Devchain, tower: Devchain) -> None:
    """Its keys include the temporary accounts that it opens, and the accounts of its votes."""
    for chain in (young, tower):
        every: set[str] = set()
        for slot in chain.blockstore.slots:
            block = chain.blockstore.block(slot)
            assert block is not None
            for entry, named in zip(chain.entries(block), chain.named(block), strict=True):
                keys = keys_of(entry)
                every |= set(keys)
                assert {key for key in every if named.names(key)} == set(keys)


@pytest.mark.storm
@pytest.mark.parametrize("limit", [1_000, 7])
async def test_pages_contain_every_transaction_of_a_pool_newest_first(
    limit: int, node: Node, young: Devchain
) -> None:
    pool = young.world.sol_pools[0].address

    lines = await node.past(pool, limit)

    assert len(lines) > 20
    assert [(line["slot"], line["signature"]) for line in lines] == expected(young, pool)


async def test_until_ends_a_page_and_an_unknown_before_gives_an_empty_page(
    node: Node, young: Devchain
) -> None:
    pool = young.world.sol_pools[0].address
    lines = await node.past(pool, 1_000)

    until = {**FINALIZED, "until": lines[5]["signature"]}
    assert await node.call("getSignaturesForAddress", pool, until) == lines[:5]
    unknown = {**FINALIZED, "before": "1" * 64}
    assert await node.call("getSignaturesForAddress", pool, unknown) == []


async def test_get_transaction_returns_the_entry_of_get_block(node: Node, young: Devchain) -> None:
    line = (await node.past(young.world.sol_pools[0].address, 1_000))[3]
    block = await node.call("getBlock", line["slot"], JSON)

    shown = await node.call("getTransaction", line["signature"], JSON)

    assert (shown["slot"], shown["blockTime"]) == (line["slot"], block["blockTime"])
    entry = {key: shown[key] for key in ("transaction", "meta", "version")}
    assert entry in block["transactions"]
    assert entry["transaction"]["signatures"] == [line["signature"]]


async def test_transactions_undone_by_a_fork_are_neither_listed_nor_found(
    tower_node: Node, tower: Devchain
) -> None:
    pool = tower.world.sol_pools[0].address
    ahead = {"commitment": "confirmed", "limit": 1_000}
    before = await tower_node.call("getSignaturesForAddress", pool, ahead)

    tower.fork(10)

    after = {
        each["signature"] for each in await tower_node.call("getSignaturesForAddress", pool, ahead)
    }
    dead = [each["signature"] for each in before if each["signature"] not in after]
    assert dead
    assert (
        await tower_node.call("getTransaction", dead[0], JSON | {"commitment": "confirmed"}) is None
    )
