"""The stubs of the vendored protocol are what protoc makes of it."""

from pathlib import Path

from support.protocol import PROTOCOL, generate


def test_the_stubs_match_the_proto_files(tmp_path: Path) -> None:
    generate(tmp_path)

    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_text() for path in PROTOCOL.glob("*_pb2.py*")}
    assert len(made) == 4
