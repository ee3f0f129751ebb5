"""Reads the mutants that mutmut made of a module, under names that other edits do not change.

mutmut numbers the mutants of a function, and an edit changes the numbers.  A name here has the
function, and its smallest expression or statement that is changed, before and after.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

ORIGINAL: Final = "__mutmut_orig"
BETWEEN: Final = "ǁ"  # in names of mutmut: between a class and its method
# Exit codes that mutmut stores for a survivor: no test failed, or no test calls the function.
ALIVE: Final = {0, 5, 33}
# Exit codes of mutants that were not tried: interrupted, or skipped.
UNTRIED: Final = {None, 2, 34}


class Mutant(NamedTuple):
    """One mutant of a module: its name, its line, whether a test failed, and the tests' seconds."""

    name: str
    line: int
    killed: bool
    seconds: float


class _Meta(msgspec.Struct):
    exit_code_by_key: dict[str, int | None]
    durations_by_key: dict[str, float]


def mutants_of(source: Path, mutated: Path) -> Iterator[Mutant]:
    """Yield the mutants of the module *source* with their outcomes.

    mutated   the file that mutmut made of *source*; it has all mutants
    Raises    SystemExit if a mutant was not tried
    """
    lines = dict(_lines(ast.parse(source.read_text())))
    functions = {
        node.name: node
        for node in ast.walk(ast.parse(mutated.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    meta = msgspec.json.decode(Path(f"{mutated}.meta").read_bytes(), type=_Meta)
    seen: dict[str, int] = {}
    for key, code in meta.exit_code_by_key.items():
        if code in UNTRIED:
            raise SystemExit(f"mutmut has not tried {key}")
        mangled = key.rpartition(".")[2]
        function = mangled.partition("__mutmut_")[0]
        before = functions[function + ORIGINAL]
        after = functions[mangled]
        after.name = before.name
        old, new = _difference(before, after)
        where = function.removeprefix("x_").removeprefix(f"x{BETWEEN}").replace(BETWEEN, ".")
        name = f"{where}: {_text(old)} -> {_text(new)}"
        seen[name] = seen.get(name, 0) + 1
        yield Mutant(
            name if seen[name] == 1 else f"{name} ({seen[name]})",
            lines[where] + old.lineno - before.lineno,
            code not in ALIVE,
            meta.durations_by_key.get(key, 0.0),
        )


def _lines(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the name of each function and method of a module, and its first line number."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield f"{node.name}.{method.name}", method.lineno


def _difference(before: Any, after: Any) -> tuple[Any, Any]:
    """Return the smallest differing expression or statement of *before*, and that of *after*."""
    if type(before) is not type(after):
        return before, after
    children = list(zip(ast.iter_child_nodes(before), ast.iter_child_nodes(after), strict=False))
    unlike = [pair for pair in children if ast.dump(pair[0]) != ast.dump(pair[1])]
    if len(unlike) != 1 or not _is_the_rest_alike(before, after):
        return before, after
    found = _difference(*unlike[0])
    return found if isinstance(found[0], ast.expr | ast.stmt) else (before, after)


def _is_the_rest_alike(before: Any, after: Any) -> bool:
    """Return whether two syntax nodes of one type differ at most inside their child nodes."""
    return all(
        len(old) == len(new)
        if isinstance(old, list) and isinstance(new, list)
        else isinstance(old, ast.AST) == isinstance(new, ast.AST)
        and (isinstance(old, ast.AST) or old == new)
        for (_, old), (_, new) in zip(ast.iter_fields(before), ast.iter_fields(after), strict=True)
    )


def _text(node: ast.AST) -> str:
    return ast.unparse(node).partition("\n")[0]
