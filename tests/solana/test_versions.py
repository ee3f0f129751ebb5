"""A transaction of an unknown version or shape is quarantined without its block."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mintscope.dex.decode import decode_block
from mintscope.dex.outcome import QuarantineReason
from mintscope.kit.primitives import Signature
from mintscope.solana.blocks import Block
from mintscope.solana.files import FileSource
from mintscope.solana.transaction import Transaction, UnreadableTransaction
from mintscope.solana.wire import JsonTransactions

V1 = "ysZEH25dfiiZMm94fJ1yrkSqpNFeMQsstY5ueBkxCmj8q1Q2cdneGc5iAEwx7Hhft2ZcXabj5CTV3VjGzKpxjCV"


@pytest.fixture
def recorded(shared_data: Path) -> dict[str, Any]:
    """Return a recorded transaction of version 1, from 3 October 2026."""
    path = shared_data / "transactions_2026" / "tx" / f"{V1}.json"
    read: dict[str, Any] = json.loads(path.read_bytes())
    assert read["version"] == 1
    return read


def entries(*transactions: dict[str, Any]) -> JsonTransactions:
    return JsonTransactions([msgspec.Raw(json.dumps(each).encode()) for each in transactions])


def test_a_transaction_of_version_1_is_read(recorded: dict[str, Any]) -> None:
    (read,) = entries(recorded)

    assert isinstance(read, Transaction)
    assert read.signature == V1
    assert len(read.keys) == len(recorded["transaction"]["message"]["accountKeys"])


@pytest.mark.parametrize("version", [2, 127, 10**6, -1, "next", ""])
def test_a_transaction_of_an_unknown_version_is_quarantined_alone(
    recorded: dict[str, Any], version: int | str
) -> None:
    unknown = {**recorded, "version": version}

    one, other, third = entries(recorded, unknown, recorded)
    assert other == UnreadableTransaction(1, Signature(V1), "unknown_version")
    assert isinstance(one, Transaction)
    assert isinstance(third, Transaction)

    decoded = decode_block(entries(recorded, unknown, recorded))
    alone = decode_block(entries(recorded))
    assert len(decoded.swaps) == 2 * len(alone.swaps)
    reasons = [each.reason for each in decoded.quarantined if each.transaction_index == 1]
    assert reasons == [QuarantineReason.UNKNOWN_VERSION]


@pytest.mark.parametrize("version", [1.5, [], {}, True, 2**70])
def test_a_malformed_version_makes_only_its_transaction_unreadable(
    recorded: dict[str, Any], version: object
) -> None:
    read = list(entries(recorded, {**recorded, "version": version}, recorded))

    assert isinstance(read[1], UnreadableTransaction)
    assert isinstance(read[2], Transaction)


def test_a_failed_transaction_of_an_unknown_version_is_left_out(recorded: dict[str, Any]) -> None:
    meta = {**recorded["meta"], "err": {"InstructionError": [0, "Custom"]}}

    assert list(entries({**recorded, "version": 2, "meta": meta})) == []


async def test_a_block_file_is_read_past_an_unknown_version(
    recorded: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "blocks.jsonl"
    lines = [
        {"slot": 7, "transactions": [recorded, {**recorded, "version": 2}, {"odd": 1}, recorded]},
        {"slot": 8, "transactions": [recorded]},
    ]
    path.write_text("\n".join(map(json.dumps, lines)))

    blocks = [each async for each in FileSource([path]).updates(None) if isinstance(each, Block)]

    assert [block.slot for block in blocks] == [7, 8]
    kinds = [isinstance(each, Transaction) for each in blocks[0].transactions]
    assert kinds == [True, False, False, True]
