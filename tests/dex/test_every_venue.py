"""A block with every venue's layout: what the builder moved is what is read, with each pool."""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final

import msgspec
import pytest
from typer.testing import CliRunner

from mintscope.app.cli.chain import app
from mintscope.dex.decode import decode_block
from mintscope.dex.outcome import Swap
from mintscope.dex.programs import TABLE
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Slot, UnixMs
from mintscope.solana.yellowstone import geyser_pb2
from mintscope.solana.yellowstone.assembler import Assembler
from mintscope.solana.yellowstone.block_buffer import BlockBuffer
from mintscope_devchain.stream.protobuf import to_protobuf
from support.scenes.json_transactions import decode_block as decode_json
from support.scenes.made_transactions import address
from support.scenes.venue_block import DRESSES, ROUTED, Built, Expected, block, built
from support.scenes.venue_layouts import LAYOUTS, ROUTERS, Layout

SLOT: Final = 100
DYING, LIVING = 7, 9
Message = geyser_pb2.SubscribeUpdate


@cache
def whole() -> list[Built]:
    return built(LAYOUTS)


# A fill of Manifest's batches moves no token: `test_manifest.py` builds its log.
ELSEWHERE = {("manifest", b"\x06")}


def expect_all(read: Sequence[Expected]) -> None:
    """Expect the swaps of the whole block in its order; name first the programs that fail."""
    expected = [swap for each in whole() for swap in each.swaps]
    assert {swap.program for swap in set(expected) ^ set(read)} == set()
    assert read == expected


def seen(swap: Swap) -> Expected:
    return Expected(
        swap.signature,
        swap.program,
        str(swap.pool),
        swap.in_mint,
        swap.in_amount,
        swap.out_mint,
        swap.out_amount,
    )


def test_every_swap_of_the_block_is_printed_with_its_pool(tmp_path: Path) -> None:
    """Plain, below a router, in batches of both token programs, hooked, eight calls deep."""
    path = tmp_path / "block.json"
    path.write_text(json.dumps(block(whole())))
    result = CliRunner().invoke(app, ["decode", str(path)])
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    amounts = [{at: int(row[at]) for at in ("in_amount", "out_amount")} for row in rows]

    assert result.exit_code == 0
    assert {json.loads(line)["program"] for line in result.stderr.splitlines()} == set()
    expect_all(
        [
            Expected(**{field: row[field] for field in Expected._fields} | amount)
            for row, amount in zip(rows, amounts, strict=True)
        ]
    )


def bank(transactions: Sequence[Built], bank_id: int) -> Iterator[Message]:
    """Yield the messages of a stream about *transactions* as a bank of `SLOT`, but for its end."""
    for index, each in enumerate(transactions):
        yield Message(
            transaction=geyser_pb2.SubscribeUpdateTransaction(
                slot=SLOT, transaction=to_protobuf(each.entry, index), bank_id=bank_id
            )
        )
    yield Message(
        block_meta=geyser_pb2.SubscribeUpdateBlockMeta(
            slot=SLOT, parent_slot=SLOT - 1, blockhash=str(bank_id), bank_id=bank_id
        )
    )


def status(said: geyser_pb2.SlotStatus, bank_id: int) -> Message:
    return Message(slot=geyser_pb2.SubscribeUpdateSlot(slot=SLOT, status=said, bank_id=bank_id))


@pytest.mark.parametrize("dies_at", [0, 500, 2_000])
def test_of_two_interleaved_banks_the_confirmed_one_is_read(dies_at: int) -> None:
    """The other has the same venues with other amounts, and dies."""
    buffer = BlockBuffer()
    assembler = Assembler(buffer, ManualClock(UnixMs(0)), is_joined=True)
    before = geyser_pb2.SubscribeUpdateTransaction(slot=SLOT - 1, bank_id=1)
    after = geyser_pb2.SubscribeUpdateTransaction(slot=SLOT + 1, bank_id=11)
    both = zip(bank(built(LAYOUTS, mark="other"), DYING), bank(whole(), LIVING), strict=True)
    messages = [*chain.from_iterable(both)]
    messages.insert(dies_at, status(geyser_pb2.SLOT_DEAD, DYING))
    messages.append(status(geyser_pb2.SLOT_CONFIRMED, LIVING))
    for message in [Message(transaction=before), *messages, Message(transaction=after)]:
        assembler.take(message)

    held = buffer.block(Slot(SLOT))
    assert held is not None
    assert held.blockhash == str(LIVING)
    decoded = decode_block(held.transactions)
    assert decoded.quarantined == []
    expect_all([*map(seen, decoded.swaps)])


UNLISTED: Final = Layout(address("an unlisted venue"), address("an unlisted venue"))


@pytest.mark.parametrize("router", ROUTERS)
def test_a_swap_below_a_router_is_found_once(router: str) -> None:
    """Whether the router is listed or not, and the venue; also through the router's accounts."""
    transactions = built([*LAYOUTS, UNLISTED], dresses=ROUTED, router=router)
    raws = [msgspec.Raw(msgspec.json.encode(each.entry)) for each in transactions]
    decoded = decode_json(raws)

    assert decoded.quarantined == []
    assert [*map(seen, decoded.swaps)] == [swap for each in transactions for swap in each.swaps]


def test_every_row_of_the_table_has_a_built_transaction() -> None:
    """A row that is added needs a layout of its own, written from a public description."""
    made = {(each.layout.name, each.layout.address, each.head) for each in whole()}
    programs = {(name, address) for name, address, _ in made}
    listed = [program for program in TABLE if program.read is not None]
    missing = [
        f"{program.name} {head.hex()}"
        for program in listed
        for head in program.swaps
        if (program.name, program.address, head) not in made
        and (program.name, head) not in ELSEWHERE
        and (head or (program.name, program.address) not in programs)
    ]

    assert missing == []
    assert programs - {(program.name, program.address) for program in listed} == set()


def test_the_block_has_what_it_promises() -> None:
    """Its calls go as deep as the chain allows, and each layout wears each dress."""
    heights = [
        inner["stackHeight"]
        for each in whole()
        for group in each.entry["meta"]["innerInstructions"]
        for inner in group["instructions"]
    ]
    signatures = {swap.signature for each in whole() for swap in each.swaps}

    assert max(heights) == 9
    assert len(signatures) == len(whole())
    assert len(whole()) == len(DRESSES) * sum(len([*each.instructions()]) for each in LAYOUTS)
