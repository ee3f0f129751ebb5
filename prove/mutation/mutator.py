"""Every small change to a module: a comparison, an operator, a constant, a condition, a return.

Text for people is left alone: docstrings, annotations, decorators, the texts of errors and
the bodies of ports.
"""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

SWAPS: Final[dict[type[ast.AST], type[ast.AST]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
UNREAD: Final = {"annotation", "returns", "decorator_list", "keywords of a class", "type_params"}


@dataclass(frozen=True)
class Change:
    """One mutant; its name says where it is and what becomes what, and outlives moved lines."""

    line: int
    name: str
    tree: ast.Module


def changes(source: str) -> Iterator[Change]:
    """Yield every change to *source*, in its order."""
    tree = ast.parse(source)
    seen: dict[str, int] = {}
    for place in list(_places(tree, "")):
        for holder, key, new in _replacements(place.node):
            old = holder[key] if isinstance(holder, list) else getattr(holder, key)
            before = _text(place.node)
            _put(holder, key, new)
            name = f"{place.where}: {before} -> {_text(place.node)}"
            seen[name] = seen.get(name, 0) + 1
            number = "" if seen[name] == 1 else f" ({seen[name]})"
            yield Change(place.node.lineno, name + number, copy.deepcopy(tree))
            _put(holder, key, old)


@dataclass(frozen=True)
class _Place:
    node: Any
    where: str


def _places(node: ast.AST, where: str) -> Iterator[_Place]:
    """Yield everything below *node* that runs."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        where = f"{where}.{node.name}".lstrip(".")
    elif isinstance(node, ast.AnnAssign) and not where:
        where = _text(node.target)
    if isinstance(node, ast.expr | ast.stmt):
        yield _Place(node, where)
    for name, value in ast.iter_fields(node):
        if name in UNREAD or (name == "keywords" and isinstance(node, ast.ClassDef)):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_prose(child, node):
                yield from _places(child, where)


def _is_prose(child: ast.AST, parent: ast.AST) -> bool:
    """Return whether no one but people reads *child*."""
    match child:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.JoinedStr():
            return _is_raised(parent)
        case ast.Constant(value=str()):
            return _is_raised(parent) or isinstance(
                parent, ast.Subscript | ast.JoinedStr | ast.Assert
            )
        case ast.ClassDef(bases=bases):
            return any(isinstance(base, ast.Name) and base.id == "Protocol" for base in bases)
        case ast.Call(func=function):
            return _text(function) in {"NewType", "TypeVar"}
        case _:
            return False


def _is_raised(node: ast.AST) -> bool:
    """Return whether *node* makes an error, by its name; the text of an error is for people."""
    return isinstance(node, ast.Call) and _text(node.func).rpartition(".")[2][:1].isupper()


def _replacements(node: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield (holder, key, new) of each change to *node* itself."""
    match node:
        case ast.Compare(ops=ops):
            for number, op in enumerate(ops):
                yield ops, number, SWAPS[type(op)]()
        case ast.BoolOp(op=op) | ast.BinOp(op=op) | ast.AugAssign(op=op):
            if not _is_union(node):
                yield node, "op", SWAPS[type(op)]()
        case ast.Constant(value=value):
            for other in _others(value):
                yield node, "value", other
        case ast.UnaryOp() | ast.Return() | ast.If() | ast.IfExp() | ast.Expr():
            yield from _replaced(node)
        case _:
            pass


def _replaced(node: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield nodes that are turned round, or left out, as a whole."""
    match node:
        case ast.UnaryOp(op=ast.USub()):
            yield node, "op", ast.UAdd()
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, "operand", ast.UnaryOp(ast.Not(), operand)
        case ast.Return(value=value) if value and not isinstance(value, ast.Constant):
            yield node, "value", ast.Constant(None)
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield node, "value", ast.Constant(None)
        case ast.If() | ast.IfExp() if isinstance(node.test, ast.Name | ast.Attribute | ast.Call):
            yield node, "test", ast.UnaryOp(ast.Not(), node.test)
        case _:
            pass


def _others(value: object) -> list[object]:
    match value:
        case bool():
            return [not value]
        case int() | float():
            return [value + 1]
        case str():
            return [f"{value}x"]
        case bytes():
            return [value + b"x"]
        case _:
            return []


def _is_union(node: Any) -> bool:
    """Return whether it is a union of types, `A | B`, at the level of the module."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)):
        return False
    names = [part for part in (node.left, node.right) if not isinstance(part, ast.BinOp)]
    return all(_text(name)[:1].isupper() or _text(name) in {"int", "str", "None"} for name in names)


def _put(holder: Any, key: Any, new: Any) -> None:
    if isinstance(holder, list):
        holder[key] = new
    else:
        setattr(holder, key, new)


def _text(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(copy.copy(node))).partition("\n")[0]
