"""Serves a devchain as a Yellowstone gRPC server does, with the faults that are set."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, Final, NoReturn, Protocol

import grpc

from mintscope.kit.primitives import Slot
from mintscope.solana.yellowstone import geyser_pb2
from mintscope_devchain.blockstore import Blockstore, ChainBlock
from mintscope_devchain.faults import Faults, StreamFault
from mintscope_devchain.stream.protobuf import key_bytes, to_protobuf
from mintscope_devchain.transaction import Json

VERSION: Final = '{"version":{"package":"mintscope-devchain","proto":"9.1.0"}}'
REPLAY_SLOTS_MAX: Final = 500
AGAIN_BLOCKS: Final = 3
BANKS_PER_SLOT: Final = 3
PAUSE_S: Final = 0.02
PING_S: Final = 5.0
STOP_S: Final = 0.5

Request = geyser_pb2.SubscribeRequest
Update = geyser_pb2.SubscribeUpdate
Info = geyser_pb2.SubscribeUpdateTransactionInfo
Context = grpc.aio.ServicerContext[Request, Update]


class StreamedChain(Protocol):
    """The devchain whose blocks a gRPC server streams."""

    blockstore: Blockstore

    def entries(self, block: ChainBlock) -> Sequence[Json]:
        """Return the transactions of *block* as the RPC method getBlock returns them."""
        ...


class GeyserServer:
    """A gRPC server that streams *chain* in the protocol of Yellowstone.

    addresses_max   the most addresses in a filter of blocks; providers have such a limit
    x_token         the token that clients must send; "": they send none
    names_banks     whether messages have a bank_id, as servers send it since October 2026
    """

    def __init__(
        self,
        chain: StreamedChain,
        faults: Faults,
        *,
        addresses_max: int = 100,
        x_token: str = "",
        names_banks: bool = True,
    ) -> None:
        self._chain = chain
        self._blockstore = chain.blockstore
        self._faults = faults
        self._addresses_max = addresses_max
        self._x_token = x_token
        self._names_banks = names_banks
        self._server = grpc.aio.server(compression=grpc.Compression.Gzip)
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Subscribe": grpc.stream_stream_rpc_method_handler(
                self._subscribe,
                request_deserializer=Request.FromString,
                response_serializer=Update.SerializeToString,
            ),
            "GetVersion": grpc.unary_unary_rpc_method_handler(
                self._version,
                request_deserializer=geyser_pb2.GetVersionRequest.FromString,
                response_serializer=geyser_pb2.GetVersionResponse.SerializeToString,
            ),
        }
        handler = grpc.method_handlers_generic_handler("geyser.Geyser", methods)
        self._server.add_generic_rpc_handlers((handler,))
        self.port = 0

    async def start(self, address: str) -> None:
        """Listen on *address*, `host:port`; port 0 means any free port."""
        self.port = self._server.add_insecure_port(address)
        await self._server.start()

    async def stop(self) -> None:
        """End all subscriptions, and stop the server."""
        await self._server.stop(STOP_S)

    async def _version(
        self, _: geyser_pb2.GetVersionRequest, context: Context
    ) -> geyser_pb2.GetVersionResponse:
        await self._expect_token(context)
        return geyser_pb2.GetVersionResponse(version=VERSION)

    async def _expect_token(self, context: Context) -> None:
        shown = dict(context.invocation_metadata() or ()).get("x-token", "")
        if shown != self._x_token:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "x-token is not known")

    async def _subscribe(
        self, requests: AsyncIterator[Request], context: Context
    ) -> AsyncIterator[Update]:
        await self._expect_token(context)
        request = await anext(requests)
        cursor = await self._begin(request, context)
        final = Slot(-1)
        ping_due_s = 0.0
        loop = asyncio.get_running_loop()
        while True:
            for slot in list(self._blockstore.between(cursor + 1, self._confirmed)):
                block = self._blockstore.block(slot)
                if block is not None:
                    async for update in self._spoilt(block, request, context):
                        yield update
                cursor = slot
            if self._blockstore.reached("finalized") > final:
                final = self._blockstore.reached("finalized")
                yield self._status(final, geyser_pb2.SLOT_FINALIZED, bank_of(final, 0))
            if loop.time() > ping_due_s:
                ping_due_s = loop.time() + PING_S
                yield Update(ping=geyser_pb2.SubscribeUpdatePing())
            await asyncio.sleep(PAUSE_S)

    @property
    def _confirmed(self) -> Slot:
        return self._blockstore.reached("confirmed")

    async def _begin(self, request: Request, context: Context) -> Slot:
        """Return the slot after which a gRPC subscription begins; abort an impossible one."""
        if self._faults.streaming("internal"):
            await _abort(context, grpc.StatusCode.INTERNAL, "the plugin has not started")
        named = max((len(each.account_include) for each in request.blocks.values()), default=0)
        if named > self._addresses_max:
            said = f"Max amount of filters/data reached: {self._addresses_max}"
            await _abort(context, grpc.StatusCode.INVALID_ARGUMENT, said)
        if not request.HasField("from_slot"):
            return self._confirmed
        is_old = request.from_slot < self._confirmed - REPLAY_SLOTS_MAX
        if is_old or self._faults.streaming("out_of_range"):
            said = f"from_slot {request.from_slot} is not available"
            await _abort(context, grpc.StatusCode.OUT_OF_RANGE, said)
        if self._faults.streaming("head"):
            return self._confirmed
        return Slot(request.from_slot - 1)

    async def _spoilt(
        self, block: ChainBlock, request: Request, context: Context
    ) -> AsyncIterator[Update]:
        fault = self._faults.streaming(
            "cut", "lagged", "silent", "duplicates", "dead", "banks", "both_dead", "unnamed"
        )
        messages = list(self._messages(block, request))
        if fault in {"cut", "dead"}:
            for message in messages[: len(messages) // 2]:
                yield message
        await _end(fault, context)
        if fault == "dead":
            yield self._status(block.slot, geyser_pb2.SLOT_DEAD, bank_id=None)
        if fault == "duplicates":
            for slot in list(self._blockstore.between(0, block.slot))[-AGAIN_BLOCKS:]:
                again = self._blockstore.block(slot)
                messages += [] if again is None else self._messages(again, request)
        for message in self._with_banks(fault, block, request, messages):
            yield message

    def _with_banks(
        self,
        fault: StreamFault | None,
        block: ChainBlock,
        request: Request,
        messages: Sequence[Update],
    ) -> Iterator[Update]:
        """Yield *messages* of a slot, as a fault of its banks changes them.

        The fault is, for example, a second bank that dies.
        """
        match fault:
            case "banks":
                yield from interleaved(self._dying(block, request, block.slot, 1), messages)
            case "both_dead":
                is_after_skipped = block.parent_slot < block.slot - 1
                slot = Slot(block.slot - 1) if is_after_skipped else block.slot
                first, second = (self._dying(block, request, slot, bank) for bank in (1, 2))
                yield from interleaved(first, second)
                yield from messages
            case "unnamed":
                for number, message in enumerate(messages):
                    if number % 2 == 0:
                        unname(message)
                    yield message
            case _:
                yield from messages

    def _dying(
        self, block: ChainBlock, request: Request, slot: Slot, bank: int
    ) -> Iterator[Update]:
        """Yield the messages of a bank of *slot* that dies, the last of which says so.

        Its blockhash differs from that of *block*.  The bank is never sent as a complete block,
        because servers do this only with confirmed banks.
        """
        other = block._replace(slot=slot, blockhash=f"{bank}{block.blockhash[1:]}")
        bank_id = bank_of(slot, bank)
        for message in [*self._messages(other, request, bank)][:-1]:
            kind = message.WhichOneof("update_oneof")
            if kind == "transaction":
                part = message.transaction.transaction
                # Not the transactions of the block, so that a mix of both banks is noticed.
                part.index += 1
                part.signature = part.signature[::-1]
            if kind != "block":
                yield message
        yield self._status(slot, geyser_pb2.SLOT_DEAD, bank_id)

    def _status(self, slot: Slot, status: geyser_pb2.SlotStatus, bank_id: int | None) -> Update:
        named = bank_id if self._names_banks else None
        return Update(slot=geyser_pb2.SubscribeUpdateSlot(slot=slot, status=status, bank_id=named))

    def _messages(self, block: ChainBlock, request: Request, bank: int = 0) -> Iterator[Update]:
        """Yield the messages for *request* about *block*, between the first and last slot statuses.

        bank   the number of the bank that executed the block
        """
        infos = [to_protobuf(entry, at) for at, entry in enumerate(self._chain.entries(block))]
        bank_id = bank_of(block.slot, bank)
        named = bank_id if self._names_banks else 0
        yield self._status(block.slot, geyser_pb2.SLOT_CREATED_BANK, bank_id)
        for name, wanted in request.transactions.items():
            for info in infos:
                is_wanted = wanted.failed or not info.meta.HasField("err")
                if is_wanted and _touches(info, wanted.account_include):
                    one = geyser_pb2.SubscribeUpdateTransaction(
                        slot=block.slot, transaction=info, bank_id=named
                    )
                    yield Update(filters=[name], transaction=one)
        for name, asked in request.blocks.items():
            whole = geyser_pb2.SubscribeUpdateBlock(
                slot=block.slot,
                blockhash=block.blockhash,
                parent_slot=block.parent_slot,
                parent_blockhash=block.parent_blockhash,
                transactions=[info for info in infos if _touches(info, asked.account_include)],
                executed_transaction_count=len(infos),
            )
            whole.block_time.timestamp = block.time
            whole.block_height.block_height = block.height
            yield Update(filters=[name], block=whole)
        for name in request.blocks_meta:
            meta = geyser_pb2.SubscribeUpdateBlockMeta(
                slot=block.slot,
                blockhash=block.blockhash,
                parent_slot=block.parent_slot,
                parent_blockhash=block.parent_blockhash,
                executed_transaction_count=len(infos),
                bank_id=named,
            )
            meta.block_time.timestamp = block.time
            meta.block_height.block_height = block.height
            yield Update(filters=[name], block_meta=meta)
        yield self._status(block.slot, geyser_pb2.SLOT_CONFIRMED, bank_id)


def bank_of(slot: int, bank: int) -> int:
    """Return the id of a bank of *slot*.

    bank   0: the bank that is confirmed; 1 or 2: other banks
    """
    return BANKS_PER_SLOT * slot + bank + 1


def interleaved(one: Iterable[Update], other: Iterable[Update]) -> Iterator[Update]:
    """Yield the messages of *one* and *other* in turn, then the rest of the longer one."""
    for pair in zip_longest(one, other):
        yield from (message for message in pair if message is not None)


def unname(message: Update) -> None:
    """Remove the id of the bank from *message*, a message of a gRPC stream."""
    kind = message.WhichOneof("update_oneof")
    if kind in {"transaction", "block_meta", "slot"}:
        getattr(message, kind).ClearField("bank_id")


def _touches(info: Info, addresses: Sequence[str]) -> bool:
    """Return whether *info* names one of *addresses*; if *addresses* is empty, all match."""
    if not addresses:
        return True
    keys = {
        *info.transaction.message.account_keys,
        *info.meta.loaded_writable_addresses,
        *info.meta.loaded_readonly_addresses,
    }
    return any(key_bytes(address) in keys for address in addresses)


async def _end(fault: StreamFault | None, context: Context) -> None:
    """Abort the subscription if *fault* is "cut" or "lagged"; if it is "silent", never return."""
    if fault == "cut":
        await _abort(context, grpc.StatusCode.UNAVAILABLE, "connection reset")
    if fault == "lagged":
        await _abort(context, grpc.StatusCode.INTERNAL, "lagged to receive geyser messages")
    if fault == "silent":
        await asyncio.Event().wait()


async def _abort(context: Context, code: grpc.StatusCode, said: str) -> NoReturn:
    await context.abort(code, said)
    raise AssertionError("abort raises")
