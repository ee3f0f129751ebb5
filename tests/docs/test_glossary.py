"""Each term of docs/glossary.md is in the code, and no banned word is used.

ALLOWED has, for each file, the number of uses of each banned word that remain: in names of stored
data and of metrics, and in the meaning of characters.  A number may only shrink: one that is too
high fails the test, like a new use.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
ALLOWED = Path(__file__).with_name("banned_words_left.json")
TERMS = re.findall(r"^\| [^|]+ \| `([A-Za-z_]+)` \|", GLOSSARY.read_text(), re.MULTILINE)
BANNED = re.findall(r"```\n(.*?)```", GLOSSARY.read_text(), re.DOTALL)[0].split()
TREES = ("src", "packages/client/src", "packages/devchain/src")
LOWER, TITLE = "|".join(BANNED), "|".join(map(str.title, BANNED))
WORD = re.compile(rf"(?<![A-Za-z])(?:{LOWER})(?![a-z])|(?<![A-Z])(?:{TITLE})(?![a-z])")


def texts() -> Iterator[Path]:
    """Yield the paths of the files that people read: code, pages and documents."""
    for pattern in ("*.py", "*.html", "*.css", "*.sql"):
        for tree in TREES:
            for path in (ROOT / tree).rglob(pattern):
                if "node_modules" not in path.parts:
                    yield path
    yield from (ROOT / "tests").rglob("*.py")
    yield from ROOT.glob("*.md")
    yield from (ROOT / "docs").rglob("*.md")


def banned_words(text: str) -> Counter[str]:
    """Return the number of each banned word in *text*, alone or as a part of a name."""
    return Counter(word.lower() for word in WORD.findall(text))


def counted() -> dict[str, dict[str, int]]:
    """Return the number of each banned word in each file that has one."""
    own = {GLOSSARY, Path(__file__).resolve()}
    found = {
        path.relative_to(ROOT).as_posix(): dict(banned_words(path.read_text()))
        for path in texts()
        if path not in own and "node_modules" not in path.parts
    }
    return {path: words for path, words in found.items() if words}


@cache
def words_of_the_code() -> set[str]:
    """Return each word of the Python sources; a name such as `first_slot` is one word."""
    sources = (path.read_text() for tree in TREES for path in (ROOT / tree).rglob("*.py"))
    return {word for source in sources for word in re.findall(r"\w+", source)}


@pytest.mark.parametrize("term", TERMS)
def test_every_term_is_in_the_code(term: str) -> None:
    assert term in words_of_the_code()


def test_no_banned_word_is_used() -> None:
    allowed: dict[str, dict[str, int]] = json.loads(ALLOWED.read_text())

    assert counted() == allowed, "use words of docs/glossary.md instead; the list may only shrink"


@pytest.mark.parametrize(
    "text", ["the till is shut", "class Purse:", "a_letter_to", "sign_up_desk", "Nobody knows"]
)
def test_a_banned_word_is_found(text: str) -> None:
    assert banned_words(text).total() == 1


@pytest.mark.parametrize("text", ["until then", "inherit", "keyboard", "desktop", "whiteboard"])
def test_a_longer_word_that_contains_a_banned_word_is_allowed(text: str) -> None:
    assert banned_words(text).total() == 0
