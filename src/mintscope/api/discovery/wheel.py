"""The wheel of the Python client, built from the installed modules.

Source    PyPA, binary distribution format
"""

import csv
import io
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from hashlib import sha256
from importlib.metadata import distribution
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

NAME: Final = "mintscope_client"
DISTRIBUTION: Final = "mintscope-client"
KEPT: Final = ("METADATA", "WHEEL", "entry_points.txt")


def wheel_name(version: str) -> str:
    """Return the file name of the wheel, which pip parses."""
    return f"{NAME}-{version}-py3-none-any.whl"


def write_wheel(version: str) -> bytes:
    """Return the wheel; the same bytes for the same modules, in every process."""
    folder = f"{NAME}-{version}.dist-info"
    installed = distribution(DISTRIBUTION)
    content = dict(_modules())
    content |= {f"{folder}/{name}": (installed.read_text(name) or "").encode() for name in KEPT}
    record = io.StringIO()
    lines = csv.writer(record, lineterminator="\n")
    for name, body in content.items():
        digest = urlsafe_b64encode(sha256(body).digest()).rstrip(b"=").decode()
        lines.writerow((name, f"sha256={digest}", len(body)))
    lines.writerow((f"{folder}/RECORD", "", ""))
    content[f"{folder}/RECORD"] = record.getvalue().encode()
    return _zipped(content)


def _modules() -> Iterator[tuple[str, bytes]]:
    yield from _under(files(NAME), NAME)


def _under(place: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    """Yield the files at *place* and in its folders, in the order of their names."""
    if place.is_file():
        yield path, place.read_bytes()
        return
    for each in sorted(place.iterdir(), key=lambda one: one.name):
        if each.name != "__pycache__":
            yield from _under(each, f"{path}/{each.name}")


def _zipped(content: dict[str, bytes]) -> bytes:
    archive = io.BytesIO()
    with ZipFile(archive, "w", ZIP_DEFLATED) as target:
        for name, body in content.items():
            target.writestr(ZipInfo(name), body, ZIP_DEFLATED)  # ZipInfo is of 1980
    return archive.getvalue()
