"""A transaction in JSON and in protobuf decodes to the same swaps."""

import json
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha512
from pathlib import Path
from typing import Any, Final

import pytest
from based58 import b58encode
from google.protobuf.json_format import ParseDict

from mintscope.dex.decode import decode_block
from mintscope.dex.outcome import Decoded
from mintscope.solana.yellowstone import geyser_pb2
from mintscope.solana.yellowstone.transactions import ProtobufTransactions
from mintscope_devchain.stream.protobuf import to_protobuf
from support.scenes.json_transactions import decode_transaction
from support.scenes.made_transactions import ALPHABET

FOLDERS: Final = ("transactions", "transactions_2026")
STREAMED: Final[dict[str, list[str]]] = {
    "sdp_grpc_tx": [],
    "sdp_grpc_tx2": ["9Tb2ohu5P16BpBarqd3N27WnkF51Ukfs8Z1GzzLDxVZW"],
}


def recorded(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted((folder / "tx").glob("*.json")):
        entry = json.loads(path.read_text())
        signatures = entry["transaction"]["signatures"]
        if not set(signatures[0]) <= set(ALPHABET):  # a few recordings have an invented signature
            signatures[0] = b58encode(sha512(signatures[0].encode()).digest()).decode()
        yield entry


def by_protobuf(entry: dict[str, Any]) -> Decoded:
    wire = to_protobuf(entry, 0).SerializeToString()
    return decode_block(
        ProtobufTransactions([geyser_pb2.SubscribeUpdateTransactionInfo.FromString(wire)])
    )


@pytest.mark.parametrize("name", FOLDERS)
def test_recorded_transactions_decode_to_the_same_swaps_in_both_forms(
    shared_data: Path, name: str
) -> None:
    count = 0
    for entry in recorded(shared_data / name):
        text = decode_transaction(json.dumps(entry).encode(), 0)
        assert by_protobuf(entry) == text
        count += len(text.swaps)

    assert count > 0


def in_bytes(value: Any) -> Any:
    """Return *value*, part of a recording, with its bytes in base64 instead of hexadecimal."""
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
