"""Fuzz targets for input from nodes and files: blocks, transactions and RPC answers."""

from collections.abc import Coroutine
from typing import Any, Final

import httpx
import msgspec
from google.protobuf.message import DecodeError

from mintscope.dex.decode import decode_block
from mintscope.dex.programs import BY_ADDRESS
from mintscope.kit.clock import ManualClock, SystemClock
from mintscope.kit.primitives import Signature, Slot
from mintscope.payments.node import PaymentNode
from mintscope.payments.ports import ChainUnavailable
from mintscope.solana.blocks import Endpoint
from mintscope.solana.files import FileError, FileSource
from mintscope.solana.rpc import Commitment, Rpc, RpcFailure
from mintscope.solana.wire import JsonTransactions
from mintscope.solana.yellowstone import geyser_pb2
from mintscope.solana.yellowstone.assembler import Assembler
from mintscope.solana.yellowstone.block_buffer import BlockBuffer
from mintscope_devchain.chain import Devchain
from mintscope_devchain.stream.protobuf import to_protobuf
from prove.fuzz.inputs import changed_bytes, changed_json
from prove.fuzz.payments import PAYMENTS, TREASURY
from prove.fuzz.target import FOLDER, KEY, LOOP, NOW, Target

SLOT: Final = Slot(7)


def seeds() -> tuple[list[Any], dict[str, list[Any]]]:
    """Return three blocks of a devchain, as inputs to change, and some transactions.

    There are up to four transactions for each DEX program, by the name of the program.
    """
    chain = Devchain(seed=1, now=NOW, mints=8, history_days=0.02)
    blocks, by_program = list[Any](), dict[str, list[Any]]()
    for slot in chain.blockstore.slots:
        block = chain.blockstore.block(slot)
        assert block is not None
        entries = msgspec.to_builtins(list(chain.entries(block)))
        if len(blocks) < 3:
            blocks.append(
                {
                    "slot": slot,
                    "blockhash": KEY,
                    "parentSlot": slot - 1,
                    "previousBlockhash": KEY,
                    "blockTime": NOW // 1000,
                    "transactions": entries[:6],
                }
            )
        for entry in entries:
            for key in entry["transaction"]["message"]["accountKeys"]:
                if key in BY_ADDRESS and len(by_program.setdefault(BY_ADDRESS[key].name, [])) < 4:
                    by_program[BY_ADDRESS[key].name].append(entry)
    return blocks, by_program


BLOCKS, BY_PROGRAM = seeds()


def decode(text: bytes) -> None:
    """Decode a block with the transaction *text*, JSON; no content may raise an exception."""
    decode_block(JsonTransactions([msgspec.Raw(text)]))


def block_file(text: bytes) -> None:
    """Read *text* as a file of blocks, and decode their transactions."""
    path = FOLDER / "blocks.jsonl"
    path.write_bytes(text)

    async def read() -> None:
        async for update in FileSource([path]).updates(None):
            decode_block(getattr(update, "transactions", ()))

    LOOP.run_until_complete(read())


STATUS: Final = {"slot": 7, "confirmations": 3, "err": None, "confirmationStatus": "confirmed"}
CONTEXT: Final = {"slot": 7}
BALANCE: Final = {
    "accountIndex": 1,
    "mint": KEY,
    "owner": KEY,
    "uiTokenAmount": {"amount": "2500", "decimals": 6},
}
ANSWERS: Final = [
    {"jsonrpc": "2.0", "id": 1, "result": result}
    for result in (
        7,
        KEY,
        None,
        [7, 8],
        {"context": CONTEXT, "value": [STATUS]},
        {"context": CONTEXT, "value": {"err": None, "accounts": [{"data": ["AAAA", "base64"]}]}},
        {"context": CONTEXT, "value": {"data": ["AAAA", "base64"], "owner": KEY, "lamports": 9}},
        {"absoluteSlot": 7, "blockHeight": 7, "epoch": 1, "slotIndex": 7, "slotsInEpoch": 432_000},
        {
            "slot": 7,
            "meta": {"err": None, "preTokenBalances": [BALANCE], "postTokenBalances": [BALANCE]},
            "transaction": {"message": {"accountKeys": [KEY, KEY]}, "signatures": [KEY]},
        },
        [{"slot": 7, "numSlots": 300, "samplePeriodSecs": 60}],
        BLOCKS[0],
    )
]
ENDPOINT: Final = Endpoint(url="http://node.example", attempts_max=1)


def answering(body: bytes) -> httpx.MockTransport:
    """Return an httpx transport for a node that answers every request with *body*."""
    return httpx.MockTransport(lambda _: httpx.Response(200, content=body))


async def _silent(_: float) -> None:
    """Return at once, instead of sleeping."""


def rpc(body: bytes) -> None:
    """Send the requests of ingest to a node that answers *body*; they may raise only RpcFailure."""

    async def ask() -> None:
        node = Rpc(ENDPOINT, clock=SystemClock(), transport=answering(body), sleep=_silent)
        async with node:
            for question in (
                node.slot(Commitment.CONFIRMED),
                node.head(Commitment.FINALIZED),
                node.alpenglow(),
                node.genesis_hash(),
                node.block_time(SLOT),
                node.pace(),
                node.blocks(first=SLOT, last=SLOT, commitment=Commitment.CONFIRMED),
                node.header(SLOT, Commitment.CONFIRMED),
                node.block(SLOT, Commitment.CONFIRMED),
            ):
                await _asked(question, RpcFailure)

    LOOP.run_until_complete(ask())


NODE: Final[dict[str, PaymentNode]] = {}
BODY: Final = bytearray()


def payment_node(body: bytes) -> None:
    """Send all requests about payments to a node that answers with *body*.

    They may raise only ChainUnavailable.
    """
    if not NODE:
        transport = httpx.MockTransport(lambda _: httpx.Response(200, content=bytes(BODY)))
        NODE[""] = PaymentNode(ENDPOINT, transport)
    BODY[:] = body
    node = NODE[""]

    async def ask() -> None:
        for question in (
            node.simulate(PAYMENTS[0], TREASURY),
            node.send(PAYMENTS[0]),
            node.height("confirmed"),
            node.tip("confirmed"),
            node.statuses([Signature(KEY)], search=True),
            node.transaction(Signature(KEY)),
        ):
            await _asked(question, ChainUnavailable)

    LOOP.run_until_complete(ask())


async def _asked(question: Coroutine[Any, Any, object], refusal: type[Exception]) -> None:
    try:
        found = await question
    except refusal:
        return
    decode_block(getattr(found, "transactions", ()))


def streamed() -> list[bytes]:
    """Return Yellowstone messages to fuzz: a block, its parts one by one, and a slot status."""
    infos = [to_protobuf(entry, index) for index, entry in enumerate(BLOCKS[0]["transactions"][:2])]
    head: dict[str, Any] = {"slot": 7, "parent_slot": 6, "blockhash": KEY, "parent_blockhash": KEY}
    updates = [
        geyser_pb2.SubscribeUpdate(
            block=geyser_pb2.SubscribeUpdateBlock(**head, transactions=infos)
        ),
        geyser_pb2.SubscribeUpdate(block_meta=geyser_pb2.SubscribeUpdateBlockMeta(**head)),
        geyser_pb2.SubscribeUpdate(
            slot=geyser_pb2.SubscribeUpdateSlot(slot=7, status=geyser_pb2.SLOT_DEAD)
        ),
    ]
    for info in infos:
        part = geyser_pb2.SubscribeUpdateTransaction(slot=7, transaction=info)
        updates.append(geyser_pb2.SubscribeUpdate(transaction=part))
    return [update.SerializeToString() for update in updates]


def stream(message: bytes) -> None:
    """Process *message* of a gRPC stream after a valid one, and decode the complete blocks."""
    for is_joined in (False, True):
        buffer = BlockBuffer()
        assembler = Assembler(buffer, ManualClock(NOW), is_joined=is_joined)
        assembler.take(geyser_pb2.SubscribeUpdate.FromString(STREAMED[0]))
        update = geyser_pb2.SubscribeUpdate.FromString(message)
        assembler.take(update)
        for slot in {SLOT, Slot(update.block.slot)}:
            decode_block(getattr(buffer.block(slot), "transactions", ()))


STREAMED: Final = streamed()

TARGETS: Final = {
    "message of a stream": Target(changed_bytes(STREAMED), stream, (DecodeError,)),
    **{
        f"decoder: {name}": Target(changed_json(entries), decode)
        for name, entries in sorted(BY_PROGRAM.items())
    },
    "block file": Target(changed_json(BLOCKS), block_file, (FileError,)),
    "node, of ingest": Target(changed_json(ANSWERS), rpc),
    "node, of selling": Target(changed_json(ANSWERS), payment_node),
}
