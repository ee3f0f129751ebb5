"""Finds all SQL statements for both engines, even those that no test runs."""

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

import mintscope
from mintscope.kit.sql.database import Batch, inserting, marks

# Modules with SQL for both engines; `app.stores`, `sqlite` and `postgres` have their own SQL.
STORE: Final = re.compile(
    r"^mintscope\.((?!app\.).*\b(\w+_)?store(\.(?!sqlite|postgres)\w+)?"
    r"|credits\.(closing|statements))$"
)
VERBS: Final = ("SELECT ", "INSERT ", "UPDATE ", "DELETE ", "WITH ")


def modules() -> list[ModuleType]:
    """Return the modules that have SQL statements for both engines."""
    found = pkgutil.walk_packages(mintscope.__path__, "mintscope.")
    names = [each.name for each in found if not each.ispkg and STORE.search(each.name)]
    return [importlib.import_module(name) for name in names]


def statements_of(module: ModuleType) -> Iterator[str | Batch]:
    """Yield all constants and strings of *module* that are complete SQL statements."""
    for value in vars(module).values():
        if isinstance(value, Batch) or (isinstance(value, str) and is_statement(value)):
            yield value
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text())
    parts = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    for node in texts:
        if isinstance(node.value, str) and id(node) not in parts and is_statement(node.value):
            yield node.value


def is_statement(text: str) -> bool:
    """Return whether *text* is a complete statement, not a part or template of a statement."""
    text = text.replace("{marks}", "?").strip()
    return (
        text.startswith(VERBS) and "{" not in text and not text.endswith(("WHERE", "FROM", " IN"))
    )


def text_of(statement: str | Batch) -> str:
    """Return the SQL of *statement*; a list of placeholders of any length gets two."""
    text = inserting(statement) if isinstance(statement, Batch) else statement
    return text.format(marks=marks([1, 2])) if "{marks}" in text else text


STATEMENTS: Final = list(
    {repr(each): each for module in modules() for each in statements_of(module)}.values()
)
