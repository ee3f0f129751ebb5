"""A node with blocks of mainnet's size and mix, one every 267 ms: `mainnet_node PORT DELAY_MS`.

The transactions are made, and compressed, once; each block holds them with its own slot and hashes.
"""

import asyncio
import json
import sys
import time
import zlib
from typing import Any, Final

import uvloop

from bench.transactions import made
from mintscope.base.clock import SystemClock

SLOT_S: Final = 0.267
FIRST: Final = 400_000_000
FINAL_LAG: Final = 32
HISTORY: Final = 50
GZIP_HEAD: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
GENESIS: Final = "BenchMainnet1111111111111111111111111111111"


def deflated(text: bytes, mode: int) -> bytes:
    packing = zlib.compressobj(1, wbits=-15)
    return packing.compress(text) + packing.flush(mode)


class Node:
    """Its chain is a function of the time."""

    def __init__(self) -> None:
        self._text = made().block[1:]  # without the brace that opens it
        self._packed = deflated(self._text, zlib.Z_FULL_FLUSH)
        self._end = deflated(b"}", zlib.Z_FINISH)
        self._start_s = time.monotonic()

    def head(self) -> int:
        return FIRST + HISTORY + int((time.monotonic() - self._start_s) / SLOT_S)

    def answer(self, method: str, params: list[Any]) -> tuple[bytes, bool]:
        """Return the body, and whether it is gzip."""
        match method:
            case "getBlock":
                return self._block(params[0], params[1]["transactionDetails"])
            case "getSlot":
                lag = FINAL_LAG if params[0]["commitment"] == "finalized" else 0
                result: object = self.head() - lag
            case "getBlocks":
                result = list(range(params[0], min(params[1], self.head()) + 1))
            case "getFirstAvailableBlock":
                result = FIRST
            case _:
                result = GENESIS
        return json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode(), False

    def _block(self, slot: int, details: str) -> tuple[bytes, bool]:
        if slot > self.head():
            return b'{"jsonrpc":"2.0","id":1,"error":{"code":-32004,"message":"not yet"}}', False
        header = (
            f'{{"jsonrpc":"2.0","id":1,"result":{{"blockhash":"h{slot}","parentSlot":{slot - 1},'
            f'"previousBlockhash":"h{slot - 1}","blockTime":{SystemClock().now() // 1_000}'
        ).encode()
        if details == "none":
            return header + b"}}", False
        header += b","
        body = deflated(header, zlib.Z_FULL_FLUSH) + self._packed + self._end
        crc = zlib.crc32(b"}", zlib.crc32(self._text, zlib.crc32(header)))
        size = len(header) + len(self._text) + 1
        return GZIP_HEAD + body + crc.to_bytes(4, "little") + size.to_bytes(4, "little"), True


async def serve(port: int, delay_s: float) -> None:
    node = Node()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
                asked = json.loads(await reader.readexactly(length))
                await asyncio.sleep(delay_s)
                body, is_packed = node.answer(asked["method"], asked["params"])
                packed = "Content-Encoding: gzip\r\n" if is_packed else ""
                lines = f"HTTP/1.1 200 OK\r\n{packed}Content-Length: {len(body)}\r\n\r\n"
                writer.write(lines.encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), int(sys.argv[2]) / 1_000))
