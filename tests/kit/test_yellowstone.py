"""The vendored proto files of Yellowstone are accompanied by their licences."""

import re
from pathlib import Path

from hatch_build import STUBS

PROTOCOL = Path(__file__).resolve().parents[2] / STUBS


def test_every_licence_that_a_proto_file_names_lies_beside_it() -> None:
    for path in PROTOCOL.glob("*.proto"):
        header = path.read_text().partition("syntax")[0]
        named = set(re.findall(r"LICENSE-[A-Z]+[-0-9.]*\.txt", header))
        assert named == {file.name for file in PROTOCOL.glob("LICENSE-*")}
        assert named == {"LICENSE-APACHE-2.0.txt", "LICENSE-MIT.txt"}
    assert "Helius Labs" in (PROTOCOL / "LICENSE-MIT.txt").read_text()
