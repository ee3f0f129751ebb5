"""Files, functions, folders and ports are small enough to understand at once.

Larger parts are listed with their size.  The list may only shrink: an entry that is too high, or
no longer needed, fails like a file that is too long.
"""

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
SERVICE: Final = ROOT / "src" / "mintscope"
PACKAGES: Final = (ROOT / "packages" / "client" / "src", ROOT / "packages" / "devchain" / "src")
FILE_LINES_MAX: Final = 600
FUNCTION_LINES_MAX: Final = 70
FOLDER_FILES_MAX: Final = 15
PORT_METHODS_MAX: Final = 7
FOLDERS_MAX: Final = 42
IMPORTS_SHARE_MAX: Final = 0.07

# Parts larger than the budget, and their size.
LONGER_FILES: Final[dict[str, int]] = {}
LONGER_FUNCTIONS: Final[dict[str, int]] = {}
FULLER_FOLDERS: Final[dict[str, int]] = {
    "alerts": 16,  # all of alerts in one folder: three ways of delivery, one of them a bot
}
WIDER_PORTS: Final[dict[str, int]] = {
    "market/store/mints.py:MarketTables": 8,  # a method for each bulk statement of an engine
}


@cache
def modules() -> list[tuple[str, Path]]:
    return [
        (path.relative_to(tree).as_posix(), path)
        for tree in (SERVICE, *PACKAGES)
        for path in sorted(tree.rglob("*.py"))
        if "node_modules" not in path.parts
    ]


class Part(NamedTuple):
    """A function, class or import; *bases* and *methods* are those of a class."""

    where: str
    kind: type[ast.stmt]
    lines: int
    bases: tuple[str, ...]
    methods: frozenset[str]


FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
IMPORTS: Final = (ast.Import, ast.ImportFrom)


@cache
def parts() -> list[Part]:
    """Return the functions, classes and imports of all modules of the service."""
    return [
        _part(name, node)
        for name, path in modules()
        for node in _within(ast.parse(path.read_text()).body)
        if isinstance(node, (*FUNCTIONS, *IMPORTS, ast.ClassDef))
    ]


def _part(module: str, node: ast.stmt) -> Part:
    assert node.end_lineno is not None
    bases = _bases(node) if isinstance(node, ast.ClassDef) else ()
    methods = _methods_of(node) if isinstance(node, ast.ClassDef) else frozenset()
    where = f"{module}:{getattr(node, 'name', '')}"
    return Part(where, type(node), node.end_lineno - node.lineno + 1, bases, methods)


def _bases(node: ast.ClassDef) -> tuple[str, ...]:
    names = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
    return tuple(name.id for name in names if isinstance(name, ast.Name))


def _methods_of(node: ast.ClassDef) -> frozenset[str]:
    return frozenset(each.name for each in node.body if isinstance(each, FUNCTIONS))


def _within(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield each statement of *body*, and the statements in it; no expression has statements."""
    for each in body:
        yield each
        blocks = (getattr(each, name, None) for name in ("body", "orelse", "finalbody"))
        for block in blocks:
            yield from _within(block or [])
        for part in (*getattr(each, "handlers", ()), *getattr(each, "cases", ())):
            yield from _within(part.body)


def file_lines() -> dict[str, int]:
    return {name: len(path.read_text().splitlines()) for name, path in modules()}


def function_lines() -> dict[str, int]:
    lines: dict[str, int] = {}
    for part in parts():
        if part.kind in FUNCTIONS:
            lines[part.where] = max(lines.get(part.where, 0), part.lines)
    return lines


def folder_files() -> dict[str, int]:
    names = (name for name, _ in modules() if not name.endswith("__init__.py"))
    return Counter(name.rpartition("/")[0] for name in names)


def port_methods() -> dict[str, int]:
    """Return the number of methods of each port, with methods inherited from other ports."""
    ports = [
        part
        for part in parts()
        if part.kind is ast.ClassDef
        and "Protocol" in part.bases
        and not part.where.startswith("mintscope_client/")  # it is independent: own Clock
    ]
    by_name = {part.where.partition(":")[2]: part for part in ports}
    assert len(by_name) == len(ports), "expected each port to have a name of its own"
    return {part.where: len(_methods(part, by_name)) for part in ports}


def _methods(port: Part, ports: dict[str, Part]) -> frozenset[str]:
    return port.methods.union(
        *(_methods(ports[base], ports) for base in port.bases if base in ports)
    )


@pytest.mark.parametrize(
    ("measure", "most", "exceptions"),
    [
        pytest.param(file_lines, FILE_LINES_MAX, LONGER_FILES, id="lines of a file"),
        pytest.param(
            function_lines, FUNCTION_LINES_MAX, LONGER_FUNCTIONS, id="lines of a function"
        ),
        pytest.param(folder_files, FOLDER_FILES_MAX, FULLER_FOLDERS, id="files of a folder"),
        pytest.param(port_methods, PORT_METHODS_MAX, WIDER_PORTS, id="methods of a port"),
    ],
)
def test_only_listed_parts_are_larger_than_their_limit(
    measure: Callable[[], dict[str, int]], most: int, exceptions: dict[str, int]
) -> None:
    larger = {name: size for name, size in measure().items() if size > most}
    assert larger == exceptions, f"expected at most {most}; the exceptions listed may only shrink"


def test_the_number_of_folders_is_limited() -> None:
    """Add a folder only for files that do not fit into an existing folder."""
    folders = {path.parent for _, path in modules() if SERVICE in path.parents}

    assert len(folders) <= FOLDERS_MAX


def test_imports_are_a_small_part_of_all_lines() -> None:
    """A file that uses many names of a module imports the module, to keep imports short."""
    imports = sum(part.lines for part in parts() if part.kind in IMPORTS)

    assert imports / sum(file_lines().values()) <= IMPORTS_SHARE_MAX


def test_the_engine_is_chosen_in_one_module() -> None:
    """No other module tests `config.store`: code that depends on the engine is in the engine."""
    asking = [name for name, path in modules() if "config.store is" in path.read_text()]

    assert asking == ["app/engine.py"]
