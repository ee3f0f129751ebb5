"""On a devchain with a market, trades and payments share one sequence of blocks."""

import asyncio
import socket
from base64 import b64decode, b64encode
from contextlib import suppress
from typing import Any

import httpx
import msgspec
import pytest
from paying import PRICE, payment
from solders.hash import Hash

from mintscope.kit.clock import SystemClock
from mintscope.kit.primitives import Mint, Slot, UnixMs
from mintscope.market.mint_facts import ChainAccount, facts_of, metadata_address
from mintscope_devchain.chain import Devchain
from mintscope_devchain.live import serve
from mintscope_devchain.svm.genesis import PAYMENT_SYMBOL
from support.scenes.json_transactions import decode_transaction

NOW = UnixMs(1_800_000_000_000)


class Market:
    """A devchain with a funded buyer; `call` sends requests to its ASGI application in memory."""

    def __init__(self) -> None:
        self.chain = Devchain(seed=5, now=NOW, history_days=0.1)
        self.genesis = self.chain.vm.genesis
        self.buyer = self.genesis.key("buyer")
        bank, owner = self.chain.vm.bank, self.buyer.pubkey()
        self.genesis.endow(bank, owner, lamports=10**9, atoms=10**9)
        transport = httpx.ASGITransport(self.chain.app)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://devchain")

    async def call(self, method: str, *params: object) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = (await self.client.post("/", json=body)).json()
        assert "error" not in answer, answer["error"]
        return answer["result"]

    async def pay(self, memo: str = "a quote") -> str:
        latest = await self.call("getLatestBlockhash", {"commitment": "processed"})
        blockhash = Hash.from_string(latest["value"]["blockhash"])
        made = payment(self.genesis, self.buyer, memo=memo, blockhash=blockhash)
        text = b64encode(bytes(made)).decode()
        return str(await self.call("sendTransaction", text, {"encoding": "base64"}))

    async def received(self) -> int:
        tokens = str(self.genesis.treasury_tokens)
        found = await self.call("getTokenAccountBalance", tokens, {"commitment": "processed"})
        return int(found["value"]["amount"])


@pytest.fixture
def market() -> Market:
    return Market()


async def test_every_rpc_method_shows_a_payment_in_the_same_block(market: Market) -> None:
    signature = await market.pay()
    slot = market.chain.tick()
    market.chain.tick()
    status = (await market.call("getSignatureStatuses", [signature]))["value"][0]
    config = {"commitment": "confirmed", "maxSupportedTransactionVersion": 0}
    block = await market.call("getBlock", slot, config)
    entry = await market.call("getTransaction", signature, config)
    listed = await market.call("getBlock", slot, {**config, "transactionDetails": "signatures"})
    shown = block["transactions"][-1]
    decoded = decode_transaction(msgspec.json.encode(shown), len(block["transactions"]) - 1)

    assert (status["slot"], status["confirmationStatus"]) == (slot, "confirmed")
    assert len(block["transactions"]) > 1
    assert shown["transaction"]["signatures"] == [signature, entry["transaction"]["signatures"][1]]
    assert shown == {key: entry[key] for key in ("transaction", "meta", "version")}
    assert listed["signatures"][-1] == signature
    assert entry["blockTime"] == block["blockTime"]
    assert (decoded.swaps, decoded.quarantined) == ([], [])


async def test_block_height_and_blockhash_agree_with_get_block(market: Market) -> None:
    market.chain.tick()
    latest = await market.call("getLatestBlockhash", {"commitment": "finalized"})
    slot = await market.call("getSlot")
    block = await market.call("getBlock", slot, {"maxSupportedTransactionVersion": 0})

    assert latest["context"]["slot"] == slot
    assert latest["value"]["blockhash"] == block["blockhash"]
    assert latest["value"]["lastValidBlockHeight"] == block["blockHeight"] + 150
    assert await market.call("getBlockHeight") == block["blockHeight"]


async def test_metaplex_accounts_have_the_names_of_all_market_tokens(market: Market) -> None:
    names = {}
    for mint in map(Mint, market.chain.world.mints):
        asked = [mint, metadata_address(mint)]
        found = (await market.call("getMultipleAccounts", asked))["value"]
        accounts = [
            ChainAccount(owner=each["owner"], data=b64decode(each["data"][0])) for each in found
        ]
        facts = facts_of(mint, *accounts, slot=Slot(1), read_at_ms=NOW)
        names[facts.symbol] = facts.name

    assert set(names) == {token.symbol for token in market.chain.world.mints.values()}
    assert (names["SOL"], names["USDC"], names["BONE"]) == ("Wrapped SOL", "USD Coin", "Bone")


async def test_balances_and_blocks_have_the_same_slot_at_each_commitment(market: Market) -> None:
    for number in range(60):  # some slots are skipped: the time does not give the slot
        market.chain.tick(UnixMs(NOW + 400 * number))
        for commitment in ("processed", "confirmed", "finalized"):
            config = {"commitment": commitment}
            slot = await market.call("getSlot", config)
            balance = await market.call("getBalance", str(market.buyer.pubkey()), config)

            assert balance["context"]["slot"] == slot


async def test_the_server_sets_the_clock_of_the_chain(market: Market) -> None:
    clock = SystemClock()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(serve(market.chain, clock, listener, slot_s=0.01))
        async with httpx.AsyncClient() as client:
            await client.get(f"http://127.0.0.1:{listener.getsockname()[1]}/health")
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving

    assert market.chain.vm.clock is clock


async def test_a_payment_lands_in_a_later_slot_after_a_fork(market: Market) -> None:
    market.chain.tick()
    first = await market.pay("first")
    slot = market.chain.tick()
    market.chain.fork(1)
    statuses = (await market.call("getSignatureStatuses", [first]))["value"]

    assert statuses[0]["slot"] > slot
    assert await market.received() == PRICE


async def test_a_vanished_transaction_forks_the_chain(market: Market) -> None:
    knobs = {"landing": {"kind": "vanish", "times": 1}}
    await market.call("devchain_setFaults", knobs)
    for _ in range(40):
        market.chain.tick()
    gone = await market.pay("gone")
    slot = market.chain.tick()
    before = await market.received()
    hash_before = market.chain.blockstore.block(slot)
    for _ in range(5):
        market.chain.tick()
    statuses = await market.call("getSignatureStatuses", [gone])

    assert before == PRICE
    assert hash_before is not None
    assert market.chain.blockstore.block(slot) is None
    assert statuses["value"] == [None]
    assert await market.received() == 0


async def test_cors_allows_calls_from_any_origin(market: Market) -> None:
    asked = {"Origin": "http://wallet", "Access-Control-Request-Method": "POST"}
    allowed = await market.client.options("/", headers=asked)

    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == "*"


async def test_the_payment_token_is_a_token_of_the_market(market: Market) -> None:
    token = next(each for each in market.chain.tokens if each.symbol == PAYMENT_SYMBOL)

    assert token.mint == str(market.genesis.mint)
    assert token.decimals == 6


async def test_the_vault_accounts_of_a_pool_hold_its_reserves(market: Market) -> None:
    pool = next(
        pool
        for listed in market.chain.world.listed
        if listed.token.symbol == PAYMENT_SYMBOL
        for pool in listed.pools
    )
    balances = [
        int((await market.call("getTokenAccountBalance", vault))["value"]["amount"])
        for vault in (pool.base_vault, pool.quote_vault)
    ]
    shown = await market.call("getAccountInfo", pool.quote_vault, {"encoding": "jsonParsed"})
    mint = await market.call("getTokenSupply", market.chain.tokens[1].mint)
    wallet = await market.call("getBalance", market.chain.world.wallets[0])
    largest = (await market.call("getTokenLargestAccounts", pool.base.mint))["value"]

    amounts = [int(each["amount"]) for each in largest]
    assert amounts == sorted(amounts, reverse=True)
    assert pool.base_vault in [each["address"] for each in largest]
    assert len(largest) <= 20
    assert balances == list(pool.reserves(market.chain.world.balances))
    assert shown["value"]["data"]["parsed"]["info"]["mint"] == pool.quote.mint
    assert mint["value"]["decimals"] == market.chain.tokens[1].decimals
    assert wallet["value"] > 0
