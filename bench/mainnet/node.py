"""A node at the load of mainnet, by JSON-RPC and by gRPC: `node PORT STREAM_PORT DELAY_MS`."""

import asyncio
import json
import sys
import zlib
from typing import Any, Final

from bench.mainnet.chain import FINAL_LAG, FIRST, GENESIS, Chain
from bench.mainnet.stream import stream
from mintscope.base.primitives import Slot

GZIP_HEAD: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"


class Node:
    """Answers what is asked by JSON-RPC.  What all blocks share is compressed once."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        text = json.dumps(chain.transactions, separators=(",", ":"))
        self._text = text[1:].encode()  # without the bracket that opens it
        self._packed = _deflated(self._text, zlib.Z_FULL_FLUSH)
        self._end = _deflated(b"}}", zlib.Z_FINISH)

    def answer(self, method: str, params: list[Any]) -> tuple[bytes, bool]:
        """Return the body, and whether it is gzip."""
        match method:
            case "getBlock":
                return self._block(Slot(params[0]), params[1]["transactionDetails"])
            case "getSlot":
                lag = FINAL_LAG if params[0]["commitment"] == "finalized" else 0
                result: object = self._chain.head() - lag
            case "getBlocks":
                result = list(range(params[0], min(params[1], self._chain.head()) + 1))
            case "getFirstAvailableBlock":
                result = FIRST
            case "bench_confirmed":
                result = self._chain.sent_at_s
            case _:
                result = GENESIS
        return json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode(), False

    def _block(self, slot: Slot, details: str) -> tuple[bytes, bool]:
        if slot > self._chain.head():
            return b'{"jsonrpc":"2.0","id":1,"error":{"code":-32004,"message":"not yet"}}', False
        header = (
            f'{{"jsonrpc":"2.0","id":1,"result":{{"blockhash":"h{slot}","parentSlot":{slot - 1},'
            f'"previousBlockhash":"h{slot - 1}","blockTime":{self._chain.block_time(slot)}'
        )
        if details == "none":
            return f"{header}}}}}".encode(), False
        newcomer = self._chain.newcomer(slot)
        own = f'{header},"transactions":[{newcomer}{"," if newcomer else ""}'.encode()
        body = _deflated(own, zlib.Z_FULL_FLUSH) + self._packed + self._end
        crc = zlib.crc32(b"}}", zlib.crc32(self._text, zlib.crc32(own)))
        size = len(own) + len(self._text) + 2
        return GZIP_HEAD + body + crc.to_bytes(4, "little") + size.to_bytes(4, "little"), True


def _deflated(text: bytes, mode: int) -> bytes:
    packing = zlib.compressobj(1, wbits=-15)
    return packing.compress(text) + packing.flush(mode)


async def serve(port: int, stream_port: int, delay_s: float) -> None:
    chain = Chain()
    node = Node(chain)
    packed_block, _ = node.answer("getBlock", [FIRST, {"transactionDetails": "full"}])
    size = int.from_bytes(packed_block[-4:], "little")  # gzip ends with it (RFC 1952)
    print(
        f"a block: {len(chain.transactions)} transactions, {chain.swaps} swaps,"
        f" {size / 1e6:.1f} MB, {len(packed_block) / 1e6:.1f} MB packed"
    )

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
                asked = json.loads(await reader.readexactly(length))
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
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) / 1_000))
