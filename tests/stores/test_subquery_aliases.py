"""Each subquery in FROM has an alias: PostgreSQL 15, the oldest supported version, needs it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import mintscope

FOLDER: Final = Path(mintscope.__path__[0])
FILES: Final = sorted({*FOLDER.rglob("*.py"), *FOLDER.rglob("*.sql")})
LEAST: Final = 25  # with fewer subqueries, the search misses some

IGNORED: Final = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", re.DOTALL)
PLACEHOLDER: Final = re.compile(r"\{\w+\}")  # of a template
TOKEN: Final = re.compile(r'"[^"]*"|[\w.]+|[^\s\w]')
QUERIES: Final = ("SELECT", "WITH", "VALUES")
# Words that may follow an item of FROM that has no alias.
JOINS: Final = frozenset(("JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "NATURAL"))
CONDITIONS: Final = frozenset(("ON", "USING"))
ENDS_OF_FROM: Final = frozenset(
    ("WHERE", "GROUP", "ORDER", "LIMIT", "HAVING", "UNION", "EXCEPT", "INTERSECT")
) | {"WINDOW", "OFFSET", "FOR", "RETURNING", "SET"}
NOT_ALIASES: Final = JOINS | CONDITIONS | ENDS_OF_FROM


def texts_of(path: Path) -> Iterator[str]:
    """Yield the SQL of *path*: the whole file, or each text of a module, with names for values."""
    text = path.read_text()
    if path.suffix == ".sql":
        yield text
        return
    tree = ast.parse(text)
    parts = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts |= {id(part) for part in node.values}
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "placeholder"
                for part in node.values
            )
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.value


def subqueries(text: str) -> Iterator[str | None]:
    """Yield the alias of each subquery in FROM or JOIN of *text*; None if it has no alias."""
    tokens = TOKEN.findall(PLACEHOLDER.sub("placeholder", IGNORED.sub(" ", text)))
    opened: list[bool] = []  # for each parenthesis: it holds a subquery of FROM
    in_from = [False]
    for at, token in enumerate(tokens):
        word = token.upper()
        if word in ("FROM", "JOIN"):
            in_from[-1] = True
        elif word in ENDS_OF_FROM or word == ";":
            in_from[-1] = False
        elif token == "(":
            before = tokens[at - 1].upper() if at else ""
            after = tokens[at + 1].upper() if at + 1 < len(tokens) else ""
            opened.append(
                in_from[-1] and before in ("FROM", "JOIN", ",", "LATERAL") and after in QUERIES
            )
            in_from.append(False)
        elif token == ")" and opened:
            in_from.pop()
            if opened.pop():
                following = tokens[at + 1] if at + 1 < len(tokens) else ""
                if following.upper() == "AS":
                    following = tokens[at + 2]
                is_name = re.match(r'["\w]', following) and following.upper() not in NOT_ALIASES
                yield following if is_name else None


def test_each_subquery_has_an_alias() -> None:
    found = [
        (path.name, text, alias)
        for path in FILES
        for text in texts_of(path)
        for alias in subqueries(text)
    ]

    assert [(name, text) for name, text, alias in found if alias is None] == []
    assert len(found) >= LEAST
    assert {"at_risk", "risks", "reverted", "sold_today"} <= {alias for _, _, alias in found}


@pytest.mark.parametrize(
    ("text", "aliases"),
    [
        ("SELECT count(*) FROM (SELECT 1 FROM a LIMIT 1)", [None]),
        ("SELECT (SELECT 1 FROM (SELECT 2)) FROM b", [None]),
        ("SELECT 1 FROM a, (SELECT 2 FROM c) WHERE a.x = 1", [None]),
        ("SELECT 1 FROM a JOIN (VALUES (1)) ON 1 = 1", [None]),
        ("SELECT 1 FROM (SELECT ')' -- (\n) AS one, (SELECT 2) two", ["one", "two"]),
        ("SELECT extract(epoch FROM now()), x IN (SELECT 1 FROM d) FROM e", []),
    ],
)
def test_subqueries_are_found_with_their_aliases(text: str, aliases: list[str | None]) -> None:
    assert list(subqueries(text)) == aliases
