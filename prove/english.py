"""Checks English for `make check`: finds banned words, and clauses used as nouns.

It reads prose: documents, pages, docstrings, comments and messages, without code and names in them.
`english_left.json` has the number of findings that each folder is still allowed; the numbers must
only fall.
"""

import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from shutil import which
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
LEFT: Final = Path(__file__).with_name("english_left.json")
SUFFIXES: Final = {".py", ".md", ".html", ".sql", ".js", ".ts", ".css", ".toml", ".yaml"}
# Not checked: migrations, because they must not change after they have run.
NOT_OURS: Final = (
    "/migrations/",
    "_pb2",
    "/node_modules/",
    "requirements/",
    "tests/data/",
    "lightweight-charts",
)
OWN: Final = ("prove/english.py", "tests/docs/test_english.py", "docs/glossary.md")
WORDS_MIN: Final = 3  # a string with fewer words is not prose
COMMENTS: Final = {
    ".sql": re.compile(r"--(.*)"),
    ".js": re.compile(r"(?<!:)//(.*)|/\*(.*?)\*/"),
    ".ts": re.compile(r"(?<!:)//(.*)|/\*(.*?)\*/"),
    ".css": re.compile(r"/\*(.*?)\*/", re.DOTALL),
    ".toml": re.compile(r"(?:^|\s)#(.*)", re.MULTILINE),
    "": re.compile(r"(?:^|\s)#+ (.*)", re.MULTILINE),  # of the Makefile, whose name has no suffix
}
# Names in prose count as code: `name`, *name*, and the name of a parameter before its meaning.
CODE: Final = re.compile(
    r"^```.*?^```|`[^`]*`|\*\w+\*|^ {4,}\w+(?=   *\w)", re.DOTALL | re.MULTILINE
)
TEMPLATE: Final = re.compile(
    r"\{[%#{].*?[%#}]\}|<(?:pre|code|script)\b.*?</(?:pre|code|script)>|<[^>]*>", re.DOTALL
)
END_OF_BLOCK: Final = re.compile(
    r"</(?:h\d|p|a|li|td|th|dt|dd|label|title|button|caption)>|\{% endblock"
)
SQL: Final = re.compile(r"\s*(?:SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|PRAGMA|ALTER)\b")
BANNED: Final = re.compile(
    r"\b(?:anew|whence|nobody|whoever|somebody|none the less|that (?:is|are) none|told|tells?)\b",
    re.IGNORECASE,
)
# A sentence (no question) that begins with a relative clause: "Who is signed in sees credits."
HEADLESS: Final = re.compile(
    r"(?:\A(?:[-*] )?|(?<=[.!?:;]\s)|(?<=\n\n)|(?<=\n- )|(?<=\n\* )|(?<=`))\s*"
    r"((?:What|Who|Whom|Whose|Whatever|Whichever)\s(?:(?![.!?;:|](?:[\s`]|\Z)|\n\n).)*)([.!?;:|]?)",
    re.DOTALL,
)

# A docstring that returns a clause: "Return what is kept of a key."
OBJECT: Final = re.compile(
    r"(?:\A|(?<=[.!?:;]\s)|(?<=\n\n))\s*"
    r"((?:Returns?|Yields?)\s(?:what|who|whom|whose|which|where|how|when|why)\s[^.\n]*)"
)

# A condition before a sentence: "Whatever a client sends, the service answers."
ADVERBIAL: Final = re.compile(r"(?:Whatever|Whichever)\b[^,]*,", re.DOTALL)


class Finding(NamedTuple):
    """A passage in a file that is not plain English.

    file    the path of its file from the root of the repository
    text    the beginning of the passage
    """

    file: str
    line: int
    text: str

    @property
    def folder(self) -> str:
        """Return the folder in english_left.json, such as "docs" or "src/mintscope/kit"."""
        parts = self.file.split("/")
        return "/".join(parts[:3] if parts[0] == "src" else parts[:1])


def files() -> list[str]:
    """Return the paths of the files that the English check reads, without symbolic links."""
    git = [which("git") or "git", "ls-files"]
    listed = subprocess.run(git, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [
        name
        for name in listed.splitlines()
        if (Path(name).suffix in SUFFIXES or name == "Makefile")
        and name not in OWN
        and not any(part in name for part in NOT_OURS)
        and not (ROOT / name).is_symlink()
        and (ROOT / name).exists()
    ]


def prose(text: str, suffix: str) -> Iterator[tuple[int, str]]:
    """Yield each passage of prose in *text* with its first line number; code in it is blanked.

    suffix   the suffix of the file's name, such as ".py"
    """
    if suffix == ".py":
        yield from _of_python(text)
    elif suffix in COMMENTS:
        for found in COMMENTS[suffix].finditer(text):
            yield text.count("\n", 0, found.start()) + 1, next(filter(None, found.groups()), "")
    else:
        yield 1, (CODE if suffix in {".md", ".yaml"} else TEMPLATE).sub(_blank, text)


def _of_python(text: str) -> Iterator[tuple[int, str]]:
    """Yield each passage of prose in Python code, with its line number.

    The passages are the comments, and the strings of at least WORDS_MIN words except SQL.
    """
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if len(node.value.split()) >= WORDS_MIN and not SQL.match(node.value):
            yield node.lineno, CODE.sub(_blank, node.value)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and "noqa" not in token.string:
            yield token.start[0], CODE.sub(_blank, token.string.lstrip("# "))


def _blank(found: re.Match[str]) -> str:
    """Return as many backticks as the matched code has characters, to keep its position.

    At the end of a paragraph, the first of them is `|`.
    """
    blank = re.sub(r"[^\n]", "`", found[0])
    return f"|{blank[1:]}" if END_OF_BLOCK.match(found[0]) else blank


def findings(text: str, suffix: str, file: str = "") -> Iterator[Finding]:
    """Yield a finding for each passage of *text* that is not plain English.

    suffix   the suffix of the path *file*, which decides the parts of *text* that are read
    """
    for first, passage in prose(text, suffix):
        for found in BANNED.finditer(passage):
            yield Finding(file, first + passage.count("\n", 0, found.start()), found[0])
        for found in OBJECT.finditer(passage):
            line = first + passage.count("\n", 0, found.start(1))
            yield Finding(file, line, found[1][:60])
        for found in HEADLESS.finditer(passage):
            if found[2] in {".", ":", ";"} and not ADVERBIAL.match(found[1]):
                line = first + passage.count("\n", 0, found.start(1))
                yield Finding(file, line, " ".join(found[1].split())[:60])


def main() -> int:
    """Print the findings of each folder that has more than it may have; return 1 if one has."""
    left: dict[str, int] = json.loads(LEFT.read_text())
    found = [
        one
        for name in files()
        for one in findings((ROOT / name).read_text(), Path(name).suffix, name)
    ]
    counts = Counter(one.folder for one in found)
    if "--count" in sys.argv:
        print(json.dumps(dict(sorted(counts.items())), indent=1))
    wrong = {folder for folder, count in counts.items() if count > left.get(folder, 0)}
    for one in found:
        if one.folder in wrong:
            print(f"{one.file}:{one.line}: {one.text}")
    for folder in sorted(wrong):
        print(f"expected at most {left.get(folder, 0)} in {folder}; there were {counts[folder]}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
