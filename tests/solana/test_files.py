"""Block files: each form of a line yields the same block, and each error has a clear message."""

import asyncio
import gzip
import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from mintscope.kit.primitives import Slot, UnixS
from mintscope.solana.blocks import Block, Finalized, Gap, Tip, Update
from mintscope.solana.files import FileError, FileSource
from mintscope.solana.wire import JsonTransactions

TRANSACTION = {"transaction": {"signatures": ["s"]}, "meta": {"err": None}}


def line(slot: int, **keys: Any) -> dict[str, Any]:
    return {"slot": slot, "transactions": [], **keys}


def written(folder: Path, lines: list[Any], name: str = "blocks.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    return path


async def read(*paths: Path, after: Tip | None = None) -> list[Update]:
    return [update async for update in FileSource(paths).updates(after)]


async def read_until_error(*paths: Path) -> tuple[list[Update], str]:
    updates = []
    try:
        async for update in FileSource(paths).updates(None):
            updates.append(update)  # noqa: PERF401 - the updates before the error must be kept
    except FileError as error:
        return updates, str(error)
    pytest.fail("expected a FileError; was none")


def slots(updates: list[Update]) -> list[int]:
    return [update.slot for update in updates if isinstance(update, Block)]


FULL = {
    "blockhash": "hash-7",
    "previousBlockhash": "hash-5",
    "parentSlot": 5,
    "blockTime": 1_700_000_000,
    "blockHeight": 6,
    "rewards": [],
    "transactions": [TRANSACTION],
}


@pytest.mark.parametrize(
    "text",
    [
        {"slot": 7, **FULL},
        {"slot": 7, "block": FULL},
        {"jsonrpc": "2.0", "result": {"slot": 7, **FULL}, "id": 1},
        {"jsonrpc": "2.0", "slot": 7, "result": FULL, "id": 1},
    ],
    ids=["flat", "block", "envelope", "envelope with the slot beside"],
)
@pytest.mark.parametrize("packed", [False, True])
async def test_every_form_of_a_line_yields_the_same_block(
    tmp_path: Path, text: dict[str, Any], *, packed: bool
) -> None:
    path = written(tmp_path, [text])
    if packed:
        path.write_bytes(gzip.compress(path.read_bytes()))

    block, final = await read(path)

    assert isinstance(block, Block)
    assert (block.slot, block.parent_slot, block.time) == (7, 5, 1_700_000_000)
    assert (block.blockhash, block.parent_blockhash) == ("hash-7", "hash-5")
    assert isinstance(block.transactions, JsonTransactions)
    assert [msgspec.json.decode(each) for each in block.transactions.entries] == [TRANSACTION]
    assert final == Finalized(Slot(7))


async def test_lines_without_parents_form_a_chain_of_final_blocks(tmp_path: Path) -> None:
    first, final_5, second, final_9 = await read(written(tmp_path, [line(5), line(9)]))

    assert isinstance(first, Block)
    assert isinstance(second, Block)
    assert (second.parent_slot, second.parent_blockhash) == (5, first.blockhash)
    assert (final_5, final_9) == (Finalized(Slot(5)), Finalized(Slot(9)))


async def test_a_parent_slot_after_the_previous_line_is_a_gap(tmp_path: Path) -> None:
    path = written(tmp_path, [line(5), line(9, parentSlot=8)])

    updates = await read(path)

    assert updates[2] == Gap(Slot(6), Slot(8), f"not in the files before {path}:2")
    assert slots(updates) == [5, 9]


async def test_a_parent_slot_before_the_previous_line_is_a_fork(tmp_path: Path) -> None:
    updates = await read(written(tmp_path, [line(5), line(6), line(7, parentSlot=5)]))

    assert slots(updates) == [5, 6, 7]
    assert Finalized(Slot(6)) not in updates
    assert not [update for update in updates if isinstance(update, Gap)]


@settings(max_examples=60, derandomize=True)
@given(st.sets(st.integers(0, 60), min_size=1, max_size=30), st.data())
def test_resuming_after_any_block_goes_on_with_the_next(
    tmp_path_factory: pytest.TempPathFactory, numbers: set[int], data: st.DataObject
) -> None:
    path = written(tmp_path_factory.mktemp("files"), [line(slot) for slot in sorted(numbers)])
    whole = _run(path, None)
    stopped = data.draw(st.sampled_from([each for each in whole if isinstance(each, Block)]))

    rest = _run(path, Tip(stopped.slot, stopped.blockhash))

    assert rest == [*whole[whole.index(stopped) + 1 :]]


def _run(path: Path, after: Tip | None) -> list[Update]:
    return asyncio.run(read(path, after=after))


async def test_files_that_begin_after_the_tip_follow_it(tmp_path: Path) -> None:
    tip = Tip(Slot(4), "seen elsewhere")

    final, block, _ = await read(written(tmp_path, [line(6)]), after=tip)

    assert final == Finalized(Slot(4))
    assert isinstance(block, Block)
    assert (block.parent_slot, block.parent_blockhash) == (4, "seen elsewhere")


async def test_several_files_are_read_as_one(tmp_path: Path) -> None:
    one = written(tmp_path, [line(1), line(2)], "one.jsonl")
    two = written(tmp_path, [line(3)], "two.jsonl")
    heard: list[tuple[int, int]] = []
    source = FileSource([one, two], progress=lambda done, total: heard.append((done, total)))

    updates = [update async for update in source.updates(None)]

    assert slots(updates) == [1, 2, 3]
    size = one.stat().st_size + two.stat().st_size
    assert heard[-1] == (size, size)


async def test_the_file_is_not_read_far_ahead_of_the_consumer(tmp_path: Path) -> None:
    path = written(tmp_path, [line(slot, note="x" * 100_000) for slot in range(1, 60)])
    heard: list[int] = []
    source = FileSource([path], progress=lambda done, _: heard.append(done))

    async for _ in source.updates(None):
        pass

    assert heard[0] < 2_000_000 < path.stat().st_size


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        ('{"slot": 9, "transact', "expected one getBlock answer in JSON; Input data was truncated"),
        ("hello", "expected one getBlock answer in JSON; JSON is malformed"),
        (
            '{"slot": 9, "deep": ' + "[" * 9_000,
            "expected one getBlock answer in JSON; maximum recursion",
        ),
        ('{"slot": 1e400}', "expected one getBlock answer in JSON; Number out of range"),
        ("[1, 2]", "Expected `object`, got `array`"),
        ('{"transactions": []}', 'expected the key "slot"; was none'),
        ('{"slot": 9}', 'expected the key "transactions"; was none'),
        ('{"slot": 9, "block": null}', 'expected the key "transactions"; was none'),
        ('{"slot": -9, "transactions": []}', "Expected `int` >= 0 - at `$.slot`"),
        ('{"slot": "9", "transactions": []}', "Expected `int | null`, got `str` - at `$.slot`"),
        ('{"slot": 9, "transactions": {}}', "Expected `array | null`, got `object`"),
        ('{"slot": 9, "transactions": [], "blockTime": 1.5}', "at `$.blockTime`"),
        ('{"slot": 9, "transactions": [], "blockTime": 1750000000000}', "at `$.blockTime`"),
        ('{"slot": 4, "transactions": []}', "expected a slot above 5 or a parent; was 4"),
        (
            '{"slot": 9, "parentSlot": 9, "transactions": []}',
            "expected a parent slot below slot 9; was 9",
        ),
    ],
)
async def test_a_broken_line_is_reported_after_the_blocks_before_it(
    tmp_path: Path, broken: str, expected: str
) -> None:
    path = written(tmp_path, [line(4), line(5)])
    path.write_text(path.read_text() + broken)

    updates, message = await read_until_error(path)

    assert slots(updates) == [4, 5]
    assert message.startswith(f"{path}:3: ")
    assert expected in message


@pytest.mark.parametrize("cut", [1, 9, 30, 500])
async def test_a_truncated_gzip_file_is_an_error(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "blocks.jsonl.gz"
    text = "".join(json.dumps(line(slot, note=f"{slot * 7919:x}")) + "\n" for slot in range(500))
    path.write_bytes(gzip.compress(text.encode())[:-cut])

    _, message = await read_until_error(path)

    assert "expected a whole gzip file" in message


async def test_a_gzip_file_with_wrong_bytes_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "blocks.jsonl.gz"
    packed = bytearray(gzip.compress(json.dumps(line(1, note="y" * 500)).encode()))
    packed[20] ^= 0xFF
    path.write_bytes(packed)

    _, message = await read_until_error(path)

    assert f"{path}:1: expected a whole gzip file" in message


async def test_a_line_beyond_the_limit_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mintscope.solana.files.LINE_BYTES_MAX", 100)
    path = written(tmp_path, [line(1), line(2, note="z" * 200)])

    _, message = await read_until_error(path)

    assert message == f"{path}:2: expected at most 100 bytes; was more"


async def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "nothing.jsonl"

    _, message = await read_until_error(path)

    assert message == f"{path}: cannot be read: No such file or directory"


async def test_a_pipe_is_refused(tmp_path: Path) -> None:
    first = written(tmp_path, [line(1)])
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR)
    os.write(writer, json.dumps(line(2)).encode() + b"\n")
    updates, message = await read_until_error(first, path)
    os.close(writer)

    assert message == f"{path}: expected a file; was a pipe, which can be read only once"
    assert updates == []


async def test_files_in_the_wrong_order_are_refused_before_any_is_read(tmp_path: Path) -> None:
    later = written(tmp_path, [line(10), line(11)], "later.jsonl")
    empty = written(tmp_path, [], "empty.jsonl")
    earlier = written(tmp_path, [line(1), line(2)], "earlier.jsonl")

    updates, message = await read_until_error(later, empty, earlier)

    assert updates == []
    assert message == (
        f"{earlier}: expected a first slot from 10 on, where {later} begins; was 1:"
        " give the files in the order of their slots"
    )
    assert slots(await read(earlier, empty, later)) == [1, 2, 10, 11]


async def test_a_block_below_the_final_one_is_reported_once(tmp_path: Path) -> None:
    """The block is still delivered, because files may overlap, and repeated blocks do no harm."""
    lines = [line(5), line(6), line(7), line(5, parentSlot=4), line(6), line(7), line(8)]
    path = written(tmp_path, lines)
    with capture_logs() as logs:
        updates = await read(path)

    assert slots(updates) == [5, 6, 7, 5, 6, 7, 8]
    assert logs == [
        {
            "event": "block_not_newer",
            "log_level": "warning",
            "where": f"{path}:4",
            "slot": 5,
            "expected_above": 6,
        }
    ]


async def test_each_file_without_a_block_after_the_tip_is_reported_once(tmp_path: Path) -> None:
    older = written(tmp_path, [line(1), line(3), line(5)], "older.jsonl")
    over = written(tmp_path, [line(104), line(105)], "over.jsonl")
    with capture_logs() as logs:
        updates = await read(older, over, after=Tip(Slot(104), "slot-104"))

    assert slots(updates) == [105]
    assert logs == [
        {
            "event": "block_file_not_newer",
            "log_level": "warning",
            "file": str(older),
            "last_slot": 5,
            "expected_from": 105,
        }
    ]


async def test_real_blocks_are_read(shared_data: Path, tmp_path: Path) -> None:
    blocks = [
        json.loads((shared_data / "blocks" / f"getBlock_{slot}.json").read_text())
        for slot in (43_200_000, 64_800_004)
    ]

    updates = await read(written(tmp_path, blocks))

    first, _, gap, second, _ = updates
    assert isinstance(first, Block)
    assert isinstance(second, Block)
    assert (first.slot, first.time) == (43_200_000, UnixS(1_603_254_141))
    assert len(first.transactions) == len(blocks[0]["transactions"])
    assert isinstance(gap, Gap)
    assert (gap.first, gap.last) == (43_200_001, 64_799_999)
