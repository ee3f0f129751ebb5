"""Several banks of one slot: the confirmed bank becomes the block, in any order of messages."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Final

import msgspec
import pytest

from mintscope.dex.decode import decode_block
from mintscope.dex.outcome import Swap
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Slot, UnixMs
from mintscope.solana.blocks import Block
from mintscope.solana.wire import JsonTransactions
from mintscope.solana.yellowstone import assembler, geyser_pb2
from mintscope.solana.yellowstone.assembler import Assembler
from mintscope.solana.yellowstone.block_buffer import BlockBuffer
from mintscope.solana.yellowstone.transactions import ProtobufTransactions
from mintscope_devchain.blockstore import ChainBlock
from mintscope_devchain.chain import Devchain
from mintscope_devchain.stream.protobuf import to_protobuf
from support.oracles.devchain_blocks import NOW

ORDERS: Final = 200
SLOTS: Final = 14
Update = geyser_pb2.SubscribeUpdate
CONFIRMED, DEAD = geyser_pb2.SLOT_CONFIRMED, geyser_pb2.SLOT_DEAD
CREATED = geyser_pb2.SLOT_CREATED_BANK


def part(slot: int, index: int, bank: int = 0, mark: bytes = b"s") -> Update:
    info = geyser_pb2.SubscribeUpdateTransactionInfo(index=index, signature=mark * 64)
    one = geyser_pb2.SubscribeUpdateTransaction(slot=slot, transaction=info, bank_id=bank)
    return Update(transaction=one)


def meta(
    slot: int, bank: int = 0, fork: str = "", parent_fork: str = "", parent: int | None = None
) -> Update:
    parent = slot - 1 if parent is None else parent
    return Update(
        block_meta=geyser_pb2.SubscribeUpdateBlockMeta(
            slot=slot,
            parent_slot=parent,
            blockhash=f"{slot}{fork}",
            parent_blockhash=f"{parent}{parent_fork}",
            bank_id=bank,
        )
    )


def status(slot: int, said: geyser_pb2.SlotStatus, bank: int | None = None) -> Update:
    return Update(slot=geyser_pb2.SubscribeUpdateSlot(slot=slot, status=said, bank_id=bank))


def buffer_after(*updates: Update) -> BlockBuffer:
    """Return the buffer that has taken *updates* of a stream, which was joined during slot 9."""
    buffer = BlockBuffer()
    joined = Assembler(buffer, ManualClock(UnixMs(NOW)), is_joined=True)
    for update in (part(9, 0), *updates):
        joined.take(update)
    return buffer


def reported(buffer: BlockBuffer, slot: int) -> tuple[str, list[str]] | None:
    """Return the hash of the block at *slot*, and the first character of each signature.

    Returns None if the buffer has no such block.
    """
    block = buffer.block(Slot(slot))
    if block is None:
        return None
    entries: Iterable[geyser_pb2.SubscribeUpdateTransactionInfo] = block.transactions.entries  # type: ignore[attr-defined]
    return block.blockhash, [entry.signature[:1].decode() for entry in entries]


def two_banks() -> list[Update]:
    """Return interleaved messages of the banks 1 ("a") and 2 ("b") of slot 10."""
    return [
        part(10, 0, 1, b"a"),
        part(10, 0, 2, b"b"),
        part(10, 1, 1, b"a"),
        part(10, 1, 2, b"b"),
        part(10, 2, 1, b"a"),
        meta(10, 1, "a"),
        meta(10, 2, "b"),
    ]


def test_the_second_bank_becomes_the_block_if_the_first_is_dead() -> None:
    buffer = buffer_after(
        *two_banks(), status(10, DEAD, 1), status(10, CONFIRMED, 2), part(11, 0, 3)
    )

    assert reported(buffer, 10) == ("10b", ["b", "b"])


@pytest.mark.parametrize(("bank", "left"), [(1, ("10a", ["a"] * 3)), (2, ("10b", ["b"] * 2))])
def test_the_bank_that_a_status_confirms_becomes_the_block(
    bank: int, left: tuple[str, list[str]]
) -> None:
    buffer = buffer_after(*two_banks(), part(11, 0, 3), status(10, CONFIRMED, bank))

    assert reported(buffer, 10) == left


@pytest.mark.parametrize(("fork", "left"), [("a", ("10a", ["a"] * 3)), ("b", ("10b", ["b"] * 2))])
@pytest.mark.parametrize("is_late", [False, True])
def test_the_parent_hash_of_the_next_block_selects_the_bank_without_a_status(
    fork: str, left: tuple[str, list[str]], *, is_late: bool
) -> None:
    child = [part(11, 0, 3), meta(11, 3, parent_fork=fork), part(12, 0, 4)]
    slot = two_banks()
    ordered = [*slot[:-2], *child, *slot[-2:]] if is_late else [*slot, *child]

    assert reported(buffer_after(*ordered), 10) == left


def test_no_bank_becomes_the_block_while_none_is_confirmed() -> None:
    buffer = buffer_after(*two_banks(), part(11, 0, 3), part(12, 0, 4))

    assert reported(buffer, 10) is None


@pytest.mark.parametrize("bank", [None, 2])
def test_a_slot_whose_banks_all_die_has_no_block(bank: int | None) -> None:
    buffer = buffer_after(
        *two_banks(),
        status(10, DEAD, None if bank is None else 1),
        status(10, DEAD, bank),
        part(11, 0, 3),
        meta(11, 3, parent=9),
        part(12, 0, 4),
    )

    assert reported(buffer, 10) is None
    assert reported(buffer, 11) is not None
    assert buffer.passes_over(Slot(10))


def test_later_transactions_of_a_dead_bank_are_ignored() -> None:
    buffer = buffer_after(
        status(10, DEAD, 1), *two_banks(), part(10, 3, 1, b"a"), meta(11, 3, parent_fork="b")
    )

    assert reported(buffer, 10) == ("10b", ["b", "b"])


def test_a_block_is_withdrawn_if_another_bank_is_confirmed() -> None:
    buffer = buffer_after(part(10, 0, 1, b"a"), meta(10, 1, "a"), part(11, 0, 3))
    assert reported(buffer, 10) == ("10a", ["a"])

    joined = Assembler(buffer, ManualClock(UnixMs(NOW)), is_joined=True)
    for update in (part(9, 0), part(10, 0, 1, b"a"), meta(10, 1, "a"), part(11, 0, 3)):
        joined.take(update)
    joined.take(status(10, CONFIRMED, 2))

    assert reported(buffer, 10) is None


def test_a_block_is_withdrawn_unless_the_dead_bank_is_another() -> None:
    alone = (part(10, 0, 1, b"a"), meta(10, 1, "a"), part(11, 0, 3))

    assert reported(buffer_after(*alone, status(10, DEAD, 2)), 10) == ("10a", ["a"])
    assert reported(buffer_after(*alone, status(10, DEAD, 1)), 10) is None
    assert reported(buffer_after(*alone, status(10, DEAD)), 10) is None


def test_a_message_without_a_bank_counts_for_the_only_bank() -> None:
    buffer = buffer_after(
        part(10, 0, 1, b"a"), part(10, 1, 0, b"x"), meta(10, 0, "a"), part(11, 0, 3)
    )

    assert reported(buffer, 10) == ("10a", ["a", "x"])


@pytest.mark.parametrize("said", [(DEAD, 1), (CONFIRMED, 2)])
def test_a_slot_of_two_banks_has_no_block_if_a_transaction_names_no_bank(
    said: tuple[geyser_pb2.SlotStatus, int],
) -> None:
    buffer = buffer_after(*two_banks(), part(10, 2, 0, b"x"), status(10, *said), part(11, 0, 3))

    assert reported(buffer, 10) is None


def test_a_bank_with_a_dropped_transaction_never_becomes_a_block() -> None:
    buffer = buffer_after(
        part(10, 0, 1, b"a"),
        status(10, CONFIRMED, 2),
        part(10, 1, 1, b"a"),
        status(10, CONFIRMED, 1),
        part(10, 2, 1, b"a"),
        meta(10, 1, "a"),
        part(11, 0, 3),
    )

    assert reported(buffer, 10) is None


def test_two_unnamed_banks_of_a_slot_make_no_block() -> None:
    buffer = buffer_after(
        part(10, 0, 0, b"a"), part(10, 1, 0, b"a"), part(10, 1, 0, b"b"), meta(10), part(11, 0)
    )

    assert reported(buffer, 10) is None


def test_a_slot_with_199_banks_has_no_block() -> None:
    buffer = buffer_after(
        *(part(10, 0, bank, b"a") for bank in range(1, 200)),
        status(10, CONFIRMED, 3),
        meta(10, 3),
        part(11, 0, 300),
    )

    assert reported(buffer, 10) is None


@pytest.mark.parametrize(("name", "most"), [("PARTIAL_SLOTS_MAX", 4), ("PARTIAL_BYTES_MAX", 2_000)])
def test_unconfirmed_banks_stay_within_their_memory_limits(
    monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    monkeypatch.setattr(assembler, name, most)
    joined = Assembler(BlockBuffer(), ManualClock(UnixMs(NOW)), is_joined=True)
    joined.take(part(9, 0))
    for slot in range(10, 500):
        for bank in range(1, 4):
            joined.take(status(slot, CREATED, bank))
            joined.take(part(slot, bank, 10 * slot + bank))
            joined.take(part(slot, 9, 10 * slot + bank))

    held = [banks for banks in joined._slots.values() if not banks.is_empty]  # noqa: SLF001
    assert len(held) <= assembler.PARTIAL_SLOTS_MAX
    assert 0 < joined._room.taken <= assembler.PARTIAL_BYTES_MAX  # noqa: SLF001


def test_slots_without_transactions_stay_within_their_limits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(assembler, "NAMED_SLOTS_MAX", 10)
    monkeypatch.setattr(assembler, "GIVEN_MAX", 10)
    joined = Assembler(BlockBuffer(), ManualClock(UnixMs(NOW)), is_joined=True)
    for slot in range(500):
        joined.take(status(slot, CREATED, 2 * slot + 1))
        joined.take(status(slot, CONFIRMED, 2 * slot + 1))

    assert len(joined._slots) <= 10  # noqa: SLF001
    assert len(joined._given) <= 10  # noqa: SLF001


@dataclass(frozen=True)
class Calm:
    """A chain as JSON-RPC returns it: the blocks, and the transactions and swaps of each."""

    blocks: Sequence[ChainBlock]
    infos: Mapping[Slot, Sequence[geyser_pb2.SubscribeUpdateTransactionInfo]]
    swaps: Mapping[Slot, Sequence[Swap]]


@cache
def calm() -> Calm:
    chain = Devchain(seed=5, now=UnixMs(NOW), mints=8, history_days=0)
    for _ in range(SLOTS):
        chain.tick()
    blocks = [chain.blockstore.block(slot) for slot in chain.blockstore.slots][-SLOTS:]
    kept = [block for block in blocks if block is not None]
    infos = {
        block.slot: [to_protobuf(entry, at) for at, entry in enumerate(chain.entries(block))]
        for block in kept
    }
    swaps = {}
    for block in kept:
        entries = [msgspec.Raw(msgspec.json.encode(each)) for each in chain.entries(block)]
        swaps[block.slot] = decode_block(JsonTransactions(entries)).swaps
    return Calm(kept, infos, swaps)


def swaps_of(block: Block) -> Sequence[Swap]:
    assert isinstance(block.transactions, ProtobufTransactions)
    return decoded(tuple(entry.SerializeToString() for entry in block.transactions.entries))


@cache  # hundreds of orders end with the same blocks
def decoded(entries: tuple[bytes, ...]) -> Sequence[Swap]:
    infos = [geyser_pb2.SubscribeUpdateTransactionInfo.FromString(entry) for entry in entries]
    return decode_block(ProtobufTransactions(infos)).swaps


def bank_messages(
    block: ChainBlock,
    infos: Sequence[geyser_pb2.SubscribeUpdateTransactionInfo],
    bank: int,
    slot: int | None = None,
    blockhash: str | None = None,
) -> list[Update]:
    slot = int(block.slot) if slot is None else slot
    head = geyser_pb2.SubscribeUpdateBlockMeta(
        slot=slot,
        parent_slot=block.parent_slot,
        blockhash=blockhash or block.blockhash,
        parent_blockhash=block.parent_blockhash,
        bank_id=bank,
    )
    head.block_time.timestamp = block.time
    return [
        status(slot, CREATED, bank),
        *(
            Update(
                transaction=geyser_pb2.SubscribeUpdateTransaction(
                    slot=slot, transaction=info, bank_id=bank
                )
            )
            for info in infos
        ),
        Update(block_meta=head),
    ]


def loser(random: Random, block: ChainBlock, bank: int, slot: int | None = None) -> list[Update]:
    """Return the messages of a bank that is never confirmed.

    The bank has some transactions of *block* at random indexes, and perhaps a block meta.
    """
    others = calm().infos[block.slot]
    infos = random.sample(others, random.randint(0, len(others)))
    indexes = random.sample(range(len(others) + 3), len(infos))
    for at, info in enumerate(infos):
        infos[at] = type(info)()
        infos[at].CopyFrom(info)
        infos[at].index = indexes[at]
    reported = bank_messages(block, infos, bank, slot, f"{bank}{block.blockhash}")
    return reported if random.random() < 0.5 else reported[:-1]


def order_of(random: Random) -> tuple[list[Update], set[int]]:
    """Return the messages of a session in random order, and the slots whose banks all died."""
    ordered: list[Update] = []
    late: list[Update] = []
    died: set[int] = set()
    for number, block in enumerate(calm().blocks):
        slot, base = int(block.slot), 10 * (number + 1)
        reported = bank_messages(block, calm().infos[block.slot], base)
        for bank in range(base + 1, base + 1 + random.choice([0, 0, 1, 2])):
            reported += loser(random, block, bank)
            if random.random() < 0.5:
                reported.append(status(slot, DEAD, bank))
        if block.parent_slot < slot - 1 and random.random() < 0.7:
            died.add(slot - 1)
            for bank in (base + 7, base + 8):
                reported += [*loser(random, block, bank, slot - 1), status(slot - 1, DEAD, bank)]
        confirmed = status(slot, CONFIRMED, base)
        match random.choice(["now", "late", "never"]):
            case "now":
                reported.append(confirmed)
            case "late":
                late.append(confirmed)
            case _:
                pass
        reported += random.sample(
            reported, random.randint(0, len(reported) // 4)
        )  # some messages twice
        random.shuffle(reported)
        ordered += reported
        while late and random.random() < 0.4:
            ordered.append(late.pop(0))
    return [*ordered, *late, status(int(calm().blocks[-1].slot), CONFIRMED, 10 * SLOTS)], died


def test_any_order_of_messages_yields_the_blocks_of_the_chain() -> None:
    """Unconfirmed banks have no effect; of all blocks, only the first is not in the buffer."""
    for seed in range(ORDERS):
        expect_calm_blocks(seed)
    assert any(calm().swaps.values())


def expect_calm_blocks(seed: int) -> None:
    ordered, died = order_of(Random(seed))
    buffer = BlockBuffer()
    joined = Assembler(buffer, ManualClock(UnixMs(NOW)), is_joined=True)
    for update in ordered:
        joined.take(update)
    end = int(calm().blocks[-1].slot) + 1
    joined.take(part(end, 0, 1_000))

    for block in calm().blocks[1:]:
        held = buffer.block(block.slot)
        assert held is not None, seed
        assert (held.blockhash, held.time) == (block.blockhash, block.time), seed
        assert swaps_of(held) == calm().swaps[block.slot], seed
    assert all(buffer.block(Slot(slot)) is None for slot in died), seed


def test_messages_without_a_bank_do_not_change_the_swaps_of_a_block() -> None:
    for seed in range(ORDERS):
        expect_no_wrong_block(seed)


def expect_no_wrong_block(seed: int) -> None:
    random = Random(seed)
    ordered, _ = order_of(random)
    buffer = BlockBuffer()
    joined = Assembler(buffer, ManualClock(UnixMs(NOW)), is_joined=True)
    for update in ordered:
        kind = update.WhichOneof("update_oneof")
        if kind in {"transaction", "block_meta"} and random.random() < 0.3:
            getattr(update, kind).ClearField("bank_id")
        joined.take(update)
    joined.take(part(int(calm().blocks[-1].slot) + 1, 0, 1_000))

    for block in calm().blocks[1:]:
        held = buffer.block(block.slot)
        if held is not None and held.blockhash == block.blockhash:
            assert swaps_of(held) == calm().swaps[block.slot], seed
