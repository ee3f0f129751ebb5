"""Streams a simulated chain as a Yellowstone gRPC server does: blocks and statuses of slots."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc

from bench.mainnet.chain import FIRST, Chain, Entry
from mintscope.dex.token_accounts import SPL, SPL_2022
from mintscope.kit.primitives import Slot
from mintscope.solana.yellowstone import geyser_pb2
from mintscope_devchain.stream.protobuf import to_protobuf

Request = geyser_pb2.SubscribeRequest
Update = geyser_pb2.SubscribeUpdate
Context = grpc.aio.ServicerContext[Request, bytes]

# Parts of the protobuf wire format: the type of a field with a length, the continuation bit.
LENGTH_DELIMITED: Final = 2
MORE: Final = 0x80


class Stream:
    """The gRPC subscription of a simulated chain, whose blocks share transactions encoded once.

    Encoding them for each block would take half a core of the machine on which ingest is measured.
    """

    def __init__(self, chain: Chain, delay_s: float) -> None:
        self._chain = chain
        self._delay_s = delay_s
        self._calm, self._busy = Shared(chain.calm), Shared(chain.busy)

    async def subscribe(self, requests: AsyncIterator[Request], _: Context) -> AsyncIterator[bytes]:
        """Yield the blocks and statuses of all slots from the requested one, or the newest, on.

        Each is sent half of the node's network delay after it is due.
        """
        request = await anext(requests)
        (name,) = request.blocks
        slot = Slot(request.from_slot) if request.HasField("from_slot") else self._chain.head()
        final = slot
        while True:
            block_s = self._chain.wait_s(slot)
            final_s = self._chain.wait_s(final) + self._chain.finality_s
            await asyncio.sleep(max(0.0, min(block_s, final_s) + self._delay_s / 2))
            if final < slot and final_s < block_s:
                yield _status(final, geyser_pb2.SLOT_FINALIZED)
                final = Slot(final + 1)
                continue
            yield _status(slot, geyser_pb2.SLOT_CREATED_BANK)
            yield _update_of(name, self._block(slot))
            self._chain.note_sent(slot)
            yield _status(slot, geyser_pb2.SLOT_CONFIRMED)
            slot = Slot(slot + 1)

    def _block(self, slot: Slot) -> bytes:
        shared = self._busy if self._chain.is_busy(slot) else self._calm
        newcomer = self._chain.newcomer(slot)
        new = [_info(json.loads(newcomer), shared.count)] if newcomer else []
        block = geyser_pb2.SubscribeUpdateBlock(
            slot=slot,
            blockhash=f"h{slot}",
            parent_slot=slot - 1,
            parent_blockhash=f"h{slot - 1}",
            transactions=new,
            executed_transaction_count=len(self._chain.transactions(slot)) + len(new),
        )
        block.block_time.timestamp = self._chain.block_time(slot)
        block.block_height.block_height = slot - FIRST
        # A reader merges the two parts of a message into one message with the transactions of both.
        return shared.sent + block.SerializeToString()


class Shared:
    """The gRPC encoding of the transactions that all calm, or all busy, blocks share.

    count   the number of transactions that the subscription's filter lets through
    sent    these transactions, encoded
    """

    def __init__(self, transactions: Sequence[Entry]) -> None:
        infos = _infos(transactions)
        self.count = len(infos)
        self.sent = geyser_pb2.SubscribeUpdateBlock(transactions=infos).SerializeToString()


def _update_of(name: str, block: bytes) -> bytes:
    """Return the message of a gRPC stream that sends *block*, encoded, for the filter *name*."""
    field = Update.DESCRIPTOR.fields_by_name["block"].number
    return b"".join(
        (
            Update(filters=[name]).SerializeToString(),
            _varint(field << 3 | LENGTH_DELIMITED),
            _varint(len(block)),
            block,
        )
    )


def _varint(value: int) -> bytes:
    groups = bytearray()
    while value >= MORE:
        groups.append(value % MORE | MORE)
        value //= MORE
    return bytes((*groups, value))


def _infos(transactions: Sequence[Entry]) -> list[geyser_pb2.SubscribeUpdateTransactionInfo]:
    """Return the stream's messages for those of *transactions* that name a token program."""
    touching = (entry for entry in transactions if _touches(entry))
    return [_info(entry, at) for at, entry in enumerate(touching)]


def _info(entry: Entry, at: int) -> geyser_pb2.SubscribeUpdateTransactionInfo:
    info = to_protobuf(entry, at)
    info.meta.log_messages.extend(entry["meta"]["logMessages"])
    return info


def _touches(entry: Entry) -> bool:
    loaded = entry["meta"].get("loadedAddresses") or {"writable": [], "readonly": []}
    named = (entry["transaction"]["message"]["accountKeys"], loaded["writable"], loaded["readonly"])
    return any({SPL, SPL_2022} & set(addresses) for addresses in named)


def _status(slot: Slot, status: geyser_pb2.SlotStatus) -> bytes:
    update = Update(slot=geyser_pb2.SubscribeUpdateSlot(slot=slot, status=status))
    return update.SerializeToString()


@asynccontextmanager
async def stream(chain: Chain, port: int, delay_s: float) -> AsyncIterator[None]:
    """In the `with` block, serve *chain* as a gRPC stream on *port*."""
    server = grpc.aio.server(compression=grpc.Compression.Gzip)
    methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "Subscribe": grpc.stream_stream_rpc_method_handler(
            Stream(chain, delay_s).subscribe,
            request_deserializer=Request.FromString,
            response_serializer=None,  # the messages are already encoded
        )
    }
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("geyser.Geyser", methods),)
    )
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(0.5)
