"""Putting a mutant's function where the one that was imported is called."""

import ast
import gc
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

Key = tuple[str, int]  # a function's qualified name and first line


class Swapper:
    """The functions of one module that is imported."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._code = compile(path.read_text(), self._path, "exec")
        self._live: dict[Key, list[FunctionType]] = {}
        for each in gc.get_objects():
            if type(each) is FunctionType and each.__code__.co_filename == self._path:
                self._live.setdefault(_key(each.__code__), []).append(each)

    def find(self, tree: ast.Module) -> CodeType | None:
        """Return the one function that *tree* changes, None if it changes what an import runs."""
        changed = compile(ast.fix_missing_locations(tree), self._path, "exec")
        if _imported(changed) != _imported(self._code):
            return None
        before = {_key(each): each for each in _functions(self._code)}
        found = [each for each in _functions(changed) if each != before[_key(each)]]
        return found[0] if len(found) == 1 and _key(found[0]) in self._live else None

    def swap(self, code: CodeType) -> None:
        """Let every reference to the function run *code*."""
        for function in self._live[_key(code)]:
            function.__code__ = code


def lines_of(code: CodeType) -> set[int]:
    """Return the lines of a function, those of its inner functions too."""
    inner = [lines_of(each) for each in code.co_consts if isinstance(each, CodeType)]
    return {line for _, _, line in code.co_lines() if line}.union(*inner) - {code.co_firstlineno}


def _key(code: CodeType) -> Key:
    return code.co_qualname, code.co_firstlineno


def _is_function(code: CodeType) -> bool:
    """Return whether it runs when it is called: no body of a class, no comprehension, no lambda."""
    return bool(code.co_flags & inspect.CO_OPTIMIZED) and not code.co_name.startswith("<")


def _functions(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType) and _is_function(each):
            yield each
        elif isinstance(each, CodeType):
            yield from _functions(each)


def _imported(code: CodeType) -> list[object]:
    """Return all of *code* but the bodies of functions, to be compared."""
    parts: list[object] = [code.co_code, code.co_names]
    for each in code.co_consts:
        if not isinstance(each, CodeType):
            parts.append((type(each), each))
        elif _is_function(each):
            parts.append(_key(each))
        elif each.co_name.startswith("<"):
            parts.append(each)
        else:
            parts.append(_imported(each))
    return parts
