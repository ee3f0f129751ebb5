"""The contract of every PoolReserves.  To test another engine, add it to `ENGINES`."""

import json
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from random import Random
from typing import Any, Final

import pytest
from solders.pubkey import Pubkey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mintscope.kit.primitives import Mint, Wallet
from mintscope.payments.ports import ChainUnavailable
from mintscope.payments.price_cache import PoolReserves, TokenReserves
from mintscope.payments.price_sources import RpcReserves, Vaults
from mintscope.payments.protocol.envelope import TOKEN_PROGRAM
from mintscope.payments.protocol.memo import UnusablePaymentToken
from mintscope.solana.blocks import USDC, USDT, WSOL, Endpoint
from support.processes.listening import listening
from support.spoiling import RUINED, spoil

TOKEN: Final = USDT
U64_MAX: Final = 2**64 - 1


def vault(mint: Mint, atoms: int) -> dict[str, Any]:
    data = bytes(Pubkey.from_string(mint)) + bytes(32) + atoms.to_bytes(8, "little") + bytes(93)
    return {"owner": TOKEN_PROGRAM, "data": [b64encode(data).decode(), "base64"]}


class Node:
    """A fake node that has the token accounts of TOKEN's pools, which a test may change."""

    def __init__(self, sold: int, quotes: dict[Mint, int]) -> None:
        self.accounts: dict[str, Any] = {"base 0": vault(TOKEN, sold), "base 1": vault(TOKEN, 0)}
        for number, (mint, atoms) in enumerate(quotes.items()):
            self.accounts[f"quote {number}"] = vault(mint, atoms)
        self.change: Callable[[bytes], bytes] = bytes
        self.said: dict[str, bytes] = {}  # the last answer about each account
        self.status = 200

    async def answer(self, request: Request) -> Response:
        address = json.loads(await request.body())["params"][0]
        result = {"context": {"slot": 7}, "value": self.accounts[address]}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}, separators=(",", ":"))
        self.said[address] = self.change(body.encode())
        return Response(self.said[address], self.status)


class OverRpc:
    """An RpcReserves over a node in this process; methods let the node fail or change a vault."""

    def __init__(self, node: Node, reserves: RpcReserves) -> None:
        self.node, self.reserves = node, reserves

    def become_silent(self) -> None:
        self.node.status = 503

    def become_of_another_token(self) -> None:
        self.node.accounts["base 1"] = vault(WSOL, 0)


@dataclass
class Pools:
    """A PoolReserves in memory, with enough reserves on both sides at first.

    answers     whether the node answers
    is_usable   whether the pools hold the payment token
    """

    base: int = 10**12
    quotes: dict[Mint, int] = field(default_factory=lambda: {WSOL: 10**13})
    answers: bool = True
    is_usable: bool = True

    async def read(self) -> TokenReserves:
        if not self.answers:
            raise ChainUnavailable("no node")
        if not self.is_usable:
            raise UnusablePaymentToken("the pools are of another token")
        return TokenReserves(base=self.base, quotes=self.quotes)

    @property
    def reserves(self) -> "Pools":
        return self

    def become_silent(self) -> None:
        self.answers = False

    def become_of_another_token(self) -> None:
        self.is_usable = False


Engine = OverRpc | Pools


@asynccontextmanager
async def over_rpc(sold: int, quotes: dict[Mint, int]) -> AsyncIterator[OverRpc]:
    node = Node(sold, quotes)
    pools = [Vaults(Wallet(f"base {n}"), Wallet(f"quote {n}")) for n in range(len(quotes))]
    async with listening(Starlette(routes=[Route("/", node.answer, methods=["POST"])])) as url:
        reserves = RpcReserves(Endpoint(url=url), base=TOKEN, pools=pools)
        try:
            yield OverRpc(node, reserves)
        finally:
            await reserves.aclose()


@asynccontextmanager
async def made(sold: int, quotes: dict[Mint, int]) -> AsyncIterator[Pools]:
    yield Pools(sold, quotes)


ENGINES: Final[dict[str, Callable[..., AbstractAsyncContextManager[Engine]]]] = {
    "rpc": over_rpc,
    "made": made,
}
QUOTES: Final = {WSOL: 6, USDC: 8}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Callable[..., AbstractAsyncContextManager[Engine]]:
    return ENGINES[request.param]


async def read(reserves: PoolReserves) -> TokenReserves:
    return await reserves.read()


@pytest.mark.parametrize(
    ("sold", "quotes"), [(5, QUOTES), (0, {WSOL: 0}), (U64_MAX, {USDC: U64_MAX})]
)
async def test_the_sum_of_all_pools_is_reported_by_mint(
    engine: Callable[..., AbstractAsyncContextManager[Engine]],
    sold: int,
    quotes: dict[Mint, int],
) -> None:
    async with engine(sold, quotes) as pools:
        assert await read(pools.reserves) == TokenReserves(base=sold, quotes=quotes)
        assert await read(pools.reserves) == TokenReserves(base=sold, quotes=quotes)


async def test_a_node_that_does_not_answer_is_unavailable(
    engine: Callable[..., AbstractAsyncContextManager[Engine]],
) -> None:
    async with engine(5, QUOTES) as pools:
        pools.become_silent()
        with pytest.raises(ChainUnavailable):
            await read(pools.reserves)


async def test_a_pool_of_another_token_is_unusable(
    engine: Callable[..., AbstractAsyncContextManager[Engine]],
) -> None:
    async with engine(5, QUOTES) as pools:
        pools.become_of_another_token()
        with pytest.raises(UnusablePaymentToken):
            await read(pools.reserves)


@pytest.mark.parametrize("ruin", RUINED.values(), ids=RUINED)
async def test_an_answer_that_cannot_be_read_is_unavailable(ruin: Callable[[bytes], bytes]) -> None:
    async with over_rpc(5, QUOTES) as pools:
        pools.node.change = ruin
        with pytest.raises(ChainUnavailable):
            await read(pools.reserves)
        pools.node.change = bytes
        assert await read(pools.reserves) == TokenReserves(base=5, quotes=QUOTES)


def in_answers(said: Mapping[str, bytes]) -> TokenReserves:
    """Return a pool's reserves: the sums of the token accounts in *said*, answers of a node."""
    sums: dict[str, Counter[Mint]] = {"base": Counter(), "quote": Counter()}
    for address, body in said.items():
        account = json.loads(body.decode(errors="replace"))["result"]["value"]
        data = b64decode(account["data"][0])
        atoms = sum(byte << 8 * place for place, byte in enumerate(data[64:72]))
        sums[address.split()[0]][Mint(str(Pubkey.from_bytes(data[:32])))] += atoms
    assert sums["base"].keys() == {TOKEN}
    return TokenReserves(base=sums["base"][TOKEN], quotes=dict(sums["quote"]))


@pytest.mark.storm
async def test_a_spoilt_answer_raises_a_known_error_or_gives_the_reserves_that_it_names() -> None:
    read_count = 0
    async with over_rpc(5, QUOTES) as pools:
        for seed in range(300):
            random = Random(seed)
            for number, address in product(range(2), ("base", "quote")):
                mint = TOKEN if address == "base" else random.choice((WSOL, USDC))
                atoms = random.choice((0, U64_MAX, random.getrandbits(64)))
                pools.node.accounts[f"{address} {number}"] = vault(mint, atoms)
            pools.node.change = partial(spoil, seed=seed)
            try:
                found = await read(pools.reserves)
            except (ChainUnavailable, UnusablePaymentToken):
                continue
            assert found == in_answers(pools.node.said)
            read_count += 1
    assert read_count >= 10
