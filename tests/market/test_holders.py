"""Holders of a token, read from a node: their names, and the number of calls to the node."""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import msgspec
import pytest
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import Mint, UnixMs, UnixS
from mintscope.market.engine.pool_book import BookedPool
from mintscope.market.series.holder_reads import NodeHolders
from mintscope.solana.blocks import Endpoint
from mintscope.solana.rpc import Rpc

MINT = Mint(str(Pubkey.new_unique()))
POOL, SPOOFED, WALLET, AUTHORITY = (str(Pubkey.new_unique()) for _ in range(4))
INCINERATOR = "1nc1nerator11111111111111111111111111111111"
RAYDIUM = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"
STREAMFLOW = "strmRqUCoQUgGUan5YhzUZa6KqdzwX5L6FpUxfmKg5m"
LOCKED = str(Pubkey.find_program_address([b"lock"], Pubkey.from_string(STREAMFLOW))[0])
KEYPAIR = str(Keypair.from_seed(bytes(32)).pubkey())  # assigned to Streamflow by its holder
HELD = {
    POOL: 400, INCINERATOR: 300, SPOOFED: 100, LOCKED: 90, RAYDIUM: 60, WALLET: 50, KEYPAIR: 40,
}  # fmt: skip
ACCOUNTS = {str(Pubkey.new_unique()): owner for owner in HELD}
BOOKED = [
    BookedPool(POOL, UnixS(0), 0, venue="pumpswap"),
    BookedPool(SPOOFED, UnixS(0), 0, venue=str(Pubkey.new_unique())),
]


def account(owner: str, data: bytes) -> dict[str, Any]:
    return {"owner": owner, "data": [b64encode(data).decode(), "base64"]}


def state_of(address: str) -> dict[str, Any] | None:
    if address == MINT:
        return account("token", bytes(36) + (1_000).to_bytes(8, "little") + b"\x02" + bytes(37))
    if address in ACCOUNTS:
        owner = ACCOUNTS[address]
        keys = bytes(Pubkey.from_string(MINT)) + bytes(Pubkey.from_string(owner))
        return account("token", keys + HELD[owner].to_bytes(8, "little") + bytes(93))
    return account(STREAMFLOW, b"") if address in {LOCKED, KEYPAIR} else None


class Node:
    """A fake node; if `code` is set, the first method gets an error with this code."""

    def __init__(self) -> None:
        self.code: int | None = None
        self.is_away = False
        self.is_garbled = False
        self.has_closed: set[str] = set()  # accounts that no longer exist
        self.names_none = False  # of the accounts
        self.extension = b""  # of Token-2022, in the account of the mint
        self.asked: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        asked = msgspec.json.decode(request.content)
        self.asked.append(asked["method"])
        if self.is_away:
            return httpx.Response(503)
        if asked["method"] == "getTokenLargestAccounts":
            if self.code is not None:
                error = {"code": self.code, "message": "no"}
                return httpx.Response(200, json={"jsonrpc": "2.0", "id": 1, "error": error})
            named = () if self.names_none else reversed(ACCOUNTS)
            value: list[Any] = [{"address": each, "amount": "1"} for each in named]
        else:
            value = [
                None if address in self.has_closed else state_of(address)
                for address in asked["params"][0]
            ]
            if self.extension and asked["params"][0][0] == MINT:
                mint = b64decode(value[0]["data"][0])[:82].ljust(165, b"\0") + b"\1"
                value[0] = account("token", mint + self.extension)
            if self.is_garbled:
                value = []
        result = {"context": {"slot": 9}, "value": value}
        return httpx.Response(200, json={"jsonrpc": "2.0", "id": 1, "result": result})


Reader = Callable[[int], NodeHolders]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(UnixMs(1_763_460_000_000))


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
async def reader(node: Node, clock: ManualClock) -> AsyncIterator[Reader]:
    endpoint = Endpoint(url="http://node", attempts_max=1)
    async with Rpc(endpoint, clock=clock, transport=httpx.MockTransport(node)) as rpc:
        yield lambda calls: NodeHolders(rpc, clock, calls)


async def test_holders_are_named_the_largest_first(reader: Reader) -> None:
    found = await reader(3).of(MINT, BOOKED)

    assert [(one.owner, one.amount, one.kind, one.name) for one in found.holders] == [
        (POOL, 400, "pool", "pumpswap"),
        (INCINERATOR, 300, "burned", "incinerator"),
        (SPOOFED, 100, "other", None),  # its program is not listed
        (LOCKED, 90, "locked", "Streamflow"),
        (RAYDIUM, 60, "pool", "raydium_v4"),
        (WALLET, 50, "other", None),
        (KEYPAIR, 40, "other", None),  # its private key can still move the tokens
    ]
    assert (found.supply, found.decimals, found.burned, found.slot) == (1_000, 2, 300, 9)


async def test_no_token_is_burned_or_locked_if_a_permanent_delegate_can_move_it(
    reader: Reader, node: Node
) -> None:
    node.extension = b"\x0c\0" + b"\x20\0" + bytes(Pubkey.from_string(WALLET))

    found = await reader(3).of(MINT, BOOKED)

    assert [one.kind for one in found.holders] == [
        *("pool", "other", "other", "other", "pool", "other", "other")
    ]
    assert {one.name for one in found.holders} == {"pumpswap", "raydium_v4", None}
    assert (found.supply, found.burned) == (1_000, 0)


async def test_a_reading_is_reused_for_five_minutes_or_if_the_calls_are_used_up(
    reader: Reader, node: Node, clock: ManualClock
) -> None:
    holders = reader(6)
    assert holders.last(MINT) is None
    first = await holders.of(MINT, BOOKED)
    clock.advance(299_999)
    assert await holders.of(MINT, BOOKED) is first
    assert len(node.asked) == 3
    clock.advance(1)
    second = await holders.of(MINT, BOOKED)
    assert second.read_at_ms == clock.now()
    clock.advance(3_600_000)
    assert await holders.of(MINT, BOOKED) is second  # the calls of the day are used up
    assert holders.last(MINT) is second
    assert holders.last(Mint(WALLET)) is None
    with pytest.raises(ServiceUnavailable, match="used up"):
        await holders.of(Mint(WALLET), BOOKED)
    assert len(node.asked) == 6
    clock.advance(86_400_000)
    node.is_away = True
    assert await holders.of(MINT, BOOKED) is second


@pytest.mark.parametrize("code", [-32601, -32010])
async def test_the_error_names_the_refusal_of_the_node(
    reader: Reader, node: Node, code: int
) -> None:
    node.code = code
    with pytest.raises(ServiceUnavailable, match="does not name the largest accounts"):
        await reader(3).of(MINT, BOOKED)


async def test_an_unreachable_node_is_not_reported_as_a_refusal(reader: Reader, node: Node) -> None:
    node.is_away = True
    with pytest.raises(ServiceUnavailable, match="try again"):
        await reader(3).of(MINT, BOOKED)


async def test_an_answer_without_accounts_counts_as_a_failure(
    reader: Reader, node: Node, clock: ManualClock
) -> None:
    holders = reader(100)
    first = await holders.of(MINT, BOOKED)
    clock.advance(300_000)
    node.is_garbled = True
    assert await holders.of(MINT, BOOKED) is first
    with pytest.raises(ServiceUnavailable, match="try again"):
        await holders.of(Mint(WALLET), BOOKED)


async def test_a_closed_account_is_left_out(reader: Reader, node: Node) -> None:
    node.has_closed = {next(iter(ACCOUNTS))}
    found = await reader(3).of(MINT, BOOKED)
    assert [one.owner for one in found.holders] == [
        *(INCINERATOR, SPOOFED, LOCKED, RAYDIUM, WALLET, KEYPAIR)
    ]


async def test_a_node_that_has_none_of_the_accounts_that_it_named_counts_as_a_failure(
    reader: Reader, node: Node
) -> None:
    node.has_closed = {*ACCOUNTS}
    with pytest.raises(ServiceUnavailable, match="try again"):
        await reader(3).of(MINT, BOOKED)


async def test_a_mint_with_a_supply_has_holders(reader: Reader, node: Node) -> None:
    node.names_none = True
    with pytest.raises(ServiceUnavailable, match="try again"):
        await reader(3).of(MINT, BOOKED)


async def test_requests_soon_after_a_failure_send_no_calls(
    reader: Reader, node: Node, clock: ManualClock
) -> None:
    """The node refuses one token, and is down later; the caller repeats each request."""
    holders = reader(100)
    node.code = -32010
    for _ in range(50):
        with pytest.raises(ServiceUnavailable, match="does not name"):
            await holders.of(Mint(WALLET), BOOKED)
    assert len(node.asked) == 1
    node.code = None
    clock.advance(1_000)
    first = await holders.of(MINT, BOOKED)  # another token is read
    clock.advance(300_000)
    node.is_away = True
    for n in range(50):
        with pytest.raises(ServiceUnavailable, match="try again"):
            await holders.of(Mint(f"mint {n}"), BOOKED)
    assert len(node.asked) == 1 + 3 + 1
    assert await holders.of(MINT, BOOKED) is first
    node.is_away = False
    clock.advance(1_000)
    assert (await holders.of(MINT, BOOKED)).read_at_ms == clock.now()


async def test_a_token_that_fails_repeatedly_does_not_pause_others(
    reader: Reader, node: Node, clock: ManualClock
) -> None:
    holders = reader(100)
    for _ in range(3):
        clock.advance(300_000)
        node.code = -32010
        with pytest.raises(ServiceUnavailable, match="does not name"):
            await holders.of(Mint(WALLET), BOOKED)
    node.code = None
    assert (await holders.of(MINT, BOOKED)).read_at_ms == clock.now()


async def test_a_node_that_does_not_answer_blocks_no_caller(node: Node, clock: ManualClock) -> None:
    """Known holders are returned while other holders are being read, and each wait has a limit."""
    is_silent = False
    is_asked = asyncio.Event()

    async def answer(request: httpx.Request) -> httpx.Response:
        if is_silent:
            is_asked.set()
            await asyncio.Event().wait()
        return node(request)

    endpoint = Endpoint(url="http://node", attempts_max=1)
    async with Rpc(endpoint, clock=clock, transport=httpx.MockTransport(answer)) as rpc:
        patient = NodeHolders(rpc, clock, 100)
        first = await patient.of(MINT, BOOKED)
        is_silent = True
        waiting = asyncio.create_task(patient.of(Mint(WALLET), BOOKED))
        await is_asked.wait()
        assert await patient.of(MINT, BOOKED) is first
        waiting.cancel()
        hasty = NodeHolders(rpc, clock, 100, answer_s=0)
        several = [hasty.of(Mint(f"mint {n}"), BOOKED) for n in range(3)]
        for found in await asyncio.gather(*several, return_exceptions=True):
            assert isinstance(found, ServiceUnavailable)
        await asyncio.gather(waiting, return_exceptions=True)
