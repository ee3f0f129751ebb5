"""The stubs of the vendored protocol are what protoc makes of it."""

import re
from pathlib import Path

from support.protocol import PROTOCOL, generate


def test_the_stubs_match_the_proto_files(tmp_path: Path) -> None:
    generate(tmp_path)

    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_text() for path in PROTOCOL.glob("*_pb2.py*")}
    assert len(made) == 4


def test_every_licence_that_a_proto_file_names_lies_beside_it() -> None:
    for path in PROTOCOL.glob("*.proto"):
        header = path.read_text().partition("syntax")[0]
        named = set(re.findall(r"LICENSE-[A-Z]+[-0-9.]*\.txt", header))
        assert named == {file.name for file in PROTOCOL.glob("LICENSE-*")}
        assert named == {"LICENSE-APACHE-2.0.txt", "LICENSE-MIT.txt"}
    assert "Helius Labs" in (PROTOCOL / "LICENSE-MIT.txt").read_text()
