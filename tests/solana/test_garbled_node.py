"""Ingest treats each answer of a node as a result or as a failure of the node."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.dex.decode import decode_block
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Slot, UnixMs
from mintscope.solana.blocks import Block, Endpoint
from mintscope.solana.poll import Poller, Polling
from mintscope.solana.rpc import Commitment, Rpc, RpcFailure
from support.fakes.node import FakeNode, Fault
from support.fakes.raw_server import raw_server
from support.spoiling import RUINED, spoil

QUESTIONS: Final[dict[str, Callable[[Rpc], Any]]] = {
    "slot": lambda rpc: rpc.slot(Commitment.CONFIRMED),
    "head": lambda rpc: rpc.head(Commitment.FINALIZED),
    "alpenglow": lambda rpc: rpc.alpenglow(),
    "first_available": lambda rpc: rpc.first_available(),
    "genesis_hash": lambda rpc: rpc.genesis_hash(),
    "health": lambda rpc: rpc.health(),
    "block_time": lambda rpc: rpc.block_time(Slot(3)),
    "blocks": lambda rpc: rpc.blocks(first=Slot(2), last=Slot(5), commitment=Commitment.CONFIRMED),
    "header": lambda rpc: rpc.header(Slot(3), Commitment.CONFIRMED),
    "block": lambda rpc: rpc.block(Slot(3), Commitment.CONFIRMED),
}


def node() -> FakeNode:
    node = FakeNode(ManualClock(UnixMs(1_700_000_000_000)))
    node.grow(10)
    node.finalize()
    return node


def spoiling(change: Callable[[bytes], bytes]) -> Fault:
    def fault(honest: FakeNode, method: str, params: list[Any]) -> httpx.Response:
        question = {"method": method, "params": params}
        asked = httpx.Request("POST", "http://node", json=question)
        answer = FakeNode(honest.clock, honest.blocks, honest.final_count).handle(asked)
        return httpx.Response(200, content=change(answer.content))

    return fault


async def ask(question: Callable[[Rpc], Any], **how: Any) -> object:
    honest = node()
    endpoint = Endpoint(url=how.pop("url", "http://node"), attempts_max=1, timeout_s=5)
    async with Rpc(endpoint, clock=honest.clock, sleep=honest.sleep, **how) as rpc:
        try:
            found = await question(rpc)
        except RpcFailure as failure:
            return failure
    if isinstance(found, Block):
        decode_block(found.transactions)
    return found


@pytest.mark.storm
@settings(max_examples=400, deadline=None, derandomize=True)
@given(name=st.sampled_from(sorted(QUESTIONS)), seed=st.integers(0, 2**48))
def test_a_changed_answer_is_an_answer_or_a_failure(name: str, seed: int) -> None:
    honest = node()
    honest.faults = [spoiling(lambda good: spoil(good, seed))]
    asyncio.run(ask(QUESTIONS[name], transport=honest.transport()))


@pytest.mark.storm
@settings(max_examples=100, deadline=None, derandomize=True)
@given(name=st.sampled_from(sorted(QUESTIONS)), body=st.binary())
def test_any_bytes_are_an_answer_or_a_failure(name: str, body: bytes) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=body))
    asyncio.run(ask(QUESTIONS[name], transport=transport))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    written=st.binary()
    | st.builds(lambda rest: b"HTTP/1.1 200 OK\r\n" + rest, st.binary())
    | st.builds(
        b"HTTP/1.1 %b\r\n%b\r\n\r\n%b".__mod__,
        st.tuples(
            st.sampled_from([b"200 OK", b"429 \xff", b"302 Found", b"503", b"999 x", b"100 C"]),
            st.sampled_from(
                [
                    b"Location: http://[",
                    b"Retry-After: \xff",
                    b"Retry-After: " + b"9" * 400,
                    b"Retry-After: Mon, 99 Foo 99999 99:99:99 +9999",
                    b"Set-Cookie: \xff=\x00; expires=never; Max-Age=1e400",
                    b"Content-Encoding: gzip",
                    b"Content-Encoding: \xff",
                    b"Content-Type: application/json; charset=nonsense",
                    b"Transfer-Encoding: chunked",
                    b"Content-Length: 7",
                ]
            ),
            st.binary(max_size=20),
        ),
    )
)
def test_any_bytes_on_the_wire_are_an_answer_or_a_failure(written: bytes) -> None:
    async def run() -> None:
        async with raw_server(written) as url:
            await ask(QUESTIONS["slot"], url=url)

    asyncio.run(run())


@pytest.mark.parametrize("ruin", RUINED.values(), ids=RUINED)
async def test_ingest_retries_until_an_answer_is_readable(
    ruin: Callable[[bytes], bytes],
) -> None:
    """More answers in a row are unreadable than a request has attempts."""
    garbled = node()
    garbled.faults = [None, *[spoiling(ruin)] * 12] * 3
    endpoint = Endpoint(url="http://node", attempts_max=2)
    transport = garbled.transport()
    async with Rpc(endpoint, clock=garbled.clock, transport=transport, sleep=garbled.sleep) as rpc:
        poller = Poller(rpc, Polling(start="first"), clock=garbled.clock, sleep=garbled.sleep)
        assert await poller.genesis_hash() == garbled.getGenesisHash()
        slots = []
        async for update in poller.updates(None):
            if isinstance(update, Block):
                slots.append(update.slot)
                if update.slot == 9:
                    break

    assert slots == list(range(10))
