"""The same transaction by JSON and by protobuf decodes to the same swaps."""

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from based58 import b58encode
from google.protobuf.json_format import ParseDict

from mintscope.base.yellowstone import geyser_pb2
from mintscope.core.dex.decode import decode_block
from mintscope.core.dex.outcome import Decoded
from mintscope.edges.sources.geyser.transactions import ProtobufTransactions
from support.protobuf_transactions import signature, to_protobuf
from support.scenes.json_transactions import decode_transaction

FOLDERS: Final = ("transactions", "transactions_2026")
STREAMED: Final[dict[str, list[str]]] = {
    "sdp_grpc_tx": [],
    "sdp_grpc_tx2": ["9Tb2ohu5P16BpBarqd3N27WnkF51Ukfs8Z1GzzLDxVZW"],
}


def recorded(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted((folder / "tx").glob("*.json")):
        yield json.loads(path.read_text())


def by_protobuf(entry: dict[str, Any]) -> Decoded:
    wire = to_protobuf(entry, 0).SerializeToString()
    return decode_block(
        ProtobufTransactions([geyser_pb2.SubscribeUpdateTransactionInfo.FromString(wire)])
    )


def named(decoded: Decoded, entry: dict[str, Any]) -> Decoded:
    """Return *decoded* with signatures as protobuf has them: a few recordings made theirs up."""
    name = b58encode(signature(entry["transaction"]["signatures"][0])).decode()
    text = msgspec.json.encode(decoded).decode()
    return msgspec.json.decode(
        text.replace(entry["transaction"]["signatures"][0], name), type=Decoded
    )


@pytest.mark.parametrize("name", FOLDERS)
def test_recorded_transactions_are_the_same(shared_data: Path, name: str) -> None:
    count = 0
    for entry in recorded(shared_data / name):
        text = decode_transaction(json.dumps(entry).encode(), 0)
        assert by_protobuf(entry) == named(text, entry)
        count += len(text.swaps)

    assert count > 0


def in_bytes(value: Any) -> Any:
    """Return *value* with its bytes in base64 instead of the hexadecimal of the recordings."""
    match value:
        case {"__hex": str(digits)}:
            return b64encode(bytes.fromhex(digits)).decode()
        case dict():
            return {name: in_bytes(each) for name, each in value.items()}
        case list():
            return [in_bytes(each) for each in value]
        case _:
            return value


@pytest.mark.parametrize(("name", "pools"), STREAMED.items())
def test_recorded_stream_messages_are_read(shared_data: Path, name: str, pools: list[str]) -> None:
    recording = json.loads((shared_data / "geyser" / f"{name}.json").read_text())
    update = ParseDict(
        in_bytes(recording), geyser_pb2.SubscribeUpdate(), ignore_unknown_fields=True
    )

    decoded = decode_block(ProtobufTransactions([update.transaction.transaction]))

    assert [swap.pool for swap in decoded.swaps] == pools
    assert not decoded.quarantined
