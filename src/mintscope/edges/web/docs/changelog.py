"""The changelog as people see it: CHANGELOG.md, read once a process."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

NAME: Final = "CHANGELOG.md"
PLACE: Final = ("mintscope.edges.web", "docs", NAME)


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Changes of one kind: Added, Changed, Fixed, Removed; each in Markdown."""

    kind: str
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """A version, or what comes with the next one."""

    name: str
    groups: tuple[ChangeGroup, ...]


@cache
def releases() -> tuple[Release, ...]:
    """Return what has changed, the newest first."""
    package, *names = PLACE
    text = files(package).joinpath(*names).read_text()
    return tuple(Release(name, tuple(_groups(body))) for name, body in _parts(text, "## "))


def _groups(body: str) -> Iterator[ChangeGroup]:
    for kind, text in _parts(body, "### "):
        lines = re.split(r"^- ", text, flags=re.MULTILINE)[1:]
        yield ChangeGroup(kind, tuple(" ".join(line.split()) for line in lines))


def _parts(text: str, mark: str) -> Iterator[tuple[str, str]]:
    """Yield each heading that begins with *mark*, and what stands under it."""
    for part in re.split(rf"^{mark}", text, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        yield heading.strip(), body
