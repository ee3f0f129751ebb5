"""Finds the container images of deploy/, and whether each is pinned by digest or by tag alone.

A tag can be given to another image later; a digest, the SHA-256 of the image's manifest, cannot.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from prove.supply.locked import ROOT

FOLDER: Final = ROOT / "deploy"
OURS: Final = "mintscope:"  # the image that this repository builds
# The Containerfile names its first image in the default value of an ARG.
_NAMED: Final = re.compile(r"^(?:FROM\s+|ARG \w+=|\s+image:\s+)([^\s#$]+)", re.MULTILINE)
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


class Image(NamedTuple):
    """A container image that a file names; *digest* is None if the file has only a tag."""

    name: str
    tag: str
    digest: str | None


def images(folder: Path = FOLDER) -> Sequence[Image]:
    """Return all container images that files in *folder* name, sorted by name, except OURS.

    Raises ValueError for an image without a tag, or with an invalid digest.
    """
    texts = [(folder / name).read_text() for name in ("Containerfile", "compose.yaml")]
    named = {name for text in texts for name in _NAMED.findall(text)}
    return sorted(_parse(each) for each in named if not each.startswith(OURS))


def _parse(text: str) -> Image:
    named, at, digest = text.partition("@")
    name, _, tag = named.partition(":")
    if not tag or (at and not _DIGEST.fullmatch(digest)):
        raise ValueError(f"expected NAME:TAG or NAME:TAG@sha256:<64 hex>; was {text}")
    return Image(name, tag, digest or None)
