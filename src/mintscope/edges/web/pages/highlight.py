"""Programs in colours: what is a string, a comment, a word of the language, a number."""

import re
from functools import lru_cache
from typing import Final

from markupsafe import Markup, escape

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
COMMENTS: Final = {"python": r"\#[^\n]*", "sh": r"(?<!\S)\#[^\n]*", "ts": r"//[^\n]*"}
CLASSES: Final = {"comment": "c", "key": "k", "string": "s", "word": "w", "number": "n"}


@lru_cache(maxsize=512)
def highlight(text: str, language: str) -> Markup:
    """Return *text* as HTML, each part that has a colour in a span; unknown languages have none."""
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
        kinds.append(("key", rf"(?:{STRING})(?=\s*:)"))
    kinds += [
        ("string", STRING),
        ("word", rf"(?<![\w.-])(?:{WORDS[language]})(?![\w-])"),
        ("number", NUMBER),
    ]
    return re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in kinds))
