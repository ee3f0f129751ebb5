"""Make the stubs of the vendored .proto files: `python -m support.protocol`, or `make protocol`."""

import re
from importlib.resources import files
from pathlib import Path
from typing import Final

from grpc_tools import protoc

PACKAGE: Final = "mintscope.solana.yellowstone"
PROTOCOL: Final = (
    Path(__file__).resolve().parents[2] / "src" / "mintscope" / "solana" / "yellowstone"
)
NAMES: Final = ("geyser", "solana-storage")


def generate(folder: Path) -> None:
    """Write the stubs into *folder*, importing each other from where they belong."""
    arguments = [
        "protoc",
        f"-I{PROTOCOL}",
        f"-I{files('grpc_tools') / '_proto'}",
        f"--python_out={folder}",
        f"--pyi_out={folder}",
        *(f"{name}.proto" for name in NAMES),
    ]
    if protoc.main(arguments) != 0:
        raise SystemExit("protoc could not read the .proto files")
    for stub in folder.glob("*_pb2.py*"):
        text = stub.read_text()
        text = re.sub("(?m)^import solana_s", f"from {PACKAGE} import solana_s", text)
        text = re.sub("(?m)^from solana_s", f"from {PACKAGE}.solana_s", text)
        stub.write_text(text)


if __name__ == "__main__":
    generate(PROTOCOL)
