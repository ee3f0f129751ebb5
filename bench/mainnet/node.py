"""Runs a simulated Solana node with the load of mainnet, over JSON-RPC and gRPC.

`node PORT STREAM_PORT DELAY_MS SLOT_MS FINALITY_MS`
"""

import asyncio
import json
import sys
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bench.mainnet.chain import FIRST, GENESIS, Chain, Entry
from bench.mainnet.stream import stream
from mintscope.kit.primitives import Slot

GZIP_HEAD: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
SAMPLE_S: Final = 60
KNOWN_BLOCKS: Final = 150
ALPENGLOW_S_MAX: Final = 1.0  # a cluster with slower finality does not use Alpenglow


class Shared:
    """The transactions that are the same in all calm blocks, or in all busy blocks.

    text     their JSON, without the opening bracket
    packed   *text*, compressed
    """

    def __init__(self, transactions: Sequence[Entry]) -> None:
        text = json.dumps(transactions, separators=(",", ":"))
        self.text = text[1:].encode()  # without the opening bracket
        self.packed = _deflated(self.text, zlib.Z_FULL_FLUSH)


class Node:
    """Answers the JSON-RPC requests of ingest; most of each block is compressed only once."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self.calm, self.busy = Shared(chain.calm), Shared(chain.busy)
        self._end = _deflated(b"}}", zlib.Z_FINISH)

    def answer(self, method: str, params: list[Any]) -> tuple[bytes, bool]:
        """Return the body of the answer to a call, and whether gzip has compressed the body."""
        match method:
            case "getBlock":
                return self._block(Slot(params[0]), params[1]["transactionDetails"])
            case "getSlot":
                result: object = self._head(params[0])
            case "getLatestBlockhash":
                slot = self._head(params[0])
                known = {
                    "blockhash": f"h{slot}",
                    "lastValidBlockHeight": slot - FIRST + KNOWN_BLOCKS,
                }
                result = {"context": {"slot": slot}, "value": known}
            case "getMultipleAccounts":
                result = {"context": {"slot": self._chain.head()}, "value": [None] * len(params[0])}
            case "getBlocks":
                result = list(range(params[0], min(params[1], self._chain.head()) + 1))
            case "getFirstAvailableBlock":
                result = FIRST
            case "getRecentPerformanceSamples":
                slots = round(SAMPLE_S / self._chain.slot_s)
                result = [{"numSlots": slots, "samplePeriodSecs": SAMPLE_S}]
            case "getAgGenesisCert":
                result = {"slot": FIRST} if self._chain.finality_s < ALPENGLOW_S_MAX else None
            case _:
                result = GENESIS
        return _answer(result), False

    def measured(self, method: str) -> bytes:
        """Answer *method*, which only benchmarks call: the newest slot, or times of all blocks."""
        return _answer(self._chain.head() if method == "bench_head" else self._chain.sent_at_s)

    def _head(self, config: Mapping[str, Any]) -> Slot:
        is_final = config["commitment"] == "finalized"
        return self._chain.final_head() if is_final else self._chain.head()

    def _block(self, slot: Slot, details: str) -> tuple[bytes, bool]:
        if slot > self._chain.head():
            return b'{"jsonrpc":"2.0","id":1,"error":{"code":-32004,"message":"not yet"}}', False
        header = (
            f'{{"jsonrpc":"2.0","id":1,"result":{{"blockhash":"h{slot}","parentSlot":{slot - 1},'
            f'"previousBlockhash":"h{slot - 1}","blockTime":{self._chain.block_time(slot)}'
        )
        if details == "none":
            return f"{header}}}}}".encode(), False
        shared = self.busy if self._chain.is_busy(slot) else self.calm
        newcomer = self._chain.newcomer(slot)
        own = f'{header},"transactions":[{newcomer}{"," if newcomer else ""}'.encode()
        body = _deflated(own, zlib.Z_FULL_FLUSH) + shared.packed + self._end
        crc = zlib.crc32(b"}}", zlib.crc32(shared.text, zlib.crc32(own)))
        size = len(own) + len(shared.text) + 2
        return GZIP_HEAD + body + crc.to_bytes(4, "little") + size.to_bytes(4, "little"), True


def _answer(result: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode()


def _deflated(text: bytes, mode: int) -> bytes:
    packing = zlib.compressobj(1, wbits=-15)
    return packing.compress(text) + packing.flush(mode)


async def serve(port: int, stream_port: int, delay_s: float, chain: Chain) -> None:
    node = Node(chain)
    for name, transactions, shared in (
        ("calm", chain.calm, node.calm),
        ("busy", chain.busy, node.busy),
    ):
        print(
            f"a {name} block: {len(transactions)} transactions, {chain.swaps(transactions)} swaps,"
            f" {len(shared.text) / 1e6:.1f} MB, {len(shared.packed) / 1e6:.1f} MB packed"
        )

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
                asked = json.loads(await reader.readexactly(length))
                if asked["method"].startswith("bench_"):
                    body, is_packed = node.measured(asked["method"]), False
                else:
                    await asyncio.sleep(delay_s)
                    body, is_packed = node.answer(asked["method"], asked.get("params", []))
                packed = "Content-Encoding: gzip\r\n" if is_packed else ""
                lines = f"HTTP/1.1 200 OK\r\n{packed}Content-Length: {len(body)}\r\n\r\n"
                writer.write(lines.encode() + body)
                await writer.drain()
                if is_packed:
                    chain.note_sent(asked["params"][0])
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", port)
    async with stream(chain, stream_port, delay_s):
        await server.serve_forever()


if __name__ == "__main__":
    own_port, stream_port = map(int, sys.argv[1:3])
    delay_s, slot_s, finality_s = (float(each) / 1_000 for each in sys.argv[3:])
    asyncio.run(serve(own_port, stream_port, delay_s, Chain(slot_s, finality_s)))
