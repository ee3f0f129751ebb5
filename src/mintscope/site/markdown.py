"""Documentation pages as Markdown, and syntax highlighting of programs."""

import re
from collections.abc import Sequence
from functools import lru_cache
from html.parser import HTMLParser
from typing import Final

from markupsafe import Markup, escape
from typing_extensions import override

ARTICLE: Final = "docs-article"
HEADINGS: Final = {f"h{level}": "#" * level for level in range(1, 7)}
BLOCKS: Final = {"p", "div", "section", "header", "article", "figcaption", "dt", "dd", "legend"}
LISTS: Final = {"ul", "ol"}
# Elements that are not part of the text of a page, such as controls.
SILENT: Final = {"form", "fieldset", "button", "input", "script", "svg", "textarea", "label"}
# Elements without an end tag: they do not change the nesting depth.
EMPTY: Final = {"input", "br", "img", "hr", "meta", "link"}
STRONG: Final = {"strong": "**", "em": "*", "dt": "**"}
DOCS: Final = "/docs"


def markdown_of(page: str, origin: str) -> str:
    """Return the article of the HTML *page* as Markdown; links to this site begin with *origin*.

    Links to other documentation pages lead to their Markdown versions.
    """
    reader = _Reader(origin)
    reader.feed(page)
    return re.sub(r"\n{3,}", "\n\n", "".join(reader.parts)).strip() + "\n"


class _Reader(HTMLParser):
    """Collects the text of the article in *parts*, except for the text of forms and scripts."""

    def __init__(self, origin: str) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._origin = origin
        self._depth = 0  # nesting depth in the article; 0 outside it
        self._silent = 0  # nesting depth in a silent element; 0 outside it
        self._lists: list[str] = []
        self._program: str | None = None  # language of the current program
        self._links: list[str] = []

    @override
    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in EMPTY:
            return
        if not self._depth:
            self._depth = int(ARTICLE in (given.get("class") or "").split())
            return
        self._depth += 1
        if self._silent or tag in SILENT or ("hidden" in given and tag != "pre"):
            self._silent += 1
            return
        self._open(tag, given)

    def _open(self, tag: str, given: dict[str, str | None]) -> None:
        if tag in HEADINGS:
            self.parts.append(f"\n\n{HEADINGS[tag]} ")
        elif tag in LISTS:
            self._lists.append(tag)
            self.parts.append("\n")
        elif tag == "li":
            mark = "1." if self._lists[-1:] == ["ol"] else "-"
            self.parts.append(f"\n{'  ' * (len(self._lists) - 1)}{mark} ")
        elif tag == "pre":
            self._program = ""
        elif tag == "code":
            self._open_code(given)
        elif tag == "a":
            self._links.append(self._address(given.get("href") or ""))
            self.parts.append("[")
        elif tag in BLOCKS and not self._lists:
            self.parts.append("\n\n")
        self.parts.append(STRONG.get(tag, ""))

    def _open_code(self, given: dict[str, str | None]) -> None:
        if self._program is None:
            self.parts.append("`")
        else:
            self._program = given.get("data-language") or ""
            self.parts.append(f"\n\n```{self._program}\n")

    @override
    def handle_endtag(self, tag: str) -> None:
        if not self._depth or tag in EMPTY:
            return
        self._depth -= 1
        if self._silent:
            self._silent -= 1
            return
        self.parts.append(STRONG.get(tag, ""))
        if tag in LISTS:
            self._lists.pop()
            self.parts.append("\n")
        elif tag == "a":
            self.parts.append(f"]({self._links.pop()})")
        elif tag == "code":
            self.parts.append("`" if self._program is None else "\n```\n")
        elif tag == "pre":
            self._program = None
        elif tag == "dt":
            self.parts.append(":")

    @override
    def handle_data(self, data: str) -> None:
        if not self._depth or self._silent:
            return
        if self._program is not None:
            self.parts.append(data)
        elif text := re.sub(r"\s+", " ", data):
            is_at_start = not self.parts or self.parts[-1].endswith(("\n", "# ", "- ", "1. "))
            self.parts.append(text.lstrip() if is_at_start else text)

    def _address(self, address: str) -> str:
        if not address.startswith("/"):
            return address
        path, mark, place = address.partition("#")
        if path == DOCS or path.startswith(f"{DOCS}/"):
            path += ".md"
        return f"{self._origin}{path}{mark}{place}"


STRING: Final = r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`"
NUMBER: Final = r"\b\d[\d_]*(?:\.\d+)?\b"
WORDS: Final = {
    "python": "and|as|assert|async|await|break|def|else|except|False|finally|for|from|if|import|in"
    "|is|lambda|None|not|or|pass|raise|return|True|try|while|with|yield",
    "ts": "async|await|break|catch|const|else|export|false|for|from|function|if|import|in|let|new"
    "|null|of|return|throw|true|try|while",
    "sh": "curl|export|mintscope|npm|pip|python|node",
    "json": "true|false|null",
}
# In a shell, # begins a comment only after white space, not within a word such as a URL.
COMMENTS: Final = {"python": r"\#[^\n]*", "sh": r"(?<!\S)\#[^\n]*", "ts": r"//[^\n]*"}
CLASSES: Final = {"comment": "c", "key": "k", "string": "s", "word": "w", "number": "n"}


@lru_cache(maxsize=512)
def highlight(text: str, language: str) -> Markup:
    """Return *text* as HTML with syntax highlighting; unknown languages are only escaped."""
    text = text.strip("\n")
    if language not in WORDS:
        return escape(text)
    parts = []
    at = 0
    for found in _pattern(language).finditer(text):
        name = found.lastgroup or ""
        parts += [
            escape(text[at : found.start()]),
            Markup('<span class="{}">{}</span>').format(CLASSES[name], found[0]),
        ]
        at = found.end()
    return Markup("").join([*parts, escape(text[at:])])


@lru_cache(maxsize=8)
def _pattern(language: str) -> re.Pattern[str]:
    kinds = [("comment", COMMENTS[language])] if language in COMMENTS else []
    if language == "json":
        # Before strings, because the first alternative that matches counts.
        kinds.append(("key", rf"(?:{STRING})(?=\s*:)"))
    kinds += [
        ("string", STRING),
        # Not a part of a name with dots or hyphens, such as `mintscope-client`.
        ("word", rf"(?<![\w.-])(?:{WORDS[language]})(?![\w-])"),
        ("number", NUMBER),
    ]
    return re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in kinds))
